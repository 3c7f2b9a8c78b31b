// SPDX-License-Identifier: Apache-2.0
//
// AVX-512 kernels of rANS with big tables, and of encoding: 16 states a vector; the four vectors of 64 lanes hide each
// other's delays. Tables are gathered from.
#if defined(__x86_64__)
#include <cstddef>

#include "bits/encode_tables.h"

#include "bits/avx512.h"

namespace brevis::bits {

BREVIS_TARGET_BEGIN(BREVIS_AVX512)
namespace {

constexpr uint32_t kLowest = 1u << 16;

BREVIS_INLINE V all(uint32_t value) { return _mm512_set1_epi32(static_cast<int>(value)); }

// f(0) .. f(n - 1), or the other way round, unrolled whatever n.
template <unsigned kCount, class F>
BREVIS_INLINE void up_to(F&& f) {
  if constexpr (kCount > 0) {
    up_to<kCount - 1>(f);
    f(kCount - 1);
  }
}
template <unsigned kCount, class F>
BREVIS_INLINE void down_from(F&& f) {
  if constexpr (kCount > 0) {
    f(kCount - 1);
    down_from<kCount - 1>(f);
  }
}

// Takes words for the states that need one.
BREVIS_INLINE V refill(V x, const uint8_t*& next) {
  const __mmask16 low = _mm512_cmplt_epu32_mask(x, all(kLowest));
  const V words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(next)));
  next += 2 * static_cast<uint64_t>(_mm_popcnt_u32(low));
  return _mm512_mask_or_epi32(x, low, _mm512_slli_epi32(x, 16), _mm512_maskz_expand_epi32(low, words));
}

template <unsigned kVectors, unsigned kLane>
size_t decode_rounds(const RansDecoder& table, RansCursor& cursor, uint8_t* out, size_t rounds) {
  const V mask = all((1u << table.scale_bits) - 1);
  const __m128i scale = _mm_cvtsi32_si128(static_cast<int>(table.scale_bits));
  const uint8_t* next = cursor.next;
  V x[kVectors];
  for (unsigned k = 0; k < kVectors; ++k) x[k] = load(cursor.states + 16 * k);
  size_t round = 0;
  for (; round < rounds && cursor.end - next >= 2 * 16 * kVectors; ++round)
    up_to<kVectors>([&](unsigned k) __attribute__((always_inline)) {
      const V slot = _mm512_and_si512(x[k], mask);
      const V entry = _mm512_i32gather_epi32(slot, table.slots, 4);
      const V word = _mm512_i32gather_epi32(slot, table.words, kLane);
      const V quotient = _mm512_srl_epi32(x[k], scale), frequency = _mm512_and_si512(entry, all(0xffff));
      x[k] = refill(_mm512_add_epi32(_mm512_mullo_epi32(frequency, quotient), _mm512_srli_epi32(entry, 16)), next);
      if constexpr (kLane == 1) _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtepi32_epi8(word));
      if constexpr (kLane == 2) _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_cvtepi32_epi16(word));
      if constexpr (kLane == 4) _mm512_storeu_si512(out, word);
      out += 16 * kLane;
    });
  for (unsigned k = 0; k < kVectors; ++k) _mm512_storeu_si512(cursor.states + 16 * k, x[k]);
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
  return cursor.lanes == 64 ? decode_words<4>(table, cursor, out, rounds) : decode_words<1>(table, cursor, out, rounds);
}

// The states that are `limit` or more give up 16 bits to the words below `words`.
BREVIS_INLINE V give_up(V x, V limit, uint16_t*& words) {
  const __mmask16 high = _mm512_cmpge_epu32_mask(x, limit);
  const unsigned given = static_cast<unsigned>(_mm_popcnt_u32(high));
  words -= given;
  _mm256_mask_storeu_epi16(words, static_cast<__mmask16>((1u << given) - 1),
                           _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(high, x)));
  return _mm512_mask_srli_epi32(x, high, x, 16);
}

// From the estimate of x / f, which may be one too small: x becomes the quotient, the remainder is returned.
BREVIS_INLINE V divide(V& x, __m512 estimate, V f) {
  const V quotient = _mm512_cvttps_epu32(estimate);
  const V remainder = _mm512_sub_epi32(x, _mm512_mullo_epi32(quotient, f));
  const __mmask16 more = _mm512_cmpge_epu32_mask(remainder, f);
  x = _mm512_mask_add_epi32(quotient, more, quotient, all(1));
  return _mm512_mask_sub_epi32(remainder, more, remainder, f);
}

// 64 entries of 32 bits, by symbol.
struct Table64 {
  V part[4];
  explicit Table64(const void* entries) {
    for (unsigned k = 0; k < 4; ++k) part[k] = load(static_cast<const uint8_t*>(entries) + k * kVector);
  }
  BREVIS_INLINE V operator()(V symbol, __mmask16 upper) const {
    return _mm512_mask_mov_epi32(_mm512_permutex2var_epi32(part[0], symbol, part[1]), upper,
                                 _mm512_permutex2var_epi32(part[2], symbol, part[3]));
  }
};

// Whether all symbols, a multiple of 16, are below 64 and have a frequency.
bool all_coded(const AliasEncoder& table, const uint8_t* in, size_t count) {
  alignas(64) uint8_t bad[64];
  for (unsigned s = 0; s < 64; ++s) bad[s] = table.symbols[s].frequency == 0 ? 0xff : 0;
  const V is_bad = load(bad);
  V seen = _mm512_setzero_si512();
  for (size_t i = 0; i < count; i += 64) {
    const __mmask64 some = count - i < 64 ? low_mask(static_cast<unsigned>(count - i)) : ~uint64_t{0};
    const V symbols = _mm512_maskz_loadu_epi8(some, in + i);
    seen = _mm512_ternarylogic_epi32(seen, _mm512_maskz_permutexvar_epi8(some, symbols, is_bad),
                                     _mm512_and_si512(symbols, _mm512_set1_epi8(static_cast<char>(0xc0))), 0xfe);
  }
  return _mm512_test_epi8_mask(seen, seen) == 0;
}

