// SPDX-License-Identifier: Apache-2.0
//
// What the vector kernels of encoding share, for instruction sets of any kind: included before their target regions,
// so it is baseline code.
//
// They divide states by frequencies. The quotient is below 2^20, so that single precision times a reciprocal that is a
// little too small gives it or one less, whatever the rounding; the remainder tells which.
//
// Threads: values.
#pragma once

#include "bits/kernels.h"

namespace brevis::bits {

constexpr float kLess = 1.0f - 1.0f / (1 << 21);  // twice what the roundings may add

// 64 entries of 32 bits by symbol: what encoding needs of it.
struct EncodeTables {
  alignas(64) uint32_t entries[64];  // frequency | start << 16
  alignas(64) float reciprocals[64];

  explicit EncodeTables(const RansSymbol* symbols) {
    for (unsigned s = 0; s < 64; ++s) {
      entries[s] = symbols[s].frequency | uint32_t{symbols[s].start} << 16;
      reciprocals[s] = symbols[s].frequency == 0 ? 0.0f : kLess / symbols[s].frequency;
    }
  }
};

}  // namespace brevis::bits
