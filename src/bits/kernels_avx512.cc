// SPDX-License-Identifier: Apache-2.0
//
// Kernels for CPUs with AVX-512 including VBMI and VBMI2 (Intel from Ice Lake on, AMD from Zen 4 on).
//
// rANS from an alias table. Problem: 64 states of 32 bits, a table of up to 64 buckets, and all lookups on the critical
// path. Way: states are kept as two vectors of 16-bit halves, 32 states each, in lane order. Then
//  - slots are the low halves, bytes of them the indices of lookups: one byte permute serves all 64 lanes, and its 64
//    entries are a whole table, so there are no permutes of two sources and none of 16 bits, which are slower;
//  - f * floor(x / 2^12) + rank is done in halves: with x = 2^16 h + 2^12 t + slot it is (16 f) h + f t + rank, where
//    f t + rank fits 16 bits, and f t is the upper half of (16 f) (2^12 t): the table holds 16 f only;
//  - the words of 32 lanes come by one expanding move, in stream order, and what is made of symbols needs no shuffle.
// Not taken: 32-bit lanes with 16-bit tables (twice the instructions), gathers (four times the time).
//
// Packed fields: a byte permute brings each 64-bit element the bytes that its fields lie in, a multishift moves every
// byte of every field to its place in the word, whatever the shift, and an and-or takes it in.
#if defined(__x86_64__)
#include "bits/avx512.h"

