// SPDX-License-Identifier: Apache-2.0
//
// 32 states of an alias-coded payload in halves of 16 bits, and the way from one to the next, which is the same however
// their symbols are looked up. For the kernels of 64 lanes alone: each includes it last and gets a copy of its own.
//
// Requires: a CPU for which cpu_has_avx512(). Threads: pure functions.
#pragma once

#include "bits/avx512.h"

namespace brevis::bits {

BREVIS_TARGET_BEGIN(BREVIS_AVX512)
namespace {

// The lower halves of 64 entries of 32 bits, 32 a vector.
BREVIS_INLINE V lower_halves(V first, V second) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(first)), _mm512_cvtepi32_epi16(second), 1);
}

struct StateConstants {
  V rank_bits = _mm512_set1_epi16(0xfff);
  V top_bits = _mm512_set1_epi16(static_cast<short>(0xf000));
  V one = _mm512_set1_epi16(1);

  StateConstants() { asm("" : "+v"(rank_bits), "+v"(top_bits), "+v"(one)); }  // or they would not stay in registers
};

class States32 {
 public:
  explicit States32(const uint32_t* states) {
    const V first = load(states), second = load(states + 16);
    low_ = lower_halves(first, second);
    high_ = lower_halves(_mm512_srli_epi32(first, 16), _mm512_srli_epi32(second, 16));
  }
  // Whose lower 12 bits are the slots.
  BREVIS_INLINE V low() const { return low_; }

  // To the next states, by 16 times the frequencies of the symbols and what is to be taken off the slots. Requires: 32
  // words from `next` on.
  BREVIS_INLINE void advance(V frequency, V offset, const StateConstants& constants, const uint8_t*& next) {
    const V rank = _mm512_and_si512(_mm512_sub_epi16(low_, offset), constants.rank_bits);
    const V small = _mm512_add_epi16(_mm512_mulhi_epu16(frequency, _mm512_and_si512(low_, constants.top_bits)), rank);
    const V upper = _mm512_mulhi_epu16(frequency, high_);
    const V lower = _mm512_add_epi16(_mm512_mullo_epi16(frequency, high_), small);
    const __mmask32 carry = _mm512_cmplt_epu16_mask(lower, small);
    __mmask32 zero = _mm512_testn_epi16_mask(upper, upper);
    asm("" : "+Yk"(zero));  // or else the compiler lets this test wait for that of the carry
    const __mmask32 refill = _kandn_mask32(carry, zero);
    high_ = _mm512_mask_mov_epi16(_mm512_mask_add_epi16(upper, carry, upper, constants.one), refill, lower);
    low_ = _mm512_mask_expand_epi16(lower, refill, load(next));
    next += 2 * static_cast<uint64_t>(_mm_popcnt_u32(refill));
  }

  void store(uint32_t* states) const {
    for (unsigned half = 0; half < 2; ++half) {
      const auto part = [&](V halves) {
        return _mm512_cvtepu16_epi32(half == 0 ? _mm512_castsi512_si256(halves) : _mm512_extracti64x4_epi64(halves, 1));
      };
      _mm512_storeu_si512(states + 16 * half, _mm512_or_si512(part(low_), _mm512_slli_epi32(part(high_), 16)));
    }
  }

 private:
  V low_, high_;  // halves of the states
};

}  // namespace
BREVIS_TARGET_END

}  // namespace brevis::bits
