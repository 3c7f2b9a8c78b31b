// SPDX-License-Identifier: Apache-2.0
//
// Streams below a node that stands on a base (`patch`, `update`): each with the cheapest program that statistics can
// tell, and its tables.
//
// Errors: those of reading. Threads: pure. Determinism: as synth::known_good.
#pragma once

#include "dsl/encode.h"
#include "synth/stats.h"

namespace brevis::pack {

constexpr uint64_t kByteCost = 8 * 256;  // of a byte, in costs' 1/256 bits

// A stream with its program, as far as it goes below the node.
struct Part {
  dsl::Expr expr;
  std::vector<ByteVector> tables;
  uint64_t cost = 0;  // 1/256 bits
};

// `read`: the words of each of so many frames, of which one has `frame_words` at most. `is_step`: words are small
// numbers more often than large ones. nullopt where no codec serves.
Result<std::optional<Part>> code_words(Dtype dtype, bool is_step, const synth::StreamStats& stats, uint64_t frames,
                                       uint64_t frame_words, const dsl::FrameWords& read);

}  // namespace brevis::pack
