// SPDX-License-Identifier: Apache-2.0
//
// Alias-coded payloads of 16 lanes, up to four side by side, on CPUs whose permutes of two sources are cheap. As in
// kernels_avx512_pairs.cc states are halves of 16 bits and both sides of a bucket are looked up at once; 16 of them
// are half a vector, whose arithmetic costs half. Tables do not fit the registers: they are operands in memory, and
// symbols travel in what frequencies and offsets leave free.
#if defined(__x86_64__)
#include "bits/avx512_pairs.h"
#include "bits/avx512_several.h"

namespace brevis::bits {

BREVIS_TARGET_BEGIN(BREVIS_AVX512)
namespace {

using Half = __m256i;  // 16 lanes of 16 bits

BREVIS_INLINE Half all(int value) { return _mm256_set1_epi16(static_cast<short>(value)); }
BREVIS_INLINE V whole(Half half) { return _mm512_castsi256_si512(half); }
BREVIS_INLINE Half half(V vector) { return _mm512_castsi512_si256(vector); }

struct Tables {
  alignas(64) uint16_t offset[2][64];     // offset | symbol / 16 << 12
  alignas(64) uint16_t frequency[2][64];  // 16 * frequency | symbol % 16
  const uint8_t* threshold;

  void fill(const AliasPlanes& planes) {
    threshold = planes.threshold;
    for (unsigned s = 0; s < 2; ++s) {
      const BucketEntries entries(planes.entry[s]);
      const auto put = [](uint16_t* to, V value) { _mm512_store_si512(to, value); };
      const V symbols[2] = {entries.symbol.low, entries.symbol.high};
      const V offsets[2] = {entries.offset.low, entries.offset.high};
      const V frequencies[2] = {entries.frequency.low, entries.frequency.high};
      for (unsigned k = 0; k < 2; ++k) {
        const V symbol = _mm512_and_si512(symbols[k], _mm512_set1_epi16(0x3f));
        put(offset[s] + 32 * k, _mm512_or_si512(offsets[k], _mm512_slli_epi16(_mm512_srli_epi16(symbol, 4), 12)));
        put(frequency[s] + 32 * k, _mm512_or_si512(frequencies[k], _mm512_and_si512(symbol, _mm512_set1_epi16(0xf))));
      }
    }
  }
};

BREVIS_INLINE Half look_up(const uint16_t (&sides)[2][64], V bucket, __mmask16 second) {
  const auto side = [&](const uint16_t* entries) __attribute__((always_inline)) {
    return half(_mm512_permutex2var_epi16(load(entries), bucket, load(entries + 32)));
  };
  return _mm256_mask_mov_epi16(side(sides[0]), second, side(sides[1]));
}

struct Lanes {
  Half low, high;  // halves of the states

  void read(const uint32_t* states) {
    const V all_states = load(states);
    low = _mm512_cvtepi32_epi16(all_states);
    high = _mm512_cvtepi32_epi16(_mm512_srli_epi32(all_states, 16));
  }
  void write(uint32_t* states) const {
    _mm512_storeu_si512(
        states, _mm512_or_si512(_mm512_cvtepu16_epi32(low), _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16)));
  }

  // Decodes a symbol in every lane, into the low byte. Requires: 16 words from `next` on.
  BREVIS_INLINE Half step(const Tables& tables, const uint8_t*& next) {
    const V bucket = whole(_mm256_srli_epi16(low, 6));  // permutes look at six bits of it
    const Half threshold = half(_mm512_maskz_permutexvar_epi8(0x5555555555555555, bucket, load(tables.threshold)));
    const __mmask16 second = _mm256_cmpge_epu16_mask(_mm256_and_si256(low, all(0xff)), threshold);
    const Half f = look_up(tables.frequency, bucket, second), offset = look_up(tables.offset, bucket, second);
    const Half frequency = _mm256_andnot_si256(all(0xf), f);
    const Half rank = _mm256_and_si256(_mm256_sub_epi16(low, offset), all(0xfff));
    const Half small = _mm256_add_epi16(_mm256_mulhi_epu16(frequency, _mm256_and_si256(low, all(0xf000))), rank);
    const Half upper = _mm256_mulhi_epu16(frequency, high);
    const Half lower = _mm256_add_epi16(_mm256_mullo_epi16(frequency, high), small);
    const __mmask16 carry = _mm256_cmplt_epu16_mask(lower, small);
    __mmask16 zero = _mm256_testn_epi16_mask(upper, upper);
    asm("" : "+Yk"(zero));  // or else the compiler lets this test wait for that of the carry
    const __mmask16 refill = _kandn_mask16(carry, zero);
    high = _mm256_mask_mov_epi16(_mm256_mask_add_epi16(upper, carry, upper, all(1)), refill, lower);
    low = _mm256_mask_expand_epi16(lower, refill, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(next)));
    next += 2 * static_cast<uint64_t>(_mm_popcnt_u32(refill));
    return _mm256_ternarylogic_epi32(all(0xf), f, _mm256_srli_epi16(offset, 8), 0xca);
  }
};

// The low bytes of four rounds, one after the other.
BREVIS_INLINE V bytes_of(const Half (&rounds)[4]) {
  const Half first = _mm256_packus_epi16(rounds[0], rounds[1]), second = _mm256_packus_epi16(rounds[2], rounds[3]);
  return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 1, 3, 4, 6, 5, 7),
                                  _mm512_inserti64x4(whole(first), second, 1));
}

struct ByPairs {
  using Symbols = Half;
  using Table = Tables;
  using State = Lanes;
  BREVIS_INLINE static V bytes_of(const Half (&rounds)[4]) { return bits::bytes_of(rounds); }
};

}  // namespace
BREVIS_TARGET_END

void fill_avx512_pairs_several(Kernels& table) { table.alias_sixteens = {4, decode_sixteens<ByPairs>}; }

}  // namespace brevis::bits
#endif
