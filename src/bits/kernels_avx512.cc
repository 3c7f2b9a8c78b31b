// SPDX-License-Identifier: Apache-2.0
//
// Kernels for CPUs with AVX-512 including VBMI and VBMI2 (Intel from Ice Lake on, AMD from Zen 4 on).
//
// rANS from an alias table. Problem: 64 states of 32 bits, a table of up to 64 buckets, and everything on the critical
// path, since a round needs the states of the round before. Way: states are kept in halves of 16 bits, 32 states a
// vector in lane order. Then
//  - slots are the low halves, their upper bytes the indices of lookups: a byte permute knows 64 entries, a whole
//  table,
//    so there are no permutes of two sources, which cost twice as much; a 16-bit entry takes two permutes;
//  - f * floor(x / 2^12) + rank is done in halves: with x = 2^16 h + 2^12 t + slot it is (16 f) h + f t + rank, where
//    f t + rank fits 16 bits, and f t is the upper half of (16 f) (2^12 t): the table holds 16 f only;
//  - the words of 32 lanes come by one expanding move, in stream order, and what is made of symbols needs no shuffle;
//  - the two vectors of 32 states depend on each other by the place of their words alone, so that one computes while
//    the other waits. (Lookups for both at once, even and odd bytes, take fewer instructions and a third more time.)
// Not taken: 32-bit lanes with 16-bit tables (twice the instructions), gathers.
//
// Packed fields: a byte permute brings each 64-bit element the bytes that its fields lie in, a multishift moves every
// byte of every field to its place in the word, whatever the shift, and an and-or takes it in.
#if defined(__x86_64__)
#include "bits/avx512_merge.h"
#include "bits/avx512_states.h"

namespace brevis::bits {

bool cpu_has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

BREVIS_TARGET_BEGIN(BREVIS_AVX512)
namespace {

struct Tables {
  V threshold, symbol[2], offset[2][2], frequency[2];
  V odd;  // would not stay in a register by itself
  StateConstants constants;

  explicit Tables(const AliasPlanes& planes)
      : threshold(load(planes.threshold)),
        symbol{load(planes.symbol[0]), load(planes.symbol[1])},
        offset{{load(planes.offset[0][0]), load(planes.offset[0][1])},
               {load(planes.offset[1][0]), load(planes.offset[1][1])}},
        frequency{load(planes.frequency[0]), load(planes.frequency[1])},
        odd(_mm512_set1_epi16(static_cast<short>(0xff00))) {
    asm("" : "+v"(odd));
  }
};

// Half of the states.
class Lanes32 {
 public:
  explicit Lanes32(const uint32_t* states) : states_(states) {}

  // Decodes a symbol in every lane, into even bytes; odd ones mean nothing. Requires: 32 words from `next` on.
  BREVIS_INLINE V step(const Tables& tables, const uint8_t*& next) {
    // A permute looks at six bits of its indices: those of the bucket in even bytes.
    const V low = states_.low(), bucket = _mm512_srli_epi16(low, 6);
    const __mmask64 side = _mm512_cmpge_epu8_mask(low, _mm512_permutexvar_epi8(bucket, tables.threshold));
    const auto look_up = [&](V first, V second) __attribute__((always_inline)) {
      return _mm512_mask_permutexvar_epi8(_mm512_permutexvar_epi8(bucket, first), side, bucket, second);
    };
    const V symbol = look_up(tables.symbol[0], tables.symbol[1]);
    const V frequency = select(tables.odd, _mm512_permutexvar_epi8(_mm512_slli_epi16(symbol, 8), tables.frequency[1]),
                               _mm512_permutexvar_epi8(symbol, tables.frequency[0]));
    const V offset = select(tables.odd, _mm512_slli_epi16(look_up(tables.offset[0][1], tables.offset[1][1]), 8),
                            look_up(tables.offset[0][0], tables.offset[1][0]));
    states_.advance(frequency, offset, tables.constants, next);
    return symbol;
  }

  void store(uint32_t* states) const { states_.store(states); }

