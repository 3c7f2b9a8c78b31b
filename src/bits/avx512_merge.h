// SPDX-License-Identifier: Apache-2.0
//
// What the AVX-512 kernels that make words of symbols and packed fields share. For kernels_avx512*.cc alone: each
// includes it last and gets a copy of its own.
//
// Requires: a CPU for which cpu_has_avx512(). Threads: pure functions.
#pragma once

#include "bits/avx512.h"

namespace brevis::bits {

BREVIS_TARGET_BEGIN(BREVIS_AVX512)
namespace {

constexpr uint64_t kEven = 0x5555555555555555;

// 16-bit lanes from the even bytes of `low` and the odd ones of `high`.
BREVIS_INLINE V join(V low, V high) { return select(_mm512_set1_epi16(static_cast<short>(0xff00)), high, low); }

// 64 bytes in lane order, from the even bytes of lanes 0..31 and of lanes 32..63.
BREVIS_INLINE V lane_order(V first, V second) {
  alignas(64) static constexpr auto kOrder = [] {
    struct {
      uint8_t at[64];
    } order{};
    for (unsigned i = 0; i < 64; ++i) order.at[i] = static_cast<uint8_t>(i < 32 ? 2 * i : 2 * (i - 32) + 1);
    return order;
  }();
  return _mm512_permutexvar_epi8(load(kOrder.at), join(first, _mm512_slli_epi16(second, 8)));
}

// Fields of one bit, such as signs: 64 of them are a mask.
struct BitReader64 {
  const uint8_t* at = nullptr;
  V bit;

  template <unsigned kLane>
  static BitReader64 of(const PackedField& field, size_t first) {
    const unsigned value = 1u << field.shift;
    return {field.data + first / 8, kLane == 1   ? _mm512_set1_epi8(static_cast<char>(value))
                                    : kLane == 2 ? _mm512_set1_epi16(static_cast<short>(value))
                                                 : _mm512_set1_epi32(static_cast<int>(value))};
  }
  BREVIS_INLINE uint64_t next() {
    uint64_t bits;
    __builtin_memcpy(&bits, at, 8);
    at += 8;
    return bits;
  }
};

// Adds the bit to the words of a mask; no word has it.
template <unsigned kLane>
BREVIS_INLINE V add_bit(V words, V bit, uint64_t mask) {
  if constexpr (kLane == 1) return _mm512_mask_add_epi8(words, mask, words, bit);
  if constexpr (kLane == 2) return _mm512_mask_add_epi16(words, static_cast<__mmask32>(mask), words, bit);
  return _mm512_mask_add_epi32(words, static_cast<__mmask16>(mask), words, bit);
}

// That one of 64 values has; 0 where none has any.
inline unsigned lowest_bit(const uint32_t* values) {
  uint32_t all = 0;
  for (unsigned s = 0; s < 64; ++s) all |= values[s];
  return all == 0 ? 0 : static_cast<unsigned>(__builtin_ctz(all));
}

// From symbols to the values at their place in the word.
template <unsigned kLane>
class ValueTable {
 public:
  explicit ValueTable(const uint32_t* values) {
    shift_ = kLane == 4 ? lowest_bit(values) : 0;
    alignas(64) uint8_t bytes[2][64];
    for (unsigned s = 0; s < 64; ++s) {
      bytes[0][s] = static_cast<uint8_t>(values[s] >> shift_);
      bytes[1][s] = static_cast<uint8_t>(values[s] >> shift_ >> 8);
    }
    low_ = load(bytes[0]);
    high_ = load(bytes[1]);
  }
  // Whether two bytes are enough for the bits that differ from zero.
  static bool serves(const uint32_t* values) {
    uint32_t all = 0;
    for (unsigned s = 0; s < 64; ++s) all |= values[s];
    return all >> lowest_bit(values) <= 0xffff;
  }

  // The words of 64 symbols.
  BREVIS_INLINE void look_up(V symbols, V (&words)[kLane]) const {
    if constexpr (kLane == 1)
      words[0] = _mm512_permutexvar_epi8(symbols, low_);
    else
      look_up(_mm512_cvtepu8_epi16(_mm512_castsi512_si256(symbols)),
              _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(symbols, 1)), words);
  }
  // The words of all lanes in lane order, from both halves' symbols.
  BREVIS_INLINE void look_up(V first, V second, V (&words)[kLane]) const {
    if constexpr (kLane == 1) {
      words[0] = lane_order(_mm512_permutexvar_epi8(first, low_), _mm512_permutexvar_epi8(second, low_));
    } else {
      const V halves[2] = {shorts(first), shorts(second)};
      for (unsigned i = 0; i < 2; ++i) {
        if constexpr (kLane == 2) {
          words[i] = halves[i];
        } else {
          words[2 * i] = place(_mm512_castsi512_si256(halves[i]));
          words[2 * i + 1] = place(_mm512_extracti64x4_epi64(halves[i], 1));
        }
      }
    }
  }