namespace brevis::bits {

bool cpu_has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

BREVIS_TARGET_BEGIN(BREVIS_AVX512)
namespace {

// Bytes of 64 lanes come and go interleaved: those of lanes 0..31 are the even ones, of lanes 32..63 the odd ones.
struct Pair {
  V a, b;  // 16 bits a lane: lanes 0..31, 32..63
};
BREVIS_INLINE Pair widen(V low, V high) {
  const V odd = _mm512_set1_epi16(static_cast<short>(0xff00));
  return {select(odd, _mm512_slli_epi16(high, 8), low), select(odd, high, _mm512_srli_epi16(low, 8))};
}

// Interleaved bytes in lane order.
BREVIS_INLINE V lane_order(V bytes) {
  alignas(64) static constexpr auto kOrder = [] {
    struct {
      uint8_t at[64];
    } order{};
    for (unsigned i = 0; i < 64; ++i) order.at[i] = static_cast<uint8_t>(i < 32 ? 2 * i : 2 * (i - 32) + 1);
    return order;
  }();
  return _mm512_permutexvar_epi8(load(kOrder.at), bytes);
}

class AliasLanes {
 public:
  AliasLanes(const AliasPlanes& planes, const RansCursor& cursor)
      : threshold_(load(planes.threshold)),
        symbol_{load(planes.symbol[0]), load(planes.symbol[1])},
        offset_{{load(planes.offset[0][0]), load(planes.offset[0][1])},
                {load(planes.offset[1][0]), load(planes.offset[1][1])}},
        frequency_{load(planes.frequency[0]), load(planes.frequency[1])},
        next_(cursor.next) {
    const auto halves = [&](const uint32_t* states, V& low, V& high) __attribute__((always_inline)) {
      const V first = load(states), second = load(states + 16);
      low = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(first)), _mm512_cvtepi32_epi16(second), 1);
      high = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(_mm512_srli_epi32(first, 16))),
                                _mm512_cvtepi32_epi16(_mm512_srli_epi32(second, 16)), 1);
    };
    halves(cursor.states, low_.a, high_.a);
    halves(cursor.states + 32, low_.b, high_.b);
  }

  const uint8_t* next() const { return next_; }

  // Decodes a symbol in every lane, interleaved. Requires: 64 words from next() on.
  BREVIS_INLINE V step() {
    const V odd = _mm512_set1_epi16(static_cast<short>(0xff00));
    // A byte permute looks at six bits of its indices.
    const V bucket = select(odd, _mm512_slli_epi16(low_.b, 2), _mm512_srli_epi16(low_.a, 6));
    const V within = select(odd, _mm512_slli_epi16(low_.b, 8), low_.a);
    const __mmask64 side = _mm512_cmpge_epu8_mask(within, _mm512_permutexvar_epi8(bucket, threshold_));
    const V symbol = by_bucket(symbol_, bucket, side);
    const Pair offset = widen(by_bucket({offset_[0][0], offset_[1][0]}, bucket, side),
                              by_bucket({offset_[0][1], offset_[1][1]}, bucket, side));
    const Pair frequency =
        widen(_mm512_permutexvar_epi8(symbol, frequency_[0]), _mm512_permutexvar_epi8(symbol, frequency_[1]));
    advance(low_.a, high_.a, frequency.a, offset.a);
    advance(low_.b, high_.b, frequency.b, offset.b);
    return symbol;
  }

  void store(RansCursor& cursor) const {
    const auto states = [](V low, V high, uint32_t * to) __attribute__((always_inline)) {
      for (unsigned half = 0; half < 2; ++half) {
        const V l = _mm512_cvtepu16_epi32(half == 0 ? _mm512_castsi512_si256(low) : _mm512_extracti64x4_epi64(low, 1));
        const V h =
            _mm512_cvtepu16_epi32(half == 0 ? _mm512_castsi512_si256(high) : _mm512_extracti64x4_epi64(high, 1));
        _mm512_storeu_si512(to + 16 * half, _mm512_or_si512(l, _mm512_slli_epi32(h, 16)));
      }
    };
    states(low_.a, high_.a, cursor.states);
    states(low_.b, high_.b, cursor.states + 32);
    cursor.next = next_;
  }

 private:
  struct Sides {
    V first, second;
  };
  BREVIS_INLINE static V by_bucket(Sides table, V bucket, __mmask64 side) {
    return _mm512_mask_permutexvar_epi8(_mm512_permutexvar_epi8(bucket, table.first), side, bucket, table.second);
  }

  BREVIS_INLINE void advance(V& low, V& high, V frequency, V offset) {
    const V rank = _mm512_and_si512(_mm512_sub_epi16(low, offset), _mm512_set1_epi16(0xfff));
    const V top = _mm512_and_si512(low, _mm512_set1_epi16(static_cast<short>(0xf000)));
    const V small = _mm512_add_epi16(_mm512_mulhi_epu16(frequency, top), rank);
    const V upper = _mm512_mulhi_epu16(frequency, high);
    const V lower = _mm512_add_epi16(_mm512_mullo_epi16(frequency, high), small);
    const __mmask32 carry = _mm512_cmplt_epu16_mask(lower, small);
    __mmask32 zero = _mm512_testn_epi16_mask(upper, upper);
    asm("" : "+Yk"(zero));  // or else the compiler lets this test wait for that of the carry
    const __mmask32 refill = _kandn_mask32(carry, zero);
    high = _mm512_mask_mov_epi16(_mm512_mask_add_epi16(upper, carry, upper, _mm512_set1_epi16(1)), refill, lower);
    low = _mm512_mask_expand_epi16(lower, refill, load(next_));
    next_ += 2 * static_cast<uint64_t>(_mm_popcnt_u32(refill));
  }

  V threshold_;
  Sides symbol_;
  V offset_[2][2], frequency_[2];
  Pair low_, high_;  // halves of the states
  const uint8_t* next_;
};

