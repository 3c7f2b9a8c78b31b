// SPDX-License-Identifier: Apache-2.0
//
// From an expression to a choice: the program, with tables trained on the whole stream.
//
// Errors: those of reading the stream. Threads: pure. Determinism: integers only.
#pragma once

#include "synth/foresee.h"

namespace brevis::synth {

// A program of one region at most, of `words` words.
Choice without_tables(dsl::Program program, uint64_t words, uint64_t frame_bytes, uint64_t estimated);

// nullopt when the program does not express all of the stream. Where order-0 statistics reach every slot they were
// gathered already and the stream is not read again.
Result<std::optional<Choice>> train_whole(const Stream& stream, Fields& fields, const dsl::Expr& expr,
                                          const ChooseOptions& options);

// The stream under an offset, below which stands `inner`, where that costs less than `limit`. `entropy`: of the stream,
// 0 for unknown.
Result<std::optional<Choice>> train_moved(const Stream& stream, Moved& moved, const Candidate& inner, uint64_t limit,
                                          uint64_t entropy, const ChooseOptions& options);

}  // namespace brevis::synth
