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

// What a like stream's program costs here, leaving out what moves or deals words at its root.
std::optional<Candidate> mate_candidate(Fields& fields, const ChooseOptions& options);

// Known-good structures with their costs, cheapest first. `plain`: cuts into fields alone.
Result<std::vector<Candidate>> known_candidates(const Stream& stream, Fields& fields, bool plain,
                                                const ChooseOptions& options);

}  // namespace brevis::synth
