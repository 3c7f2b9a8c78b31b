// SPDX-License-Identifier: Apache-2.0
//
// Streams that differ from a base in few words: the places and words that a `patch` stores, each stream with the
// cheapest codecs for what is in it. Where few words changed, or changed to something that has nothing to do with what
// stood there, a patch costs less than a difference of every word, and readers copy the base and are done.
//
// Errors: those of reading. Threads: one caller; frames are compared in the pool. Determinism: as synth::choose.
#pragma once

#include "base/threads.h"
#include "synth/choose.h"

namespace brevis::pack {

// At most one word in so many may differ: from there on a place and a word cost more than any difference.
constexpr uint64_t kPatchOf = 8;

// What a patch compares.
struct PatchSource {
  synth::Stream own;                                            // what is to be stored
  std::function<Status(uint64_t first, bits::Words out)> base;  // the words at the same places of the base
};

// patch(base, places, words) with its tables; nullopt where no codec serves. `window`: frames in flight.
Result<std::optional<synth::Choice>> choose_patch(const PatchSource& source, uint64_t frame_words, Pool& pool,
                                                  size_t window);

}  // namespace brevis::pack
