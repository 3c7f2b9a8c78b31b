// SPDX-License-Identifier: Apache-2.0
//
// Alias-coded payloads of few lanes, several side by side, with AVX2. A payload by itself is a chain of dependent
// steps, and a vector is wider than four lanes: eight 32-bit states a vector are two payloads of 4 lanes or half of one
// of 16, and up to four vectors hide each other's delays.
//
// Every four lanes may have a table of their own, so there are no lookups in registers. All that the two sides of a
// bucket say fits 64 bits, and eight loads by address bring the entries of eight lanes: what a gather does, and about
// as fast as the best of them, with no microcode that guards it.
#if defined(__x86_64__)
#include <cstring>

#include "bits/avx2.h"

namespace brevis::bits {

BREVIS_TARGET_BEGIN(BREVIS_AVX2)
namespace {

BREVIS_INLINE V all(uint32_t value) { return _mm256_set1_epi32(static_cast<int>(value)); }

// By bucket: offset, frequency and threshold of side 0 (12, 12 and 8 bits), offset, frequency and symbol of side 1. The
// symbol of side 0 is the bucket.
struct alignas(64) Buckets {
  uint64_t entries[64];

  void fill(const AliasPlanes& planes) {
    for (unsigned b = 0; b < 64; b += 8) {
      const V first = load(planes.entry[0] + b), second = load(planes.entry[1] + b);
      const V threshold = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(planes.threshold + b)));
      const V symbol = and_(_mm256_slli_epi32(second, 12), all(0x3f000000));
      const V low = or_(step_of(first), _mm256_slli_epi32(threshold, 24)), high = or_(step_of(second), symbol);
      const V a = _mm256_unpacklo_epi32(low, high), c = _mm256_unpackhi_epi32(low, high);
      store(entries + b, _mm256_permute2x128_si256(a, c, 0x20));
      store(entries + b + 4, _mm256_permute2x128_si256(a, c, 0x31));
    }
  }

 private:
  static BREVIS_INLINE V step_of(V entry) {
    return or_(and_(entry, all(0xfff)), and_(_mm256_srli_epi32(entry, 8), all(0xfff000)));
  }
};

BREVIS_INLINE double load_quarter(const void* from) {
  double bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits;
}
BREVIS_INLINE __m128i load_two(const void* low, const void* high) {
  return _mm_castpd_si128(_mm_set_pd(load_quarter(high), load_quarter(low)));
}

// The entries of four buckets, of which each is the low half of 64 bits.
struct Entries {
  __m128i even, odd;
};
BREVIS_INLINE Entries look_up(const Buckets& table, __m128i buckets) {
  const auto two = [&](uint64_t at) __attribute__((always_inline)) {
    const uint8_t* const entries = reinterpret_cast<const uint8_t*>(table.entries);
    return load_two(entries + 8 * static_cast<uint32_t>(at), entries + 8 * (at >> 32));
  };
  return {two(static_cast<uint64_t>(_mm_cvtsi128_si64(buckets))),
          two(static_cast<uint64_t>(_mm_extract_epi64(buckets, 1)))};
}
BREVIS_INLINE V halves(__m128i low, __m128i high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

// Decodes a symbol in every lane, short of the refill. `down`: by how much 64 buckets are more than symbols, log2.
BREVIS_INLINE V take(V& state, const Buckets& first, const Buckets& second, V down) {
  const V x = state, bucket = and_(_mm256_srli_epi32(x, 6), all(63));
  const Entries a = look_up(first, _mm256_castsi256_si128(bucket)),
                b = look_up(second, _mm256_extracti128_si256(bucket, 1));
  const __m256 even = _mm256_castsi256_ps(halves(a.even, b.even)), odd = _mm256_castsi256_ps(halves(a.odd, b.odd));
  const V low = _mm256_castps_si256(_mm256_shuffle_ps(even, odd, 0x88)),
          high = _mm256_castps_si256(_mm256_shuffle_ps(even, odd, 0xdd));
  const V is_low = _mm256_cmpgt_epi32(_mm256_srli_epi32(low, 24), and_(x, all(0xff)));
  const V entry = _mm256_blendv_epi8(high, low, is_low);
  const V frequency = and_(_mm256_srli_epi32(entry, 12), all(0xfff));
  const V rank = and_(_mm256_sub_epi32(x, entry), all(0xfff));
  state = _mm256_add_epi32(_mm256_mullo_epi32(frequency, _mm256_srli_epi32(x, AliasDecoder::kScaleBits)), rank);
  return _mm256_blendv_epi8(_mm256_srli_epi32(high, 24), _mm256_srlv_epi32(bucket, down), is_low);
}

// Which states need a word, as lanes of ones and as a mask.
struct Needs {
  V lanes;
  unsigned mask;
  BREVIS_INLINE explicit Needs(V state)
      : lanes(_mm256_cmpeq_epi32(_mm256_srli_epi32(state, 16), _mm256_setzero_si256())),
        mask(static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(lanes)))) {}
};
BREVIS_INLINE V with_words(V state, const Needs& needs, __m128i words) {
  return or_(_mm256_sllv_epi32(state, and_(needs.lanes, all(16))), _mm256_cvtepu16_epi32(words));
}

