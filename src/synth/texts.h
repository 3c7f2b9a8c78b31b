// SPDX-License-Identifier: Apache-2.0
//
// Text among the streams: side files of models, vocabularies, source code. It is told by its bytes, and takes the codec
// made for it at once: no search finds more in it, and order-0 statistics say nothing of what it costs.
//
// Errors: those of reading the stream. Threads: pure. Determinism: integers, and libzstd's sizes.
#pragma once

#include "synth/choose.h"

namespace brevis::synth {

// Whether the bytes counted could be UTF-8 text.
bool may_be_text(const StreamStats& stats);

// The program for a stream that is text, nullopt for any other. Its frames are twice as long as those of others, since
// what a frame knows of the text is learned within it.
Result<std::optional<Choice>> as_text(const Stream& stream, const StreamStats& stats, uint64_t frame_bytes);

}  // namespace brevis::synth
