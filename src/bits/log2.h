// SPDX-License-Identifier: Apache-2.0
//
// Binary logarithms in integers, for costs that decide archive bytes: the same on every CPU and compiler, unlike libm.
#pragma once

#include <bit>
#include <cassert>
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

}  // namespace brevis::bits
