// SPDX-License-Identifier: Apache-2.0
//
// Binary logarithms in integers, for costs that decide archive bytes: the same on every CPU and compiler, unlike libm.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>

namespace brevis::bits {

// Fraction bits of log2_fixed.
constexpr unsigned kLog2Bits = 16;

// log2(x) in units of 2^-16, rounded down; x > 0. The algorithm is the definition: with x = m * 2^e, 1 <= m < 2 kept to
// 31 bits below the point, squaring m doubles its logarithm, so each squaring that reaches 2 gives a one bit. The
// digits lost on the way make the result at most one unit too small; powers of two are exact.
constexpr uint32_t log2_fixed(uint64_t x) {
  assert(x != 0);
  const unsigned e = static_cast<unsigned>(std::bit_width(x)) - 1;
  uint64_t m = e <= 31 ? x << (31 - e) : x >> (e - 31);  // in units of 2^-31, so that its square fits
  uint32_t result = e;
  for (unsigned i = 0; i < kLog2Bits; ++i) {
    m = m * m >> 31;
    const unsigned two = m >> 32 != 0;
    m >>= two;
    result = result << 1 | two;
  }
  return result;
}

constexpr unsigned kLog2TableBits = 12;

// log2_fixed of 1 to 2^12; entry 0 is 0.
extern const std::array<uint32_t, (size_t{1} << kLog2TableBits) + 1> log2_table;

// Each of them times its number.
extern const std::array<uint32_t, (size_t{1} << kLog2TableBits) + 1> weighed_log2_table;

// log2_fixed by look-up: exact up to 2^12, and on a straight line between neighbours of the table above, within two
// units. As deterministic, and some ten times faster.
inline uint32_t log2_near(uint64_t x) {
  assert(x != 0);
  constexpr size_t kSize = size_t{1} << kLog2TableBits;
  if (x <= kSize) return log2_table[x];
  const unsigned shift = static_cast<unsigned>(std::bit_width(x)) - kLog2TableBits;
  const size_t at = x >> shift;
  // Neighbours differ by less than 2^6 and only the first 32 bits behind the place count, so that the product fits.
  const uint64_t behind = shift <= 32 ? (x & ((uint64_t{1} << shift) - 1)) << (32 - shift) : x << (64 - shift) >> 32;
  const uint64_t step = log2_table[at + 1] - log2_table[at];
  return (shift << kLog2Bits) + log2_table[at] + static_cast<uint32_t>(step * behind >> 32);
}

// x * log2_near(x), 0 for 0; x < 2^40.
inline uint64_t weighed_log2(uint64_t x) {
  constexpr size_t kSize = size_t{1} << kLog2TableBits;
  return x <= kSize ? weighed_log2_table[x] : x * log2_near(x);
}

// What an order-0 code takes for symbols that occur so often, in units of 2^-kLog2Bits bits; fewer than 2^40 in all.
// Logarithms of counts are no larger than that of their sum, since log2_near never falls.
template <class Counts>
uint64_t entropy_of(const Counts& counts) {
  uint64_t total = 0, weighed = 0;
  for (const auto count : counts) {
    total += count;
    weighed += weighed_log2(count);
  }
  return total == 0 ? 0 : total * log2_near(total) - weighed;
}

}  // namespace brevis::bits
