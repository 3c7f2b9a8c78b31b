// SPDX-License-Identifier: Apache-2.0
//
// More than one table for a long stream whose statistics drift: a set from which each frame picks (measured by others
// and by us: the exponents of large tensors and of joined ones change along the way). Tables of parts of the stream
// join the whole stream's tables where they save more than they cost.
//
// Threads: pure. Errors: of bind_sets(), those of loading tables. Determinism: integers only, ties to the earlier part.
#pragma once

#include "dsl/exec.h"
#include "synth/stats.h"

namespace brevis::synth {

// `tables`: of a one-region program over the whole stream, a slot each. `parts`: statistics of consecutive parts of the
// stream, each at most 16 bits wide; `frames_a_part` prices the byte by which a frame names its table. Gives for every
// slot its table first and then what is worth adding (kMaxTableSet in all at most).
std::vector<std::vector<ByteVector>> add_tables(const dsl::BoundProgram& bound, const std::vector<ByteVector>& tables,
                                                std::span<const StreamStats> parts, uint64_t frames_a_part);

// A set of one table for every slot, and a program with its sets.
std::vector<std::vector<ByteVector>> single_sets(const std::vector<ByteVector>& tables);
Result<std::shared_ptr<const dsl::BoundProgram>> bind_sets(std::shared_ptr<const dsl::Program> program,
                                                           const std::vector<std::vector<ByteVector>>& sets);

// Expected cost (complete.h) of a completed structure whose tables fit each part on its own; nullopt when it does not
// express one of them so.
std::optional<uint64_t> cost_by_parts(const dsl::Expr& expr, std::span<const StreamStats> parts, uint64_t frame_words);

}  // namespace brevis::synth