 private:
  BREVIS_INLINE V shorts(V symbols) const {
    return join(_mm512_permutexvar_epi8(symbols, low_), _mm512_permutexvar_epi8(_mm512_slli_epi16(symbols, 8), high_));
  }
  BREVIS_INLINE V place(__m256i values) const {
    return _mm512_sllv_epi32(_mm512_cvtepu16_epi32(values), _mm512_set1_epi32(static_cast<int>(shift_)));
  }

  V low_, high_;
  unsigned shift_;
};

// The fields of a merge, sorted: those of one bit are cheaper.
struct Fields {
  const PackedField* bit = nullptr;
  const PackedField* wide[2] = {};
  unsigned wides = 0;

  // False when vectors of such lanes cannot make these words.
  template <unsigned kLane>
  bool sort(const AliasMerge& merge) {
    if (merge.first % 8 != 0 || (kLane == 4 && !ValueTable<kLane>::serves(merge.values))) return false;
    for (size_t k = 0; k < merge.field_count; ++k) {
      const PackedField& field = merge.fields[k];
      if (field.b == 1 && bit == nullptr)
        bit = &field;
      else if (wides < 2 && field.b <= FieldReader<kLane>::kMaxBits)
        wide[wides++] = &field;
      else
        return false;
    }
    return true;
  }
  // From merge.first on, how many times 64 words may be read.
  template <unsigned kLane>
  size_t readable(const AliasMerge& merge) const {
    size_t least = bit == nullptr ? SIZE_MAX : (bit->bytes - merge.first / 8) / 8;
    for (unsigned k = 0; k < wides; ++k) {
      const size_t some = FieldReader<kLane>::readable(*wide[k], merge.first) / kLane;
      if (least > some) least = some;
    }
    return least;
  }
};

// Which fields a loop has.
template <bool kHasBit, unsigned kWides>
struct Shape {
  static constexpr bool kBit = kHasBit;
  static constexpr unsigned kWide = kWides;
};
// What run(Shape) gives for the shape of the fields.
template <class Run>
BREVIS_INLINE auto by_shape(const Fields& fields, Run&& run) {
  const bool bit = fields.bit != nullptr;
  switch (fields.wides) {
    case 0: return bit ? run(Shape<true, 0>{}) : run(Shape<false, 0>{});
    case 1: return bit ? run(Shape<true, 1>{}) : run(Shape<false, 1>{});
    default: return bit ? run(Shape<true, 2>{}) : run(Shape<false, 2>{});
  }
}

// The packed fields of one word after the other.
template <unsigned kLane, class FieldShape>
class PackedRest {
 public:
  PackedRest(const Fields& fields, size_t first) {
    if constexpr (FieldShape::kBit) bit_ = BitReader64::of<kLane>(*fields.bit, first);
    for (unsigned k = 0; k < FieldShape::kWide; ++k) wide_[k] = FieldReader<kLane>(*fields.wide[k], first);
  }
  // Stores 64 words with their fields added.
  BREVIS_INLINE void add(V (&words)[kLane], uint8_t* out) {
    uint64_t signs = 0;
    if constexpr (FieldShape::kBit) signs = bit_.next();
    for (unsigned v = 0; v < kLane; ++v) {
      if constexpr (FieldShape::kWide > 0) words[v] = wide_[0].add(words[v]);
      if constexpr (FieldShape::kWide > 1) words[v] = wide_[1].add(words[v]);
      if constexpr (FieldShape::kBit) words[v] = add_bit<kLane>(words[v], bit_.bit, signs >> v * (kVector / kLane));
      _mm512_storeu_si512(out + v * kVector, words[v]);
    }
  }
  // The next words' fields are read from elsewhere: from(field, which of three) says where.
  template <class From>
  void read_from(const Fields& fields, From&& from) {
    if constexpr (FieldShape::kBit) bit_.at = from(*fields.bit, 0);
    for (unsigned k = 0; k < FieldShape::kWide; ++k) wide_[k].read_from(from(*fields.wide[k], 1 + k));
  }

 private:
  BitReader64 bit_{};
  FieldReader<kLane> wide_[2];
};

}  // namespace
BREVIS_TARGET_END

}  // namespace brevis::bits
