// SPDX-License-Identifier: Apache-2.0
//
// Samples of a stream, as the search looks at them.
//
// Errors: those of reading the stream. Threads: pure.
#pragma once

#include "synth/choose.h"

namespace brevis::synth {

struct Drawn {
  std::vector<bits::OwnedWords> store;
  std::vector<dsl::Window> windows;
};

// Windows spread evenly over the stream, whole rows where rows are short; all of a short stream, cut as its frames are.
Result<Drawn> draw_sample(const Stream& stream, uint64_t frame_words, const Effort& effort);

// Whether the order of words tells anything about them, as far as a cheap look at a sample shows: bytes that recur, or
// words closer to one before them (the neighbour, the row above) than to any other. Where it tells nothing the known
// programs, which order-0 statistics choose, leave a search hardly anything to find.
bool shows_order(const Stream& stream, const Drawn& drawn);
// The same asked of a few thousand words only, of the nearest neighbours alone.
Result<bool> seems_ordered(const Stream& stream);

// The pool of a sample; `stream` outlives it.
TargetPool pool_for(const Stream& stream, uint64_t frame_words, const Drawn& drawn, const SearchOptions& options);

}  // namespace brevis::synth
