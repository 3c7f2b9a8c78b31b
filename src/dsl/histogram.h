// SPDX-License-Identifier: Apache-2.0
//
// Counting words: a dense array for widths up to 16 bits, sorted runs for wider ones. Used by operators that push
// statistics down to their children and by training.
//
// Threads: values. Owns: its counters (512 KiB for 16-bit words, of which only blocks that are counted in are touched).
#pragma once

#include <algorithm>
#include <array>
#include <memory>

#include "bits/words.h"
#include "codec/codec.h"

namespace brevis::dsl {

class Counter {
 public:
  explicit Counter(unsigned width) : width_(width) {
    if (!dense()) return;
    dense_ = std::make_unique_for_overwrite<uint64_t[]>(size_t{1} << width);
    if (width <= kBlockBits) use(0);
  }
  unsigned width() const { return width_; }

  // Requires: word < 2^width.
  void add(uint64_t word, uint64_t count) {
    if (dense()) {
      use(word >> kBlockBits);
      dense_[word] += count;
    } else {
      runs_.clear();
      sorted_ = false;
      loose_.emplace_back(word, count);
    }
  }
  void add(bits::ConstWords words);

  // Ascending words, counts above zero.
  codec::Histogram histogram();

 private:
  static constexpr unsigned kBlockBits = 8, kMostDense = 16;

  bool dense() const { return width_ <= kMostDense; }
  void use(size_t block) {
    if (used_[block]) return;
    used_[block] = true;
    std::fill_n(dense_.get() + (block << kBlockBits), size_t{1} << std::min(width_, kBlockBits), 0);
  }
  void tidy();

  unsigned width_;
  std::unique_ptr<uint64_t[]> dense_;
  std::array<bool, size_t{1} << (kMostDense - kBlockBits)> used_{};  // blocks of dense_; the others are not set
  std::vector<std::pair<uint64_t, uint64_t>> loose_;                 // words may repeat
  std::vector<size_t> runs_;                                         // where sorted runs begin in it
  bool sorted_ = true;                                               // it is all runs
  size_t tidy_at_ = size_t{1} << 20;
};

}  // namespace brevis::dsl
