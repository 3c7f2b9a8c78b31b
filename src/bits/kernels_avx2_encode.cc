// SPDX-License-Identifier: Apache-2.0
//
// AVX2 kernels of encoding: eight states a vector, whose delays the other vectors hide. Tables are gathered from.
#if defined(__x86_64__)
#include <cstddef>

#include "bits/encode_tables.h"

#include "bits/avx2.h"

namespace brevis::bits {

BREVIS_TARGET_BEGIN(BREVIS_AVX2)
namespace {

BREVIS_INLINE V all(uint32_t value) { return _mm256_set1_epi32(static_cast<int>(value)); }

// For the eight lanes of a mask: a shuffle that brings the 16-bit lanes of its ones together, at the upper end.
struct CompressTable {
  uint8_t shuffles[256][16];
};
constexpr CompressTable make_compress_table() {
  CompressTable table{};
  for (unsigned mask = 0; mask < 256; ++mask) {
    unsigned to = 8;
    for (unsigned lane = 8; lane-- > 0;) {
      if ((mask >> lane & 1) == 0) continue;
      --to;
      table.shuffles[mask][2 * to] = static_cast<uint8_t>(2 * lane);
      table.shuffles[mask][2 * to + 1] = static_cast<uint8_t>(2 * lane + 1);
    }
  }
  return table;
}
alignas(64) constexpr CompressTable kCompress = make_compress_table();

// The states that are `limit` or more give up 16 bits to the words below `words`. Requires: eight words there.
BREVIS_INLINE V give_up(V x, V limit, uint16_t*& words) {
  const V high = _mm256_cmpeq_epi32(_mm256_max_epu32(x, limit), x);
  const unsigned mask = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(high)));
  const V low = and_(x, all(0xffff));
  const __m128i lanes = _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(words - 8), _mm_shuffle_epi8(lanes, load_half(kCompress.shuffles[mask])));
  words -= _mm_popcnt_u32(mask);
  return _mm256_srlv_epi32(x, and_(high, all(16)));
}

// Of numbers below 2^32.
BREVIS_INLINE __m256 to_float(V x) {
  const __m256 high = _mm256_cvtepi32_ps(_mm256_srli_epi32(x, 16)), low = _mm256_cvtepi32_ps(and_(x, all(0xffff)));
  return _mm256_add_ps(_mm256_mul_ps(high, _mm256_set1_ps(65536.0f)), low);
}

// From the estimate of x / f, which may be one too small: x becomes the quotient, the remainder is returned.
BREVIS_INLINE V divide(V& x, __m256 estimate, V f) {
  const V quotient = _mm256_cvttps_epi32(estimate);
  const V remainder = _mm256_sub_epi32(x, _mm256_mullo_epi32(quotient, f));
  const V more = _mm256_cmpeq_epi32(_mm256_max_epu32(remainder, f), remainder);
  x = _mm256_sub_epi32(quotient, more);
  return _mm256_sub_epi32(remainder, and_(more, f));
}

BREVIS_INLINE V gather(const void* table, V index) {
  return _mm256_i32gather_epi32(static_cast<const int*>(table), index, 4);
}

// f(n - 1) .. f(0), unrolled whatever n.
template <unsigned kCount, class F>
BREVIS_INLINE void down_from(F&& f) {
  if constexpr (kCount > 0) {
    f(kCount - 1);
    down_from<kCount - 1>(f);
  }
}

// step(x) for the vectors of a round, last first.
template <unsigned kVectors, class Step>
BREVIS_INLINE void encode_rounds(uint32_t* states, size_t count, Step&& step) {
  V x[kVectors];
  for (unsigned k = 0; k < kVectors; ++k) x[k] = load(states + 8 * k);
  for (size_t i = count; i != 0; i -= 8 * kVectors)
    down_from<kVectors>([&](unsigned k) __attribute__((always_inline)) { step(x[k], i - 8 * kVectors + 8 * k); });
  for (unsigned k = 0; k < kVectors; ++k) store(states + 8 * k, x[k]);
}

