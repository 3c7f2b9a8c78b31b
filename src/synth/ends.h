// SPDX-License-Identifier: Apache-2.0
//
// Streams whose first or last rows, or words, are all the same: embeddings padded to a round number of rows, tokens
// that were never trained. Which ones is found by comparing, from the ends inwards, so that a stream without them costs
// a look at two rows, and one with them is cut exactly where they begin.
//
// Errors: those of reading the stream. Threads: pure. Determinism: exact facts.
#pragma once

#include <optional>

#include "dsl/program.h"
#include "synth/stream.h"

namespace brevis::synth {

// A skeleton that stores what is the same once and leaves the rest, one region, to be chosen for; nullopt where that
// saves next to nothing.
Result<std::optional<dsl::Expr>> cut_ends(const Stream& stream);

}  // namespace brevis::synth
