// SPDX-License-Identifier: Apache-2.0
//
// Decoding an alias table in 64 lanes on CPUs with AVX-512 whose permutes of two sources take no longer than those of
// one: AMD from Zen 4 on. On Intel's they take two to three times as long, which is what kernels_avx512.cc goes by.
//
// States as there, in halves of 16 bits. A permute of two sources knows 64 entries of 16 bits, so that a bucket gives
// whatever belongs to it in one go: the offset, 16 times the frequency, and what its symbol stands for, without the
// symbol. What both sides of a bucket have is looked up while the comparison that tells which one is meant is under
// way, so that no lookup waits for another.
#if defined(__x86_64__)
#include "bits/avx512_merge.h"
#include "bits/avx512_pairs.h"

namespace brevis::bits {

BREVIS_TARGET_BEGIN(BREVIS_AVX512)
namespace {

// Both sides of a bucket.
struct Sides {
  Pair side[2];
  BREVIS_INLINE V operator()(V bucket, __mmask32 second) const {
    return _mm512_mask_mov_epi16(side[0](bucket), second, side[1](bucket));
  }
};

struct Tables {
  V threshold;
  Sides offset, frequency, value;
  V low_byte;  // would not stay in a register by itself
  StateConstants constants;

  // `values`: 64, of which 16 bits count.
  Tables(const AliasPlanes& planes, const Pair& values)
      : threshold(load(planes.threshold)), low_byte(_mm512_set1_epi16(0xff)) {
    for (unsigned s = 0; s < 2; ++s) {
      const BucketEntries entries(planes.entry[s]);
      offset.side[s] = entries.offset;
      frequency.side[s] = entries.frequency;
      value.side[s] = {values(entries.symbol.low), values(entries.symbol.high)};  // permutes look at six bits
    }
    asm("" : "+v"(low_byte));
  }
};

// Half of the states.
class Lanes32 {
 public:
  explicit Lanes32(const uint32_t* states) : states_(states) {}

  // What the symbol decoded in every lane stands for. Requires: 32 words from `next` on.
  BREVIS_INLINE V step(const Tables& tables, const uint8_t*& next) {
    // A permute looks at six bits of its indices.
    const V low = states_.low(), bucket = _mm512_srli_epi16(low, 6);
    const V threshold = _mm512_maskz_permutexvar_epi8(kEven, bucket, tables.threshold);
    const __mmask32 second = _mm512_cmpge_epu16_mask(_mm512_and_si512(low, tables.low_byte), threshold);
    states_.advance(tables.frequency(bucket, second), tables.offset(bucket, second), tables.constants, next);
    return tables.value(bucket, second);
  }

  void store(uint32_t* states) const { states_.store(states); }

 private:
  States32 states_;
};

class Lanes64 {
 public:
  explicit Lanes64(const RansCursor& cursor) : first_(cursor.states), second_(cursor.states + 32) {}
  BREVIS_INLINE void step(const Tables& tables, V (&values)[2], const uint8_t*& next) {
    values[0] = first_.step(tables, next);
    values[1] = second_.step(tables, next);
  }
  void store(uint32_t* states) const {
    first_.store(states);
    second_.store(states + 32);
  }

