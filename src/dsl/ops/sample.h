// SPDX-License-Identifier: Apache-2.0
//
// What the operators' proposals share: looks at a target's sample. Private to ops/.
//
// Threads: pure. Determinism: integers only.
#pragma once

#include <algorithm>
#include <array>

#include "bits/log2.h"
#include "dsl/op.h"

namespace brevis::dsl {

inline uint64_t sampled_words(const Target& target) {
  uint64_t sum = 0;
  for (const Window& window : target.windows) sum += window.words.count;
  return sum;
}

// Nodes whose children mean something unknown.
inline Proposal proposal(std::vector<uint64_t> params, size_t children) {
  return {std::move(params), std::vector<Dtype>(children, Dtype::unknown)};
}

// The dtype when it says how the target's words are made of bits, unknown otherwise.
inline Dtype float_of(const Target& target) {
  const DtypeInfo& info = dtype_info(target.dtype);
  return info.is_float() && info.word_bits() == target.width ? target.dtype : Dtype::unknown;
}

// Every bit that differs between some two words.
inline uint64_t changing_bits(const codec::Histogram& histogram) {
  uint64_t any = 0, all = ~uint64_t{0};
  for (const auto& [word, count] : histogram.counts) {
    any |= word;
    all &= word;
  }
  return any & ~all;
}

// 0, 1, -1, 2, -2, .. of `width` bits become 0, 1, 2, 3, 4, ..
inline uint64_t zigzag_of(uint64_t word, unsigned width) {
  const bool negative = (word >> (width - 1) & 1) != 0;
  return (negative ? ~(word << 1) : word << 1) & bits::low_mask(width);
}

// The entropy of each byte of words by itself, summed: what words cost, roughly, also where a sample is too small to
// meet any word twice. In 1/256 bits.
template <class T>
class BytePlanes {
 public:
  void add(T word) {
    for (size_t k = 0; k < sizeof(T); ++k) ++planes_[k][word >> 8 * k & 0xff];
  }
  void add(const BytePlanes& other) {
    for (size_t k = 0; k < sizeof(T); ++k)
      for (size_t v = 0; v < 256; ++v) planes_[k][v] += other.planes_[k][v];
  }
  uint64_t cost() const {
    uint64_t sum = 0;
    for (const auto& plane : planes_) sum += bits::entropy_of(plane);
    return sum >> (bits::kLog2Bits - 8);
  }

 private:
  std::array<std::array<uint32_t, 256>, sizeof(T)> planes_{};
};

// The first words of each window, about `limit` in all.
inline size_t words_each(const Target& target, size_t limit) {
  return std::max<size_t>(1, limit / std::max<size_t>(1, target.windows.size()));
}

// Calls f(word, the word `lag` before it), for at most about `limit` places spread over the windows.
template <class F>
void for_pairs(const Target& target, uint64_t lag, size_t limit, F&& f) {
  const size_t each = words_each(target, limit);
  for (const Window& window : target.windows) {
    const bits::ConstWords words = window.words;
    const size_t end = std::min<uint64_t>(words.count, lag + each);
    for (size_t i = lag; i < end; ++i) f(words.at(i), words.at(i - lag));
  }
}

}  // namespace brevis::dsl