// As kExpand, for the four lanes of either half.
struct ExpandFours {
  uint8_t shuffles[2][16][8];
};
constexpr ExpandFours make_expand_fours() {
  ExpandFours table{};
  for (unsigned half = 0; half < 2; ++half)
    for (unsigned mask = 0; mask < 16; ++mask) {
      unsigned next = 8 * half;
      for (unsigned lane = 0; lane < 4; ++lane)
        for (unsigned byte = 0; byte < 2; ++byte)
          table.shuffles[half][mask][2 * lane + byte] = static_cast<uint8_t>((mask >> lane & 1) != 0 ? next++ : 0x80);
    }
  return table;
}
alignas(64) constexpr ExpandFours kExpandFours = make_expand_fours();

// Of four lanes each.
BREVIS_INLINE V refill_two(V state, const uint8_t*& first, const uint8_t*& second) {
  const Needs needs(state);
  const unsigned low = needs.mask & 15, high = needs.mask >> 4;
  const __m128i words = _mm_shuffle_epi8(load_two(first, second),
                                         load_two(kExpandFours.shuffles[0][low], kExpandFours.shuffles[1][high]));
  first += 2 * static_cast<uint64_t>(_mm_popcnt_u32(low));
  second += 2 * static_cast<uint64_t>(_mm_popcnt_u32(high));
  return with_words(state, needs, words);
}
BREVIS_INLINE V refill_one(V state, const uint8_t*& next) {
  const Needs needs(state);
  const __m128i words = _mm_shuffle_epi8(load_half(next), load_half(kExpand.shuffles[needs.mask]));
  next += 2 * static_cast<uint64_t>(_mm_popcnt_u32(needs.mask));
  return with_words(state, needs, words);
}

constexpr unsigned kRounds = 4;  // at a time: a byte each of 32-bit lanes

// The symbols of kRounds rounds, a byte for each: four lanes of each round, round after round, in either half.
BREVIS_INLINE V by_rounds(V symbols) {
  alignas(16) static constexpr uint8_t kOrder[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  return _mm256_shuffle_epi8(symbols, both(kOrder));
}
BREVIS_INLINE void put(uint8_t* to, __m128i bytes) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes); }

template <unsigned kLanes, unsigned kVectors>
class Several {
 public:
  static constexpr unsigned kStreams = kLanes == 4 ? 2 * kVectors : kVectors / 2;