// Whether all symbols are below 64 and have a frequency.
bool all_coded(const AliasEncoder& table, const uint8_t* in, size_t count) {
  // A bit for each of the 64 symbols, by three upper bits and as what the lower three make of it.
  alignas(16) uint8_t coded[16] = {}, bits[16];
  for (unsigned s = 0; s < 64; ++s)
    if (table.symbols[s].frequency != 0) coded[s / 8] = static_cast<uint8_t>(coded[s / 8] | 1u << s % 8);
  for (unsigned i = 0; i < 16; ++i) bits[i] = static_cast<uint8_t>(1u << i % 8);
  const V rows = both(coded), columns = both(bits), seven = _mm256_set1_epi8(7);
  V bad = _mm256_setzero_si256();
  size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const V s = load(in + i), bit = _mm256_shuffle_epi8(columns, and_(s, seven));
    const V row = _mm256_shuffle_epi8(rows, and_(_mm256_srli_epi16(s, 3), seven));
    bad = or_(bad, or_(_mm256_andnot_si256(row, bit), and_(s, _mm256_set1_epi8(static_cast<char>(0xc0)))));
  }
  for (; i < count; ++i)
    if (in[i] > 63 || table.symbols[in[i]].frequency == 0) return false;
  return _mm256_testz_si256(bad, bad) != 0;
}

template <unsigned kVectors>
uint16_t* alias_encode_rounds(const AliasEncoder& table, uint32_t* states, const uint8_t* in, size_t count,
                              uint16_t* words) {
  const EncodeTables tables(table.symbols);
  encode_rounds<kVectors>(
      states, count, [&](V & x, size_t at) __attribute__((always_inline)) {
        const V symbol = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(in + at)));
        const V entry = gather(tables.entries, symbol), f = and_(entry, all(0xffff));
        x = give_up(x, _mm256_slli_epi32(f, 32 - AliasDecoder::kScaleBits), words);
        const V reciprocal = gather(tables.reciprocals, symbol);
        const V rank = divide(x, _mm256_mul_ps(to_float(x), _mm256_castsi256_ps(reciprocal)), f);
        const V slot = _mm256_i32gather_epi32(reinterpret_cast<const int*>(table.slot_of),
                                              _mm256_add_epi32(_mm256_srli_epi32(entry, 16), rank), 2);
        x = or_(_mm256_slli_epi32(x, AliasDecoder::kScaleBits), and_(slot, all(0xffff)));
      });
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
  return lanes == 64 ? alias_encode_rounds<8>(table, states, in, whole, words)
                     : alias_encode_rounds<2>(table, states, in, whole, words);
}

template <unsigned kVectors>
uint16_t* rans_encode_rounds(const RansEncoder& table, uint32_t* states, const uint16_t* in, size_t count,
                             uint16_t* words) {
  static_assert(sizeof(RansSymbol) == 16 && offsetof(RansSymbol, limit) == 8 && offsetof(RansSymbol, frequency) == 12 &&
                offsetof(RansSymbol, start) == 14);
  const __m128i scale = _mm_cvtsi32_si128(static_cast<int>(table.scale_bits));
  const uint8_t* const symbols = reinterpret_cast<const uint8_t*>(table.symbols);
  encode_rounds<kVectors>(
      states, count, [&](V & x, size_t at) __attribute__((always_inline)) {
        const V symbol = _mm256_slli_epi32(_mm256_cvtepu16_epi32(load_half(in + at)), 2);
        const V limit = gather(symbols + offsetof(RansSymbol, limit), symbol);
        const V entry = gather(symbols + offsetof(RansSymbol, frequency), symbol), f = and_(entry, all(0xffff));
        x = give_up(x, limit, words);
        const __m256 ratio = _mm256_div_ps(to_float(x), _mm256_cvtepi32_ps(f));
        const V rank = divide(x, _mm256_mul_ps(ratio, _mm256_set1_ps(kLess)), f);
        x = _mm256_add_epi32(_mm256_sll_epi32(x, scale), _mm256_add_epi32(_mm256_srli_epi32(entry, 16), rank));
      });
  return words;
}

uint16_t* rans_encode(const RansEncoder& table, unsigned lanes, uint32_t* states, const uint16_t* in, size_t count,
                      uint16_t* words_end) {
  const auto scalar = all_kernels().front().rans_encode;
  if (lanes < 16) return scalar(table, lanes, states, in, count, words_end);
  const size_t whole = count - count % lanes;
  uint16_t* const words = scalar(table, lanes, states, in + whole, count - whole, words_end);
  return lanes == 64 ? rans_encode_rounds<8>(table, states, in, whole, words)
                     : rans_encode_rounds<2>(table, states, in, whole, words);
}

}  // namespace
BREVIS_TARGET_END

void fill_avx2_encode(Kernels& table) {
  table.alias_encode = alias_encode;
  table.rans_encode = rans_encode;
}

}  // namespace brevis::bits
#endif
