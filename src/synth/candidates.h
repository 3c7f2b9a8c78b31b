// SPDX-License-Identifier: Apache-2.0
//
// What is known to be good for a stream, with what it costs: the structures that statistics price (known_good.h), those
// that only samples can price, and scans whose strides promise something. The choice and the search start from these.
//
// Errors: those of reading the stream. Threads: pure. Determinism: integers only; ties keep their order.
#pragma once

#include "synth/choose.h"
#include "synth/fields.h"
#include "synth/hints.h"

namespace brevis::synth {

constexpr size_t kPricedByStatistics = 3;  // known-good splits that get as far as the samples

struct Candidate {
  dsl::Expr expr;
  uint64_t cost;  // of the whole stream, 1/256 bits
  bool sampled = false;
};

// The literal that expresses any stream.
dsl::Expr bare_literal();

// Contiguous windows (neighbours matter to scans and zstd), spread evenly over the stream; short ones are looked at
// whole.
Result<Look> draw(const Stream& stream, uint64_t frame_words, const ChooseOptions& options);

// Completes a structure on windows; the cost is scaled up to the `words` of the whole stream. Of no interest from
// `limit` on. `quick`: a fast run stands for zstd.
std::optional<Candidate> price(const dsl::Expr& structure, std::span<const dsl::Window> windows, uint64_t words,
                               uint64_t limit = UINT64_MAX, bool quick = false);

// What a program does below what moves or deals words at its root: of the first of their hands that is not constant.
const dsl::Expr& cut_of(const dsl::Expr& program);
// What Mate::quality is.
uint64_t quality_of(uint64_t cost, uint64_t entropy);
bool moves_fields(dsl::OpId op);
// Whether the mate's offset or context is enough where it wins something. Streams of one role may be of different
// kinds, such as weights, and others that were quantised and widened again: there the same offset may win something,
// and another way far more. `entropy`: of so many words.
bool follows_mate(const ChooseOptions& options, uint64_t entropy, uint64_t words);
// The same of an offset or select, of words of at most 16 bits: wider ones are noise for the most part, so that neither
// their entropy nor what an offset wins tells whether they are of the mate's kind.
bool follows_offset(const ChooseOptions& options, uint64_t entropy, const Stream& stream);
// A mate's cut, priced for these words.
std::optional<Candidate> mate_candidate(Fields& fields, const ChooseOptions& options);

// Known-good structures with their costs, cheapest first. `plain`: cuts into fields alone.
Result<std::vector<Candidate>> known_candidates(const Stream& stream, Fields& fields, bool plain,
                                                const ChooseOptions& options);

}  // namespace brevis::synth