 private:
  States32 states_;
};

// Sixteen lanes are one dependency chain, and all that counts is its length. States are 32-bit lanes here. What both
// sides of a bucket have is looked up while the comparison that tells which one is meant is under way, in tables of 64
// entries of 32 bits, so that no lookup waits for another. Products of even and of odd lanes take half as long as those
// of all lanes at once.
struct Tables16 {
  struct Table64 {
    V part[4];
    explicit Table64(const uint32_t* entries) {
      for (unsigned k = 0; k < 4; ++k) part[k] = load(entries + 16 * k);
    }
    BREVIS_INLINE V operator()(V at, __mmask16 upper) const {
      return _mm512_mask_mov_epi32(_mm512_permutex2var_epi32(part[0], at, part[1]), upper,
                                   _mm512_permutex2var_epi32(part[2], at, part[3]));
    }
  };
  V threshold;
  Table64 side[2];

  explicit Tables16(const AliasPlanes& planes)
      : threshold(load(planes.threshold)), side{Table64(planes.entry[0]), Table64(planes.entry[1])} {}
};

BREVIS_INLINE V all32(uint32_t value) { return _mm512_set1_epi32(static_cast<int>(value)); }

class Lanes16 {
 public:
  explicit Lanes16(const uint32_t* states) : x_(load(states)) {}

  // Decodes a symbol in every lane, into bits 12 to 17; the others mean nothing. Requires: 16 words from `next` on.
  BREVIS_INLINE V step(const Tables16& tables, const uint8_t*& next) {
    const V words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(next)));
    const V bucket = _mm512_srli_epi32(x_, 6);
    const V threshold = _mm512_maskz_permutexvar_epi8(0x1111111111111111, bucket, tables.threshold);
    const __mmask16 upper = _mm512_test_epi32_mask(x_, all32(0x800));
    const __mmask16 second = _mm512_cmpge_epu32_mask(_mm512_and_si512(x_, all32(0xff)), threshold);
    const V entry = _mm512_mask_mov_epi32(tables.side[0](bucket, upper), second, tables.side[1](bucket, upper));
    const V rank = _mm512_and_si512(_mm512_sub_epi32(x_, entry), all32(0xfff));
    const V even = _mm512_mul_epu32(_mm512_srli_epi32(entry, 20), _mm512_srli_epi32(x_, 12));
    const V odd = _mm512_mul_epu32(_mm512_srli_epi64(entry, 52), _mm512_srli_epi64(x_, 44));
    const V x = _mm512_add_epi32(_mm512_mask_shuffle_epi32(even, 0xaaaa, odd, _MM_PERM_CCAA), rank);
    const __mmask16 refill = _mm512_cmplt_epu32_mask(x, all32(0x10000));
    x_ = _mm512_mask_or_epi32(x, refill, _mm512_slli_epi32(x, 16), _mm512_maskz_expand_epi32(refill, words));
    next += 2 * static_cast<uint64_t>(_mm_popcnt_u32(refill));
    return entry;
  }

  void store(uint32_t* states) const { _mm512_storeu_si512(states, x_); }

 private:
  V x_;
};

// Both kinds decode 64 symbols at a time, into even bytes of two vectors in lane order.
class By64Lanes {
 public:
  static constexpr unsigned kRounds = 1;  // that make 64 symbols

  By64Lanes(const AliasDecoder& table, const RansCursor& cursor)
      : tables_(*table.planes), first_(cursor.states), second_(cursor.states + 32) {}
  BREVIS_INLINE void step(V& a, V& b, const uint8_t*& next) {
    a = first_.step(tables_, next);
    b = second_.step(tables_, next);
  }
  void store(uint32_t* states) const {
    first_.store(states);
    second_.store(states + 32);
  }

 private:
  Tables tables_;
  Lanes32 first_, second_;
};

class By16Lanes {
 public:
  static constexpr unsigned kRounds = 4;

  By16Lanes(const AliasDecoder& table, const RansCursor& cursor) : tables_(*table.planes), lanes_(cursor.states) {
    alignas(64) uint8_t order[64];
    for (unsigned i = 0; i < 32; ++i)
      for (unsigned byte = 0; byte < 2; ++byte)
        order[2 * i + byte] = static_cast<uint8_t>((i < 16 ? 4 * i : 4 * (i - 16) + 2) + byte);
    order_ = load(order);
  }
  BREVIS_INLINE void step(V& a, V& b, const uint8_t*& next) {
    a = two(next);
    b = two(next);
  }
  void store(uint32_t* states) const { lanes_.store(states); }

 private:
  BREVIS_INLINE V two(const uint8_t*& next) {
    const V first = lanes_.step(tables_, next), second = lanes_.step(tables_, next);
    return join(first, second);
  }
  BREVIS_INLINE V join(V first, V second) const {
    // Symbols go to the lowest byte of 16-bit halves.
    const V both = select(all32(0xffff0000), _mm512_slli_epi32(second, 4), _mm512_srli_epi32(first, 12));
    return _mm512_permutexvar_epi8(order_, both);
  }

