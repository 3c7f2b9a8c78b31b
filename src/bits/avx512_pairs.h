// SPDX-License-Identifier: Apache-2.0
//
// Tables of 64 entries of 16 bits, which one permute of two sources looks up: for the kernels of CPUs on which that is
// cheap (kernels_avx512_pairs*.cc), each of which includes it last and gets a copy of its own.
//
// Requires: a CPU for which cpu_has_avx512(). Threads: pure functions.
#pragma once

#include "bits/avx512_states.h"

namespace brevis::bits {

BREVIS_TARGET_BEGIN(BREVIS_AVX512)
namespace {

// 64 entries of 16 bits.
struct Pair {
  V low, high;

  // The lower halves of 64 entries of 32 bits.
  static Pair of(const V (&entries)[4]) {
    return {lower_halves(entries[0], entries[1]), lower_halves(entries[2], entries[3])};
  }
  BREVIS_INLINE V operator()(V at) const { return _mm512_permutex2var_epi16(low, at, high); }
};

// What a side of each bucket has.
struct BucketEntries {
  Pair offset, symbol, frequency;  // of the symbol its lowest six bits, of the frequency 16 times as much

  explicit BucketEntries(const uint32_t* entries) {
    V offsets[4], symbols[4], frequencies[4];
    for (unsigned k = 0; k < 4; ++k) {
      const V entry = load(entries + 16 * k);
      offsets[k] = _mm512_and_si512(entry, _mm512_set1_epi32(0xfff));
      symbols[k] = _mm512_srli_epi32(entry, 12);
      frequencies[k] = _mm512_slli_epi32(_mm512_srli_epi32(entry, 20), 4);
    }
    offset = Pair::of(offsets);
    symbol = Pair::of(symbols);
    frequency = Pair::of(frequencies);
  }
};

}  // namespace
BREVIS_TARGET_END

}  // namespace brevis::bits
