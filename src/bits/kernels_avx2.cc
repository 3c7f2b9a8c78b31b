// SPDX-License-Identifier: Apache-2.0
//
// Kernels for CPUs with AVX2 and BMI2 (Intel from Haswell on, AMD from Excavator on).
//
// rANS from an alias table goes as in kernels_avx512.cc: states in 16-bit halves, lookups by byte shuffles. A shuffle
// knows 16 entries, so a table of 64 takes four of them (and one of 16 buckets a single one, hence the kernels by
// number of buckets). Gathers from the table by slots would be twice as fast on a few CPUs and several times slower on
// the many whose microcode guards them.
//
// What symbols become goes through a tile that stays in the first-level cache; packed fields are then or-ed to it.
#if defined(__x86_64__)
#include <cpuid.h>

#include "bits/avx2.h"

namespace brevis::bits {

namespace {

// clang 14 has no name for it.
bool cpu_has_lzcnt() {
  unsigned a, b, c = 0, d;
  return __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c & bit_LZCNT) != 0;
}

}  // namespace

bool cpu_has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("popcnt") && cpu_has_lzcnt();
}

BREVIS_TARGET_BEGIN(BREVIS_AVX2)
namespace {

constexpr size_t kTile = 1024;  // words

// Bytes by which tables of 2^kLog entries are looked up.
template <unsigned kLog>
class Index {
 public:
  static constexpr unsigned kParts = (1u << kLog) / 16;

  // `at`: bytes below 2^kLog. Shuffles give zero where bit 7 of the index is set, so that the parts can be or-ed.
  BREVIS_INLINE explicit Index(V at) {
    const V beyond = _mm256_set1_epi8(0x70);
    if constexpr (kParts == 1) {
      part_[0] = at;
    } else {
      for (unsigned k = 0; k < kParts; ++k)
        part_[k] = _mm256_add_epi8(_mm256_xor_si256(at, _mm256_set1_epi8(static_cast<char>(16 * k))), beyond);
    }
  }
  BREVIS_INLINE V operator()(const uint8_t* table) const {
    const auto part = [&](unsigned k) __attribute__((always_inline)) {
      return _mm256_shuffle_epi8(both(table + 16 * k), part_[k]);
    };
    if constexpr (kParts == 1) return part(0);
    if constexpr (kParts == 2) return or_(part(0), part(1));
    if constexpr (kParts == 4) return or_(or_(part(0), part(1)), or_(part(2), part(3)));
  }

 private:
  V part_[kParts];
};

// The alias table, one entry a bucket; entries of side 1 as differences (xor) from side 0, whose symbol is the bucket.
struct alignas(64) Tables {
  uint8_t threshold[64], symbol_step[64], frequency[2][64];
  uint8_t offset[64], offset_step[64];  // low bytes
  uint8_t offset_top[64];               // the four bits above, and those of the difference above them

  Tables(const AliasPlanes& planes, unsigned log_buckets) {
    for (unsigned b = 0; b < 1u << log_buckets; ++b) {
      const unsigned at = b << (6 - log_buckets);
      const auto& first = planes.offset[0];
      const auto& second = planes.offset[1];
      threshold[b] = planes.threshold[at];
      symbol_step[b] = static_cast<uint8_t>(b ^ planes.symbol[1][at]);
      offset[b] = first[0][at];
      offset_step[b] = first[0][at] ^ second[0][at];
      offset_top[b] = static_cast<uint8_t>((first[1][at] & 0xf) | (first[1][at] ^ second[1][at]) << 4);
      for (unsigned byte = 0; byte < 2; ++byte) frequency[byte][b] = planes.frequency[byte][b];
    }
  }
};

// 32 lanes of bytes stand as packing two vectors of 16-bit lanes leaves them; unpacking undoes it.
struct Pair {
  V a, b;  // lanes 0..15, 16..31
};
BREVIS_INLINE Pair widen(V low, V high) { return {_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high)}; }