  Tables16 tables_;
  Lanes16 lanes_;
  V order_;
};

// 64 symbols at a time for as long as as many words are left; gives the rounds done.
template <class Decoder>
size_t decode_symbols(const AliasDecoder& table, RansCursor& cursor, uint8_t* out, size_t rounds) {
  Decoder decoder(table, cursor);
  const uint8_t* next = cursor.next;
  size_t round = 0;
  for (; round + Decoder::kRounds <= rounds && cursor.end - next >= 2 * kLanes;
       round += Decoder::kRounds, out += kLanes) {
    V a, b;
    decoder.step(a, b, next);
    _mm512_storeu_si512(out, lane_order(a, b));
  }
  decoder.store(cursor.states);
  cursor.next = next;
  return round;
}

size_t alias_decode(const AliasDecoder& table, RansCursor& cursor, uint8_t* out, size_t rounds) {
  if (cursor.lanes == 64) return decode_symbols<By64Lanes>(table, cursor, out, rounds);
  const size_t done = cursor.lanes == 16 ? decode_symbols<By16Lanes>(table, cursor, out, rounds) : 0;
  return done + all_kernels().front().alias_decode(table, cursor, out + done * cursor.lanes, rounds - done);
}

template <class Decoder, unsigned kLane, class FieldShape>
size_t merge_rounds(const AliasMerge& merge, const Fields& fields, RansCursor& cursor, uint8_t* out, size_t rounds,
                    size_t& counted) {
  Decoder decoder(merge.table, cursor);
  const uint8_t* next = cursor.next;
  const ValueTable<kLane> values(merge.values);
  PackedRest<kLane, FieldShape> rest(fields, merge.first);
  const V escape = _mm512_set1_epi8(static_cast<char>(merge.counted < 64 ? merge.counted : 0xff));
  __mmask64 even = kEven;
  asm("" : "+Yk"(even));
  size_t round = 0, hits = 0;
  for (; round + Decoder::kRounds <= rounds && cursor.end - next >= 2 * kLanes;
       round += Decoder::kRounds, out += kLane * kVector) {
    V a, b;
    decoder.step(a, b, next);
    hits += static_cast<size_t>(_mm_popcnt_u64(_mm512_mask_cmpeq_epi8_mask(even, a, escape)));
    hits += static_cast<size_t>(_mm_popcnt_u64(_mm512_mask_cmpeq_epi8_mask(even, b, escape)));
    V words[kLane];
    values.look_up(a, b, words);
    rest.add(words, out);
  }
  counted += hits;
  decoder.store(cursor.states);
  cursor.next = next;
  return round;
}

template <class Decoder, unsigned kLane>
size_t merge_fields(const AliasMerge& merge, const Fields& fields, RansCursor& cursor, uint8_t* out, size_t rounds,
                    size_t& counted) {
  return by_shape(fields, [&]<class FieldShape>(FieldShape) {
    return merge_rounds<Decoder, kLane, FieldShape>(merge, fields, cursor, out, rounds, counted);
  });
}

template <unsigned kLane>
size_t merge_alias(const AliasMerge& merge, RansCursor& cursor, uint8_t* out, size_t rounds, size_t& counted) {
  Fields fields;
  if (cursor.lanes < 16 || !fields.sort<kLane>(merge)) return 0;
  size_t vectors = rounds * cursor.lanes / kLanes;  // of 64 words
  const size_t readable = fields.readable<kLane>(merge);
  if (vectors > readable) vectors = readable;
  return cursor.lanes == 64 ? merge_fields<By64Lanes, kLane>(merge, fields, cursor, out, vectors, counted)
                            : merge_fields<By16Lanes, kLane>(merge, fields, cursor, out, 4 * vectors, counted);
}

}  // namespace
BREVIS_TARGET_END

void fill_avx512(Kernels& table) {
  fill_avx512_words(table);
  fill_avx512_rans(table);
  fill_avx512_symbols(table);
  table.alias_decode = alias_decode;
  table.merge_alias[0] = merge_alias<1>;
  table.merge_alias[1] = merge_alias<2>;
  table.merge_alias[2] = merge_alias<4>;
}

}  // namespace brevis::bits
#endif
