// SPDX-License-Identifier: Apache-2.0
//
// Seeded streams of words for tests: the same on every machine (no libm, no std distributions).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include "bits/words.h"
#include "codec/codec.h"

namespace brevis::test {

// splitmix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  // 0 .. n - 1.
  uint64_t below(uint64_t n) { return next() % n; }

 private:
  uint64_t state_;
};

enum class Shape {
  single,   // one word only
  uniform,  // all words alike
  bell,     // around the middle of the range, as exponents of weights are
  skewed,   // each word half as frequent as the one before
  rare,     // one word, and one in 500 anything
  steps,    // ascending by one: every word seen, none twice in a row
  few,      // five words, spread over the range
};
inline constexpr std::array kShapes = {Shape::single, Shape::uniform, Shape::bell, Shape::skewed,
                                       Shape::rare,   Shape::steps,   Shape::few};

inline uint64_t draw(Random& random, Shape shape, unsigned width, size_t i) {
  const uint64_t mask = bits::low_mask(width);
  switch (shape) {
    case Shape::single: return 0x5a5a5a5a5a5a5a5a & mask;
    case Shape::uniform: return random.next() & mask;
    case Shape::bell: {
      uint64_t sum = 0;  // of twelve draws of at most 12 bits: bell-shaped enough
      for (int k = 0; k < 12; ++k) sum += random.next() >> (width < 12 ? 64 - width : 52);
      return sum / 12 & mask;
    }
    case Shape::skewed: return static_cast<uint64_t>(std::countr_zero(random.next() | uint64_t{1} << 63)) & mask;
    case Shape::rare: return random.below(500) == 0 ? random.next() & mask : 3 & mask;
    case Shape::steps: return i & mask;
    case Shape::few: return random.below(5) * 0x123456789abcdef & mask;
  }
  return 0;
}

inline bits::OwnedWords make_words(Shape shape, unsigned width, size_t count, uint64_t seed) {
  Random random(seed);
  bits::OwnedWords stream(width, count);
  for (size_t i = 0; i < count; ++i) stream.words().set(i, draw(random, shape, width, i));
  return stream;
}

inline codec::Histogram histogram_of(bits::ConstWords stream) {
  std::vector<uint64_t> sorted(stream.count);
  for (size_t i = 0; i < stream.count; ++i) sorted[i] = stream.at(i);
  std::sort(sorted.begin(), sorted.end());
  codec::Histogram histogram{stream.width, {}};
  for (const uint64_t word : sorted) {
    if (histogram.counts.empty() || histogram.counts.back().first != word) histogram.counts.emplace_back(word, 0);
    ++histogram.counts.back().second;
  }
  return histogram;
}

// FNV-1a of some bytes: independent of what the product uses.
inline uint64_t fnv(std::span<const uint8_t> bytes, uint64_t hash = 0xcbf29ce484222325) {
  for (const uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

}  // namespace brevis::test