// States of 16 lanes a vector.
template <unsigned kLog, unsigned kVectors>
class Lanes {
 public:
  BREVIS_INLINE explicit Lanes(const uint32_t* states) {
    for (unsigned i = 0; i < kVectors; ++i) {
      const V first = load(states + 16 * i), second = load(states + 16 * i + 8), mask = _mm256_set1_epi32(0xffff);
      low_[i] = _mm256_permute4x64_epi64(_mm256_packus_epi32(and_(first, mask), and_(second, mask)), 0xd8);
      high_[i] = _mm256_permute4x64_epi64(
          _mm256_packus_epi32(_mm256_srli_epi32(first, 16), _mm256_srli_epi32(second, 16)), 0xd8);
    }
  }

  // Decodes a symbol in every lane. Of 16 lanes, both 64-bit elements of a half have the same symbols.
  BREVIS_INLINE V step(const Tables& tables, const uint8_t*& next) {
    const V byte = _mm256_set1_epi16(0xff), nibble = _mm256_set1_epi8(0xf);
    const V entries = _mm256_set1_epi16((1 << kLog) - 1);
    const V last = low_[kVectors - 1];
    const V bucket = _mm256_packus_epi16(and_(_mm256_srli_epi16(low_[0], 12 - kLog), entries),
                                         and_(_mm256_srli_epi16(last, 12 - kLog), entries));
    const V within = _mm256_packus_epi16(and_(low_[0], byte), and_(last, byte));
    const Index<kLog> by_bucket(bucket);
    const V side = _mm256_cmpeq_epi8(_mm256_max_epu8(within, by_bucket(tables.threshold)), within);
    const V symbol = _mm256_xor_si256(bucket, and_(side, by_bucket(tables.symbol_step)));
    const Index<kLog> by_symbol(symbol);
    const Pair frequencies = widen(by_symbol(tables.frequency[0]), by_symbol(tables.frequency[1]));
    const V low = _mm256_xor_si256(by_bucket(tables.offset), and_(side, by_bucket(tables.offset_step)));
    const V top = by_bucket(tables.offset_top);
    // The difference's bits go into the upper half of the byte too, where nobody looks.
    const V high = _mm256_xor_si256(top, and_(side, and_(_mm256_srli_epi16(top, 4), nibble)));
    const Pair offsets = widen(low, high);
    const V refill_a = advance(0, frequencies.a, offsets.a);
    V refill_b = refill_a;
    if constexpr (kVectors == 2) refill_b = advance(1, frequencies.b, offsets.b);
    // Bytes of a's first eight lanes, of b's first eight, of a's others, of b's others.
    const unsigned masks = static_cast<unsigned>(_mm256_movemask_epi8(_mm256_packs_epi16(refill_a, refill_b)));
    take(0, refill_a, expand(masks & 0xff, masks >> 16 & 0xff, next));
    if constexpr (kVectors == 2) take(1, refill_b, expand(masks >> 8 & 0xff, masks >> 24, next));
    return symbol;
  }

  void store_states(uint32_t* states) const {
    for (unsigned i = 0; i < kVectors; ++i) {
      const V first = _mm256_unpacklo_epi16(low_[i], high_[i]), second = _mm256_unpackhi_epi16(low_[i], high_[i]);
      store(states + 16 * i, _mm256_permute2x128_si256(first, second, 0x20));
      store(states + 16 * i + 8, _mm256_permute2x128_si256(first, second, 0x31));
    }
  }

 private:
  // Gives the lanes that need a word.
  BREVIS_INLINE V advance(unsigned i, V frequency, V offset) {
    const V rank = and_(_mm256_sub_epi16(low_[i], offset), _mm256_set1_epi16(0xfff));
    const V top = and_(low_[i], _mm256_set1_epi16(static_cast<short>(0xf000)));
    const V small = _mm256_add_epi16(_mm256_mulhi_epu16(frequency, top), rank);
    const V lower = _mm256_add_epi16(_mm256_mullo_epi16(frequency, high_[i]), small);
    const V no_carry = _mm256_cmpeq_epi16(_mm256_max_epu16(lower, small), lower);
    const V upper =
        _mm256_add_epi16(_mm256_sub_epi16(_mm256_mulhi_epu16(frequency, high_[i]), _mm256_set1_epi16(-1)), no_carry);
    const V refill = _mm256_cmpeq_epi16(upper, _mm256_setzero_si256());
    low_[i] = lower;
    high_[i] = upper;
    return refill;
  }
  BREVIS_INLINE void take(unsigned i, V refill, V words) {
    high_[i] = or_(high_[i], and_(refill, low_[i]));  // it was zero there
    low_[i] = or_(_mm256_andnot_si256(refill, low_[i]), words);
  }

