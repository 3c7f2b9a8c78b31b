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
class BytePlanes {
 public:
  explicit BytePlanes(unsigned width) : planes_((width + 7) / 8) {}
  void add(uint64_t word) {
    for (auto& plane : planes_) {
      ++plane[word & 0xff];
      word >>= 8;
    }
    ++words_;
  }
  uint64_t cost() const {
    if (words_ == 0) return 0;
    const uint32_t log_words = bits::log2_near(words_);
    unsigned __int128 sum = 0;
    for (const auto& plane : planes_)
      for (const uint32_t count : plane)
        if (count != 0)
          sum += static_cast<unsigned __int128>(count) * (log_words - std::min(log_words, bits::log2_near(count)));
    return static_cast<uint64_t>(sum >> (bits::kLog2Bits - 8));
  }

 private:
  std::vector<std::array<uint32_t, 256>> planes_;
  uint64_t words_ = 0;
};

// Calls f(word, the word `lag` before it), for at most about `limit` places spread over the windows.
template <class F>
void for_pairs(const Target& target, uint64_t lag, size_t limit, F&& f) {
  const size_t each = std::max<size_t>(1, limit / std::max<size_t>(1, target.windows.size()));
  for (const Window& window : target.windows) {
    const bits::ConstWords words = window.words;
    const size_t end = std::min<uint64_t>(words.count, lag + each);
    for (size_t i = lag; i < end; ++i) f(words.at(i), words.at(i - lag));
  }
}

}  // namespace brevis::dsl
