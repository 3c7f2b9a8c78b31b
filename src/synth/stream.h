// SPDX-License-Identifier: Apache-2.0
//
// The words that a program is chosen for: where they come from, and their statistics as a whole.
//
// Errors: those of reading. Threads: several may read. Owns: nothing of what it reads from.
#pragma once

#include <functional>

#include "brevis/types.h"
#include "synth/stats.h"

namespace brevis::synth {

// A stream that can be read in any order.
struct Stream {
  Dtype dtype = Dtype::unknown;
  unsigned width = 8;  // 8, 16, 32 or 64
  uint64_t words = 0;
  std::vector<uint64_t> shape;  // row-major, product = words; empty where places mean nothing
  // Fills out.count words from `first` on.
  std::function<Status(uint64_t first, bits::Words out)> read;
  const uint8_t* held = nullptr;  // all words, where they are in memory

  // So many words from `first` on, where they are or read into `buffer`.
  Result<bits::ConstWords> at(uint64_t first, uint64_t count, bits::OwnedWords& buffer) const;
};

// Statistics of a whole stream that nobody gathered yet.
Result<StreamStats> gather_whole(const Stream& stream);

}  // namespace brevis::synth