  V low_[kVectors], high_[kVectors];
};

// Both kinds decode 64 symbols at a time, 32 in each vector.
template <unsigned kLog>
class By64Lanes {
 public:
  static constexpr unsigned kRounds = 1;  // that make 64 symbols

  explicit By64Lanes(const uint32_t* states) : first_(states), second_(states + 32) {}
  BREVIS_INLINE void step(const Tables& tables, V& a, V& b, const uint8_t*& next) {
    a = first_.step(tables, next);
    b = second_.step(tables, next);
  }
  void store_states(uint32_t* states) const {
    first_.store_states(states);
    second_.store_states(states + 32);
  }

 private:
  Lanes<kLog, 2> first_, second_;
};
template <unsigned kLog>
class By16Lanes {
 public:
  static constexpr unsigned kRounds = 4;

  explicit By16Lanes(const uint32_t* states) : lanes_(states) {}
  BREVIS_INLINE void step(const Tables& tables, V& a, V& b, const uint8_t*& next) {
    a = two(tables, next);
    b = two(tables, next);
  }
  void store_states(uint32_t* states) const { lanes_.store_states(states); }

 private:
  BREVIS_INLINE V two(const Tables& tables, const uint8_t*& next) {
    const V first = lanes_.step(tables, next), second = lanes_.step(tables, next);
    return _mm256_unpacklo_epi64(first, second);
  }

  Lanes<kLog, 1> lanes_;
};

BREVIS_INLINE V lane_order(V bytes) { return _mm256_permute4x64_epi64(bytes, 0xd8); }

// What symbols stand for, less `shift` bits, by bytes.
struct alignas(64) Values {
  uint8_t bytes[2][64];
  unsigned shift;

  Values(const uint32_t* values, unsigned lane) {
    shift = lane == 4 ? lowest_bit(values) : 0;
    for (unsigned s = 0; s < 64; ++s)
      for (unsigned byte = 0; byte < 2; ++byte) bytes[byte][s] = static_cast<uint8_t>(values[s] >> shift >> 8 * byte);
  }
  static unsigned lowest_bit(const uint32_t* values) {
    const uint32_t all = all_bits(values);
    return all == 0 ? 0 : static_cast<unsigned>(__builtin_ctz(all));
  }
  static uint32_t all_bits(const uint32_t* values) {
    uint32_t all = 0;
    for (unsigned s = 0; s < 64; ++s) all |= values[s];
    return all;
  }
};

// Makes 32 words of symbols.
template <unsigned kLane, unsigned kLog>
BREVIS_INLINE void put_values(const Values& values, V symbols, uint8_t* out) {
  const Index<kLog> by_symbol(symbols);
  const V low = by_symbol(values.bytes[0]);
  if constexpr (kLane == 1) {
    store(out, lane_order(low));
    return;
  }
  const Pair pair = widen(low, by_symbol(values.bytes[1]));
  if constexpr (kLane == 2) {
    store(out, pair.a);
    store(out + 32, pair.b);
  } else {
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(values.shift));
    const V halves[2] = {pair.a, pair.b};
    for (unsigned i = 0; i < 2; ++i) {
      store(out + 64 * i, _mm256_sll_epi32(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(halves[i])), shift));
      store(out + 64 * i + 32, _mm256_sll_epi32(_mm256_cvtepu16_epi32(_mm256_extracti128_si256(halves[i], 1)), shift));
    }
  }
}

// Where symbols come from, what they become and which one is counted.
struct Coded {
  const AliasDecoder& table;
  const Values& values;
  unsigned counted;
};

