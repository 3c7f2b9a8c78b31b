// SPDX-License-Identifier: Apache-2.0
//
// AVX2 kernel of rANS with big tables: eight states a vector, tables gathered from.
#if defined(__x86_64__)
#include "bits/avx2.h"

namespace brevis::bits {

BREVIS_TARGET_BEGIN(BREVIS_AVX2)
namespace {

BREVIS_INLINE V all(uint32_t value) { return _mm256_set1_epi32(static_cast<int>(value)); }

// Takes words for the states that need one.
BREVIS_INLINE V refill(V x, const uint8_t*& next) {
  const V low = _mm256_cmpeq_epi32(_mm256_srli_epi32(x, 16), _mm256_setzero_si256());
  const unsigned mask = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(low)));
  const __m128i words = _mm_shuffle_epi8(load_half(next), load_half(kExpand.shuffles[mask]));
  next += 2 * static_cast<uint64_t>(_mm_popcnt_u32(mask));
  return or_(_mm256_sllv_epi32(x, and_(low, all(16))), _mm256_cvtepu16_epi32(words));
}

// Two vectors of words to lanes of kLane bytes.
template <unsigned kLane>
BREVIS_INLINE void put(V first, V second, uint8_t* out) {
  if constexpr (kLane == 4) {
    store(out, first);
    store(out + 32, second);
  } else if constexpr (kLane == 2) {
    store(out,
          _mm256_permute4x64_epi64(_mm256_packus_epi32(and_(first, all(0xffff)), and_(second, all(0xffff))), 0xd8));
  } else {
    const V shorts = _mm256_packus_epi32(and_(first, all(0xff)), and_(second, all(0xff)));
    const V bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(_mm256_permute4x64_epi64(shorts, 0xd8), shorts), 0xd8);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_castsi256_si128(bytes));
  }
}

template <unsigned kVectors, unsigned kLane>
size_t decode_rounds(const RansDecoder& table, RansCursor& cursor, uint8_t* out, size_t rounds) {
  const V mask = all((1u << table.scale_bits) - 1);
  const __m128i scale = _mm_cvtsi32_si128(static_cast<int>(table.scale_bits));
  const uint8_t* next = cursor.next;
  V x[kVectors];
  for (unsigned k = 0; k < kVectors; ++k) x[k] = load(cursor.states + 8 * k);
  const auto step = [&](V & state) __attribute__((always_inline)) {
    const V slot = and_(state, mask);
    const V entry = _mm256_i32gather_epi32(reinterpret_cast<const int*>(table.slots), slot, 4);
    const V word = _mm256_i32gather_epi32(static_cast<const int*>(table.words), slot, kLane);
    const V product = _mm256_mullo_epi32(and_(entry, all(0xffff)), _mm256_srl_epi32(state, scale));
    state = refill(_mm256_add_epi32(product, _mm256_srli_epi32(entry, 16)), next);
    return word;
  };
  size_t round = 0;
  for (; round < rounds && cursor.end - next >= 2 * 8 * kVectors; ++round)
#pragma GCC unroll 4
    for (unsigned k = 0; k < kVectors; k += 2, out += 16 * kLane) {
      const V first = step(x[k]), second = step(x[k + 1]);
      put<kLane>(first, second, out);
    }
  for (unsigned k = 0; k < kVectors; ++k) store(cursor.states + 8 * k, x[k]);
  cursor.next = next;
  return round;
}

template <unsigned kVectors>
size_t decode_words(const RansDecoder& table, RansCursor& cursor, Words out, size_t rounds) {
  switch (out.lane()) {
    case 1: return decode_rounds<kVectors, 1>(table, cursor, out.data, rounds);
    case 2: return decode_rounds<kVectors, 2>(table, cursor, out.data, rounds);
    default: return decode_rounds<kVectors, 4>(table, cursor, out.data, rounds);
  }
}

size_t rans_decode(const RansDecoder& table, RansCursor& cursor, Words out, size_t rounds) {
  if (cursor.lanes < 16 || out.lane() > 4) return all_kernels().front().rans_decode(table, cursor, out, rounds);
  return cursor.lanes == 64 ? decode_words<8>(table, cursor, out, rounds) : decode_words<2>(table, cursor, out, rounds);
}

}  // namespace
BREVIS_TARGET_END

void fill_avx2_rans(Kernels& table) { table.rans_decode = rans_decode; }

}  // namespace brevis::bits
#endif