 private:
  Lanes32 first_, second_;
};

// What the row before had, for other numbers of lanes.
struct {
  decltype(Kernels::alias_decode) alias_decode;
  decltype(Kernels::merge_alias) merge_alias;
} without_pairs;

Pair pair_of(const uint32_t* entries) {
  const V all[4] = {load(entries), load(entries + 16), load(entries + 32), load(entries + 48)};
  return Pair::of(all);
}

// 64 symbols at a time for as long as as many words are left; gives the rounds done.
size_t alias_decode(const AliasDecoder& table, RansCursor& cursor, uint8_t* out, size_t rounds) {
  if (cursor.lanes != 64) return without_pairs.alias_decode(table, cursor, out, rounds);
  uint32_t symbols[64];
  for (unsigned s = 0; s < 64; ++s) symbols[s] = s;
  const Tables tables(*table.planes, pair_of(symbols));
  Lanes64 lanes(cursor);
  const uint8_t* next = cursor.next;
  size_t round = 0;
  for (; round < rounds && cursor.end - next >= 2 * kLanes; ++round, out += kLanes) {
    V values[2];
    lanes.step(tables, values, next);
    _mm512_storeu_si512(out, lane_order(values[0], values[1]));
  }
  lanes.store(cursor.states);
  cursor.next = next;
  return round;
}

// Values of the symbols, moved so that they fit 16 bits.
template <unsigned kLane>
class Values {
 public:
  explicit Values(const uint32_t* values) : shift_(kLane == 4 ? lowest_bit(values) : 0) {
    uint32_t moved[64];
    for (unsigned s = 0; s < 64; ++s) moved[s] = values[s] >> shift_;
    pair_ = pair_of(moved);
  }
  const Pair& pair() const { return pair_; }
  BREVIS_INLINE void words(const V (&values)[2], V (&words)[kLane]) const {
    if constexpr (kLane == 1) words[0] = lane_order(values[0], values[1]);
    if constexpr (kLane == 2) words[0] = values[0], words[1] = values[1];
    if constexpr (kLane == 4) {
      for (unsigned i = 0; i < 2; ++i) {
        words[2 * i] = place(_mm512_castsi512_si256(values[i]));
        words[2 * i + 1] = place(_mm512_extracti64x4_epi64(values[i], 1));
      }
    }
  }
  uint16_t moved(uint32_t value) const { return static_cast<uint16_t>(value >> shift_); }

 private:
  BREVIS_INLINE V place(__m256i values) const {
    return _mm512_sllv_epi32(_mm512_cvtepu16_epi32(values), _mm512_set1_epi32(static_cast<int>(shift_)));
  }

  unsigned shift_;
  Pair pair_;
};

template <unsigned kLane, class FieldShape>
size_t merge_rounds(const AliasMerge& merge, const Fields& fields, RansCursor& cursor, uint8_t* out, size_t rounds,
                    size_t& counted) {
  const Values<kLane> values(merge.values);
  const Tables tables(*merge.table.planes, values.pair());
  Lanes64 lanes(cursor);
  PackedRest<kLane, FieldShape> rest(fields, merge.first);
  const bool counts = merge.counted < 64;
  const V escape = _mm512_set1_epi16(static_cast<short>(counts ? values.moved(merge.values[merge.counted]) : 0));
  __mmask32 counting = counts ? 0xffffffff : 0;
  asm("" : "+Yk"(counting));
  const uint8_t* next = cursor.next;
  size_t round = 0, hits = 0;
  for (; round < rounds && cursor.end - next >= 2 * kLanes; ++round, out += kLane * kVector) {
    V some[2], words[kLane];
    lanes.step(tables, some, next);
    for (const V& half : some)
      hits += static_cast<size_t>(_mm_popcnt_u32(_mm512_mask_cmpeq_epi16_mask(counting, half, escape)));
    values.words(some, words);
    rest.add(words, out);
  }
  counted += hits;
  lanes.store(cursor.states);
  cursor.next = next;
  return round;
}

template <unsigned kLane>
size_t merge_alias(const AliasMerge& merge, RansCursor& cursor, uint8_t* out, size_t rounds, size_t& counted) {
  Fields fields;
  if (cursor.lanes != 64) return without_pairs.merge_alias[kLane / 2](merge, cursor, out, rounds, counted);
  if (!fields.sort<kLane>(merge)) return 0;
  const size_t readable = fields.readable<kLane>(merge);
  if (rounds > readable) rounds = readable;
  return by_shape(fields, [&]<class FieldShape>(FieldShape) {
    return merge_rounds<kLane, FieldShape>(merge, fields, cursor, out, rounds, counted);
  });
}

}  // namespace
BREVIS_TARGET_END

bool cpu_permutes_pairs() { return cpu_has_avx512() && __builtin_cpu_is("amd"); }

void fill_avx512_pairs(Kernels& table) {
  without_pairs.alias_decode = table.alias_decode;
  __builtin_memcpy(without_pairs.merge_alias, table.merge_alias, sizeof table.merge_alias);
  table.alias_decode = alias_decode;
  table.merge_alias[0] = merge_alias<1>;
  table.merge_alias[1] = merge_alias<2>;
  table.merge_alias[2] = merge_alias<4>;
}

}  // namespace brevis::bits
#endif
