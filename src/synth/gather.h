// SPDX-License-Identifier: Apache-2.0
//
// Statistics of streams that are read piece by piece.
//
// Threads: pure. Errors: those of reading the stream. Determinism: integers only.
#pragma once

#include "synth/choose.h"

namespace brevis::synth {

// Of a whole stream, which nobody gathered yet.
Result<StreamStats> gather_whole(const Stream& stream);

}  // namespace brevis::synth