// `count` symbols, whole rounds of 16 * kVectors lanes.
template <unsigned kVectors>
uint16_t* alias_encode_rounds(const AliasEncoder& table, uint32_t* states, const uint8_t* in, size_t count,
                              uint16_t* words) {
  constexpr unsigned kRound = 16 * kVectors;
  const EncodeTables tables(table.symbols);
  const Table64 entry_of(tables.entries), reciprocal_of(tables.reciprocals);
  V x[kVectors];
  for (unsigned k = 0; k < kVectors; ++k) x[k] = load(states + 16 * k);
  for (size_t i = count; i != 0; i -= kRound)
    down_from<kVectors>([&](unsigned k) __attribute__((always_inline)) {
      const V symbol =
          _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i - kRound + 16 * k)));
      const __mmask16 upper = _mm512_test_epi32_mask(symbol, all(32));
      const V entry = entry_of(symbol, upper), f = _mm512_and_si512(entry, all(0xffff));
      x[k] = give_up(x[k], _mm512_slli_epi32(f, 32 - AliasDecoder::kScaleBits), words);
      const __m512 estimate =
          _mm512_mul_ps(_mm512_cvtepu32_ps(x[k]), _mm512_castsi512_ps(reciprocal_of(symbol, upper)));
      const V rank = divide(x[k], estimate, f);
      const V slot = _mm512_i32gather_epi32(_mm512_add_epi32(_mm512_srli_epi32(entry, 16), rank), table.slot_of, 2);
      x[k] = _mm512_ternarylogic_epi32(all(0xffff), slot, _mm512_slli_epi32(x[k], AliasDecoder::kScaleBits), 0xea);
    });
  for (unsigned k = 0; k < kVectors; ++k) _mm512_storeu_si512(states + 16 * k, x[k]);
  return words;
}

uint16_t* alias_encode(const AliasEncoder& table, unsigned lanes, uint32_t* states, const uint8_t* in, size_t count,
                       uint16_t* words_end) {
  const auto scalar = all_kernels().front().alias_encode;
  if (lanes < 16) return scalar(table, lanes, states, in, count, words_end);
  const size_t whole = count - count % lanes;
  if (!all_coded(table, in, whole)) return nullptr;
  uint16_t* const words = scalar(table, lanes, states, in + whole, count - whole, words_end);
  if (words == nullptr) return nullptr;
  return lanes == 64 ? alias_encode_rounds<4>(table, states, in, whole, words)
                     : alias_encode_rounds<1>(table, states, in, whole, words);
}

template <unsigned kVectors>
uint16_t* rans_encode_rounds(const RansEncoder& table, uint32_t* states, const uint16_t* in, size_t count,
                             uint16_t* words) {
  constexpr unsigned kRound = 16 * kVectors;
  static_assert(sizeof(RansSymbol) == 16 && offsetof(RansSymbol, limit) == 8 && offsetof(RansSymbol, frequency) == 12 &&
                offsetof(RansSymbol, start) == 14);
  const __m128i scale = _mm_cvtsi32_si128(static_cast<int>(table.scale_bits));
  const __m512 less = _mm512_set1_ps(kLess);
  V x[kVectors];
  for (unsigned k = 0; k < kVectors; ++k) x[k] = load(states + 16 * k);
  for (size_t i = count; i != 0; i -= kRound)
    down_from<kVectors>([&](unsigned k) __attribute__((always_inline)) {
      const V symbol = _mm512_slli_epi32(
          _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i - kRound + 16 * k))), 1);
      const uint8_t* const symbols = reinterpret_cast<const uint8_t*>(table.symbols);
      const V limit = _mm512_i32gather_epi32(symbol, symbols + offsetof(RansSymbol, limit), 8);
      const V entry = _mm512_i32gather_epi32(symbol, symbols + offsetof(RansSymbol, frequency), 8);
      const V f = _mm512_and_si512(entry, all(0xffff));
      x[k] = give_up(x[k], limit, words);
      const __m512 ratio = _mm512_div_ps(_mm512_cvtepu32_ps(x[k]), _mm512_cvtepu32_ps(f));
      const V rank = divide(x[k], _mm512_mul_ps(ratio, less), f);
      x[k] = _mm512_add_epi32(_mm512_sll_epi32(x[k], scale), _mm512_add_epi32(_mm512_srli_epi32(entry, 16), rank));
    });
  for (unsigned k = 0; k < kVectors; ++k) _mm512_storeu_si512(states + 16 * k, x[k]);
  return words;
}

uint16_t* rans_encode(const RansEncoder& table, unsigned lanes, uint32_t* states, const uint16_t* in, size_t count,
                      uint16_t* words_end) {
  const auto scalar = all_kernels().front().rans_encode;
  if (lanes < 16) return scalar(table, lanes, states, in, count, words_end);
  const size_t whole = count - count % lanes;
  uint16_t* const words = scalar(table, lanes, states, in + whole, count - whole, words_end);
  return lanes == 64 ? rans_encode_rounds<4>(table, states, in, whole, words)
                     : rans_encode_rounds<1>(table, states, in, whole, words);
}

}  // namespace
BREVIS_TARGET_END

void fill_avx512_rans(Kernels& table) {
  table.rans_decode = rans_decode;
  table.alias_encode = alias_encode;
  table.rans_encode = rans_encode;
}

}  // namespace brevis::bits
#endif
