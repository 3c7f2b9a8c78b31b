// SPDX-License-Identifier: Apache-2.0
//
// Words dealt out to programs of their own by class (`select`, `context`): the whole stream is dealt once, each class
// gets the best known-good structure for its statistics, and what all of them cost together is compared with one
// structure for all.
//
// Threads: pure. Errors: those of reading the stream. Determinism: integers only.
#pragma once

#include "synth/choose.h"
#include "synth/fields.h"
#include "synth/offsets.h"

namespace brevis::synth {

// A node that deals, its slot, and what to beat.
struct Deal {
  dsl::OpId op;
  std::vector<uint64_t> params;
  std::optional<ByteVector> stored;  // fitted to the whole stream when missing
  uint64_t limit = UINT64_MAX;       // of the cost, 1/256 bits
  unsigned counted = 0;              // as in StreamStats
  const dsl::Expr* like = nullptr;   // a program whose classes say how these are cut
};

// The stream under that node, where it costs less than the limit. `entropy`: of the stream, 0 for unknown.
Result<std::optional<Choice>> dealt_choice(const Stream& stream, const Deal& deal, uint64_t frame_words,
                                           uint64_t entropy, const ChooseOptions& options);

// Whether programs of the packer's own choice may have the operator.
bool may_use(const ChooseOptions& options, dsl::OpId op);

// The stream under a `select` of the same steps as the offset at the root of `shifted`, where a sample promised
// something of it and it costs less.
Result<Choice> select_too(const Stream& stream, const OffsetPromise& promise, Choice shifted, Fields& fields,
                          uint64_t entropy, const ChooseOptions& options);

// The stream under the best `context` that a sample promises something of, where one costs less than the limit.
// `plain`: what the stream costs in one piece and as it is.
Result<std::optional<Choice>> by_context(const Stream& stream, Fields& fields, uint64_t plain, uint64_t limit,
                                         uint64_t entropy, const ChooseOptions& options);
// The same where a mate was dealt out: by its `context` where rows are as long and it costs less than the limit, else
// by any, all with classes cut as the mate's are.
Result<std::optional<Choice>> by_context_like(const Mate& mate, const Stream& stream, Fields& fields, uint64_t limit,
                                              uint64_t entropy, const ChooseOptions& options);

}  // namespace brevis::synth