size_t alias_decode(const AliasDecoder& table, RansCursor& cursor, uint8_t* out, size_t rounds) {
  if (cursor.lanes != kLanes) return all_kernels().front().alias_decode(table, cursor, out, rounds);
  AliasLanes lanes(*table.planes, cursor);
  size_t round = 0;
  for (; round < rounds && cursor.end - lanes.next() >= 2 * kLanes; ++round, out += kLanes)
    _mm512_storeu_si512(out, lane_order(lanes.step()));
  lanes.store(cursor);
  return round;
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

  // The words of all lanes, in lane order.
  BREVIS_INLINE void look_up(V symbols, V (&words)[kLane]) const {
    const V low = _mm512_permutexvar_epi8(symbols, low_);
    if constexpr (kLane == 1) {
      words[0] = lane_order(low);
      return;
    } else {
      const Pair pair = widen(low, _mm512_permutexvar_epi8(symbols, high_));
      if constexpr (kLane == 2) {
        words[0] = pair.a;
        words[1] = pair.b;
      } else {
        words[0] = place(_mm512_castsi512_si256(pair.a));
        words[1] = place(_mm512_extracti64x4_epi64(pair.a, 1));
        words[2] = place(_mm512_castsi512_si256(pair.b));
        words[3] = place(_mm512_extracti64x4_epi64(pair.b, 1));
      }
    }
  }

 private:
  static unsigned lowest_bit(const uint32_t* values) {
    uint32_t all = 0;
    for (unsigned s = 0; s < 64; ++s) all |= values[s];
    return all == 0 ? 0 : static_cast<unsigned>(__builtin_ctz(all));
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
};

template <unsigned kLane, bool kBit, unsigned kWide>
size_t merge_rounds(const AliasMerge& merge, const Fields& fields, RansCursor& cursor, uint8_t* out, size_t rounds,
                    size_t& counted) {
  AliasLanes lanes(*merge.table.planes, cursor);
  const ValueTable<kLane> values(merge.values);
  BitReader64 bit{};
  if constexpr (kBit) bit = BitReader64::of<kLane>(*fields.bit, merge.first);
  FieldReader<kLane> wide[2];
  for (unsigned k = 0; k < kWide; ++k) wide[k] = FieldReader<kLane>(*fields.wide[k], merge.first);
  const V escape = _mm512_set1_epi8(static_cast<char>(merge.counted < 64 ? merge.counted : 0xff));
  size_t round = 0, hits = 0;
  for (; round < rounds && cursor.end - lanes.next() >= 2 * kLanes; ++round) {
    const V symbols = lanes.step();
    hits += static_cast<size_t>(_mm_popcnt_u64(_mm512_cmpeq_epi8_mask(symbols, escape)));
    V words[kLane];
    values.look_up(symbols, words);
    uint64_t signs = 0;
    if constexpr (kBit) signs = bit.next();
    for (unsigned v = 0; v < kLane; ++v, out += kVector) {
      if constexpr (kWide > 0) words[v] = wide[0].add(words[v]);
      if constexpr (kWide > 1) words[v] = wide[1].add(words[v]);
      if constexpr (kBit) words[v] = add_bit<kLane>(words[v], bit.bit, signs >> v * (kVector / kLane));
      _mm512_storeu_si512(out, words[v]);
    }
  }
  counted += hits;
  lanes.store(cursor);
  return round;
}

template <unsigned kLane>
size_t merge_alias(const AliasMerge& merge, RansCursor& cursor, uint8_t* out, size_t rounds, size_t& counted) {
  const auto scalar = all_kernels().front().merge_alias[kLane / 2];
  if (cursor.lanes != kLanes || merge.first % 8 != 0 || (kLane == 4 && !ValueTable<kLane>::serves(merge.values)))
    return scalar(merge, cursor, out, rounds, counted);
  Fields fields;
  for (size_t k = 0; k < merge.field_count; ++k) {
    const PackedField& field = merge.fields[k];
    size_t readable;
    if (field.b == 1 && fields.bit == nullptr) {
      fields.bit = &field;
      readable = (field.bytes - merge.first / 8) / 8;
    } else if (fields.wides < 2 && field.b <= FieldReader<kLane>::kMaxBits) {
      fields.wide[fields.wides++] = &field;
      readable = FieldReader<kLane>::readable(field, merge.first) / kLane;
    } else {
      return scalar(merge, cursor, out, rounds, counted);
    }
    if (rounds > readable) rounds = readable;
  }
  const bool bit = fields.bit != nullptr;
  switch (fields.wides) {
    case 0:
      return bit ? merge_rounds<kLane, true, 0>(merge, fields, cursor, out, rounds, counted)
                 : merge_rounds<kLane, false, 0>(merge, fields, cursor, out, rounds, counted);
    case 1:
      return bit ? merge_rounds<kLane, true, 1>(merge, fields, cursor, out, rounds, counted)
                 : merge_rounds<kLane, false, 1>(merge, fields, cursor, out, rounds, counted);
    default:
      return bit ? merge_rounds<kLane, true, 2>(merge, fields, cursor, out, rounds, counted)
                 : merge_rounds<kLane, false, 2>(merge, fields, cursor, out, rounds, counted);
  }
}

}  // namespace
BREVIS_TARGET_END

void fill_avx512(Kernels& table) {
  fill_avx512_words(table);
  fill_avx512_rans(table);
  table.alias_decode = alias_decode;
  table.merge_alias[0] = merge_alias<1>;
  table.merge_alias[1] = merge_alias<2>;
  table.merge_alias[2] = merge_alias<4>;
}

}  // namespace brevis::bits
#endif