// Symbols to words without fields, 64 at a time for as long as as many words are left.
template <unsigned kLane, unsigned kLog, class Decoder>
size_t decode_rounds(const Coded& coded, RansCursor& cursor, uint8_t* out, size_t rounds, size_t& counted) {
  const Tables tables(*coded.table.planes, kLog);
  Decoder decoder(cursor.states);
  const V escape = _mm256_set1_epi8(static_cast<char>(coded.counted < 64 ? coded.counted : 0xff));
  const uint8_t* next = cursor.next;
  size_t round = 0;
  V hits = _mm256_setzero_si256();  // sums of eight bytes each
  for (; round + Decoder::kRounds <= rounds && cursor.end - next >= 2 * kLanes;
       round += Decoder::kRounds, out += kLanes * kLane) {
    V a, b;
    decoder.step(tables, a, b, next);
    put_values<kLane, kLog>(coded.values, a, out);
    put_values<kLane, kLog>(coded.values, b, out + 32 * kLane);
    const V here = _mm256_add_epi8(_mm256_cmpeq_epi8(a, escape), _mm256_cmpeq_epi8(b, escape));
    hits =
        _mm256_add_epi64(hits, _mm256_sad_epu8(_mm256_sub_epi8(_mm256_setzero_si256(), here), _mm256_setzero_si256()));
  }
  alignas(32) uint64_t sums[4];
  store(sums, hits);
  counted += sums[0] + sums[1] + sums[2] + sums[3];
  decoder.store_states(cursor.states);
  cursor.next = next;
  return round;
}

template <unsigned kLane, unsigned kLog>
size_t decode_by_lanes(const Coded& coded, RansCursor& cursor, uint8_t* out, size_t rounds, size_t& counted) {
  if (cursor.lanes == 64) return decode_rounds<kLane, kLog, By64Lanes<kLog>>(coded, cursor, out, rounds, counted);
  return decode_rounds<kLane, kLog, By16Lanes<kLog>>(coded, cursor, out, rounds, counted);
}

// Requires: 64 or 16 lanes.
template <unsigned kLane>
size_t decode_words(const Coded& coded, RansCursor& cursor, uint8_t* out, size_t rounds, size_t& counted) {
  switch (coded.table.log_buckets) {
    case 4: return decode_by_lanes<kLane, 4>(coded, cursor, out, rounds, counted);
    case 5: return decode_by_lanes<kLane, 5>(coded, cursor, out, rounds, counted);
    default: return decode_by_lanes<kLane, 6>(coded, cursor, out, rounds, counted);
  }
}

size_t alias_decode(const AliasDecoder& table, RansCursor& cursor, uint8_t* out, size_t rounds) {
  size_t done = 0, counted = 0;
  if (cursor.lanes >= 16) {
    uint32_t same[64];
    for (uint32_t s = 0; s < 64; ++s) same[s] = s;
    const Values values(same, 1);
    done = decode_words<1>({table, values, 64}, cursor, out, rounds, counted);
  }
  return done + all_kernels().front().alias_decode(table, cursor, out + done * cursor.lanes, rounds - done);
}

// Fields of one bit, such as signs, or-ed to the words of a tile; gives the words done.
template <unsigned kLane>
size_t or_bits(const uint8_t* in, unsigned shift, uint8_t* words, size_t count) {
  constexpr unsigned kWords = 32 / kLane;
  alignas(32) uint8_t bytes[32], bits[32];
  for (unsigned i = 0; i < 32; ++i) {
    const unsigned word = i / kLane;
    bytes[i] = static_cast<uint8_t>(word / 8);
    bits[i] = static_cast<uint8_t>(1u << word % 8);
  }
  const V spread = load(bytes), mine = load(bits);
  const uint32_t value = 1u << shift;
  const V bit = kLane == 1   ? _mm256_set1_epi8(static_cast<char>(value))
                : kLane == 2 ? _mm256_set1_epi16(static_cast<short>(value))
                             : _mm256_set1_epi32(static_cast<int>(value));
  size_t done = 0;
  for (; done + kWords <= count; done += kWords) {
    uint32_t some = 0;
    __builtin_memcpy(&some, in + done / 8, kWords / 8);
    const V here = and_(_mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(some)), spread), mine);
    uint8_t* const to = words + done * kLane;
    store(to, or_(load(to), and_(_mm256_cmpeq_epi8(here, mine), bit)));
  }
  return done;
}