  // Places beyond `count` decode the last stream once more, for nobody.
  Several(const AliasStream* streams, unsigned count) : streams_(streams), count_(count) {
    alignas(32) uint32_t states[8 * kVectors], down[8 * kVectors];
    for (unsigned k = 0; k < kStreams; ++k) {
      const AliasStream& stream = streams[k < count ? k : count - 1];
      tables_[k].fill(*stream.table.planes);
      next_[k] = stream.cursor->next;
      to_[k] = k < count ? stream.out : nobody_;
      step_[k] = k < count ? kRounds * kLanes : 0;
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        states[k * kLanes + lane] = stream.cursor->states[lane];
        down[k * kLanes + lane] = 6 - stream.table.log_buckets;
      }
    }
    for (unsigned v = 0; v < kVectors; ++v) {
      states_[v] = load(states + 8 * v);
      down_[v] = load(down + 8 * v);
    }
  }

  size_t run(size_t rounds) {
    size_t done = 0;
    for (size_t some; (some = safe(rounds - done)) != 0; done += some)
      for (size_t round = 0; round < some; round += kRounds) {
        V symbols[kVectors];
#pragma GCC unroll 4
        for (unsigned r = 0; r < kRounds; ++r)
#pragma GCC unroll 4
          for (unsigned v = 0; v < kVectors; ++v) {
            const V symbol = step(v);
            symbols[v] = r == 0 ? symbol : or_(symbols[v], _mm256_slli_epi32(symbol, static_cast<int>(8 * r)));
          }
        for (unsigned v = 0; v < kVectors; ++v) symbols[v] = by_rounds(symbols[v]);
        put_all(symbols);
      }
    return done;
  }

  void leave() const {
    alignas(32) uint32_t states[8 * kVectors];
    for (unsigned v = 0; v < kVectors; ++v) store(states + 8 * v, states_[v]);
    for (unsigned k = 0; k < kStreams && k < count_; ++k) {
      __builtin_memcpy(streams_[k].cursor->states, states + k * kLanes, kLanes * sizeof *states);
      streams_[k].cursor->next = next_[k];
    }
  }

 private:
  // Rounds that leave no stream, a multiple of kRounds.
  size_t safe(size_t rounds) const {
    for (unsigned k = 0; k < count_; ++k) {
      const size_t left = static_cast<size_t>(streams_[k].cursor->end - next_[k]) / (2 * kLanes);
      if (left < rounds) rounds = left;
    }
    return rounds - rounds % kRounds;
  }
  BREVIS_INLINE V step(unsigned v) {
    if constexpr (kLanes == 4) {
      const V symbol = take(states_[v], tables_[2 * v], tables_[2 * v + 1], down_[v]);
      states_[v] = refill_two(states_[v], next_[2 * v], next_[2 * v + 1]);
      return symbol;
    } else {
      const V symbol = take(states_[v], tables_[v / 2], tables_[v / 2], down_[v]);
      states_[v] = refill_one(states_[v], next_[v / 2]);
      return symbol;
    }
  }
  BREVIS_INLINE void put_all(const V (&symbols)[kVectors]) {
    if constexpr (kLanes == 4) {
      for (unsigned v = 0; v < kVectors; ++v) {
        put(to_[2 * v], _mm256_castsi256_si128(symbols[v]));
        put(to_[2 * v + 1], _mm256_extracti128_si256(symbols[v], 1));
      }
    } else {
      for (unsigned k = 0; k < kStreams; ++k) {
        const V low = symbols[2 * k], high = symbols[2 * k + 1];  // lanes 0-3 and 4-7, 8-11 and 12-15
        const __m128i first = _mm256_castsi256_si128(low), second = _mm256_extracti128_si256(low, 1),
                      third = _mm256_castsi256_si128(high), fourth = _mm256_extracti128_si256(high, 1);
        const __m128i a = _mm_unpacklo_epi32(first, second), b = _mm_unpacklo_epi32(third, fourth),
                      c = _mm_unpackhi_epi32(first, second), d = _mm_unpackhi_epi32(third, fourth);
        put(to_[k], _mm_unpacklo_epi64(a, b));
        put(to_[k] + 16, _mm_unpackhi_epi64(a, b));
        put(to_[k] + 32, _mm_unpacklo_epi64(c, d));
        put(to_[k] + 48, _mm_unpackhi_epi64(c, d));
      }
    }
    for (unsigned k = 0; k < kStreams; ++k) to_[k] += step_[k];
  }

  Buckets tables_[kStreams];
  V states_[kVectors], down_[kVectors];
  const uint8_t* next_[kStreams];
  uint8_t* to_[kStreams];
  size_t step_[kStreams];
  uint8_t nobody_[kRounds * kLanes];
  const AliasStream* streams_;
  unsigned count_;
};

template <unsigned kLanes, unsigned kVectors>
size_t decode(const AliasStream* streams, size_t count, size_t rounds) {
  Several<kLanes, kVectors> several(streams, static_cast<unsigned>(count));
  const size_t done = several.run(rounds);
  several.leave();
  return done;
}

size_t decode_fours(const AliasStream* streams, size_t count, size_t rounds) {
  switch ((count + 1) / 2) {
    case 1: return decode<4, 1>(streams, count, rounds);
    case 2: return decode<4, 2>(streams, count, rounds);
    case 3: return decode<4, 3>(streams, count, rounds);
    default: return decode<4, 4>(streams, count, rounds);
  }
}

size_t decode_sixteens(const AliasStream* streams, size_t count, size_t rounds) {
  return count == 1 ? decode<16, 2>(streams, count, rounds) : decode<16, 4>(streams, count, rounds);
}

}  // namespace
BREVIS_TARGET_END

void fill_avx2_several(Kernels& table) {
  table.alias_fours = {8, decode_fours};
  table.alias_sixteens = {2, decode_sixteens};
}

}  // namespace brevis::bits
#endif
