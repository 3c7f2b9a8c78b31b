// SPDX-License-Identifier: Apache-2.0
//
// Counting words: a dense array for widths up to 16 bits, sorted runs for wider ones. Used by operators that push
// statistics down to their children and by training.
//
// Threads: values. Owns: its counters (512 KiB for 16-bit words).
#pragma once

#include "bits/words.h"
#include "codec/codec.h"

namespace brevis::dsl {

class Counter {
 public:
  explicit Counter(unsigned width) : width_(width) {
    if (dense()) dense_.resize(size_t{1} << width);
  }
  unsigned width() const { return width_; }

  // Requires: word < 2^width.
  void add(uint64_t word, uint64_t count) {
    if (dense())
      dense_[word] += count;
    else
      loose_.emplace_back(word, count);
  }
  void add(bits::ConstWords words);

  // Ascending words, counts above zero.
  codec::Histogram histogram();

 private:
  bool dense() const { return width_ <= 16; }
  void tidy();

  unsigned width_;
  std::vector<uint64_t> dense_;
  std::vector<std::pair<uint64_t, uint64_t>> loose_;  // in any order, words may repeat
  size_t tidy_at_ = size_t{1} << 20;
};

}  // namespace brevis::dsl