// Or-s a field to the words of a tile, whose first is the field's word `first`, a multiple of 8; gives the words done.
template <unsigned kLane>
size_t or_field(const PackedField& field, size_t first, uint8_t* words, size_t count) {
  const uint8_t* const in = field.data + first / 8 * field.b;
  const size_t bytes = field.bytes - first / 8 * field.b;
  if (field.b == 1) return or_bits<kLane>(in, field.shift, words, count);
  const __m128i up = _mm_cvtsi32_si128(static_cast<int>(field.shift));
  const auto put = [&](size_t at, V fields) __attribute__((always_inline)) {
    uint8_t* const to = words + at * kLane;
    // Bytes have no shift of their own, but nothing of one leaves it.
    store(to, or_(load(to), kLane == 4 ? _mm256_sll_epi32(fields, up) : _mm256_sll_epi16(fields, up)));
  };
  if constexpr (kLane == 1) return for_fields8(in, bytes, field.b, count, put);
  if constexpr (kLane == 2) return for_fields16(in, bytes, field.b, count, put);
  return for_fields32(in, bytes, field.b, count, put);
}

// Whether the vectors below can make these words.
template <unsigned kLane>
bool serves(const AliasMerge& merge, const Values& values) {
  bool narrow = true;
  for (size_t k = 0; k < merge.field_count; ++k)
    narrow = narrow && (kLane != 4 || merge.fields[k].b <= Fields32::kMaxBits);
  return narrow && merge.first % 8 == 0 && Values::all_bits(merge.values) >> values.shift <= 0xffff;
}

template <unsigned kLane>
size_t merge_alias(const AliasMerge& merge, RansCursor& cursor, uint8_t* out, size_t rounds, size_t& counted) {
  const Values values(merge.values, kLane);
  const size_t lanes = cursor.lanes;
  if (lanes < 16 || !serves<kLane>(merge, values)) return 0;
  // Vectors read up to 16 bytes beyond their fields: the last words are left to the caller.
  for (size_t k = 0; k < merge.field_count; ++k) {
    const PackedField& field = merge.fields[k];
    const size_t spare = field.b == 1 ? 0 : 16, bytes = field.bytes - merge.first / 8 * field.b;
    const size_t readable = bytes < spare ? 0 : (bytes - spare) / (lanes / 8 * field.b);
    if (rounds > readable) rounds = readable;
  }
  const Coded coded{merge.table, values, merge.counted};
  size_t done = 0;
  while (done < rounds) {
    const size_t wanted = rounds - done < kTile / lanes ? rounds - done : kTile / lanes;
    uint8_t* const words = out + done * lanes * kLane;
    const size_t got = decode_words<kLane>(coded, cursor, words, wanted, counted);
    for (size_t k = 0; k < merge.field_count; ++k)
      or_field<kLane>(merge.fields[k], merge.first + done * lanes, words, got * lanes);
    done += got;
    if (got < wanted) break;
  }
  return done;
}

template <unsigned kLane>
void merge_symbols(const AliasMerge& merge, const uint8_t* symbols, uint8_t* out, size_t count, size_t& counted) {
  const Values values(merge.values, kLane);
  size_t whole = serves<kLane>(merge, values) ? count - count % 32 : 0;
  for (size_t k = 0; k < merge.field_count; ++k) {
    const PackedField& field = merge.fields[k];
    const size_t spare = field.b == 1 ? 0 : 16, bytes = field.bytes - merge.first / 8 * field.b;
    const size_t readable = bytes < spare ? 0 : (bytes - spare) / field.b * 8;
    if (whole > readable) whole = readable - readable % 32;
  }
  const V escape = _mm256_set1_epi8(static_cast<char>(merge.counted < 64 ? merge.counted : 0xff));
  for (size_t first = 0; first < whole; first += kTile) {
    const size_t some = whole - first < kTile ? whole - first : kTile;
    for (size_t i = first; i < first + some; i += 32) {
      const V in = load(symbols + i);
      counted += static_cast<size_t>(
          _mm_popcnt_u32(static_cast<unsigned>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(in, escape)))));
      put_values<kLane, 6>(values, _mm256_permute4x64_epi64(in, 0xd8), out + i * kLane);
    }
    for (size_t k = 0; k < merge.field_count; ++k)
      or_field<kLane>(merge.fields[k], merge.first + first, out + first * kLane, some);
  }
  AliasMerge rest = merge;
  rest.first += whole;
  all_kernels().front().merge_symbols[kLane / 2](rest, symbols + whole, out + whole * kLane, count - whole, counted);
}

// A vector of lanes of kLane bytes from as many words of kIn bytes.
template <unsigned kIn, unsigned kLane>
BREVIS_INLINE V widen_lanes(const uint8_t* in) {
  if constexpr (kIn == kLane) return load(in);
  if constexpr (kLane == 2) return _mm256_cvtepu8_epi16(load_half(in));
  if constexpr (kIn == 2) return _mm256_cvtepu16_epi32(load_half(in));
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(in)));
}

// Or-s fields in lanes of their own to words, 32 bytes of words at a time.
template <unsigned kIn, unsigned kLane>
void or_lanes(const uint8_t* in, unsigned shift, uint8_t* words, size_t count) {
  const __m128i up = _mm_cvtsi32_si128(static_cast<int>(shift));
  for (size_t i = 0; i < count; i += 32 / kLane) {
    const V fields = widen_lanes<kIn, kLane>(in + i * kIn);
    uint8_t* const to = words + i * kLane;
    store(to, or_(load(to), kLane == 4 ? _mm256_sll_epi32(fields, up) : _mm256_sll_epi16(fields, up)));
  }
}

template <unsigned kLane>
void merge_fields(const FieldMerge& merge, uint8_t* out, size_t count) {
  size_t whole = count - count % 32;
  for (size_t k = 0; k < merge.packed_count; ++k) {
    const PackedField& field = merge.packed[k];
    const size_t spare = field.b == 1 ? 0 : 16, readable = field.bytes < spare ? 0 : (field.bytes - spare) / field.b;
    if (kLane == 4 && field.b > Fields32::kMaxBits) whole = 0;
    if (whole > readable * 8) whole = readable * 8 - readable * 8 % 32;
  }
  for (size_t first = 0; first < whole; first += kTile) {
    const size_t some = whole - first < kTile ? whole - first : kTile;
    uint8_t* const words = out + first * kLane;
    const V fixed = kLane == 1   ? _mm256_set1_epi8(static_cast<char>(merge.fixed))
                    : kLane == 2 ? _mm256_set1_epi16(static_cast<short>(merge.fixed))
                                 : _mm256_set1_epi32(static_cast<int>(merge.fixed));
    for (size_t i = 0; i < some * kLane; i += 32) store(words + i, fixed);
    for (size_t k = 0; k < merge.lane_count; ++k) {
      const auto& [in, shift] = merge.lanes[k];
      const uint8_t* const from = in.data + first * in.lane();
      if (in.lane() == kLane)
        or_lanes<kLane, kLane>(from, shift, words, some);
      else if (in.lane() == 1)
        or_lanes<1, kLane>(from, shift, words, some);
      else
        or_lanes<kLane == 4 ? 2 : kLane, kLane>(from, shift, words, some);
    }
    for (size_t k = 0; k < merge.packed_count; ++k) or_field<kLane>(merge.packed[k], first, words, some);
  }
  all_kernels().front().merge_fields[kLane / 2](merge.after(whole), out + whole * kLane, count - whole);
}

}  // namespace
BREVIS_TARGET_END

void fill_avx2(Kernels& table) {
  fill_avx2_words(table);
  fill_avx2_rans(table);
  fill_avx2_huffman(table);
  fill_avx2_encode(table);
  table.wants_slots = false;
  table.alias_decode = alias_decode;
  table.merge_fields[0] = merge_fields<1>;
  table.merge_fields[1] = merge_fields<2>;
  table.merge_fields[2] = merge_fields<4>;
  table.merge_alias[0] = merge_alias<1>;
  table.merge_alias[1] = merge_alias<2>;
  table.merge_alias[2] = merge_alias<4>;
  table.merge_symbols[0] = merge_symbols<1>;
  table.merge_symbols[1] = merge_symbols<2>;
  table.merge_symbols[2] = merge_symbols<4>;
}

}  // namespace brevis::bits
#endif
