// SPDX-License-Identifier: Apache-2.0
//
// What the AVX2 kernels share. For kernels_avx2*.cc alone: each includes it last and gets a copy of its own.
//
// Requires: a CPU for which cpu_has_avx2(). Threads: pure functions.
#pragma once

#include <immintrin.h>

#include "bits/kernels.h"
#include "bits/target.h"

#define BREVIS_AVX2 "avx2,bmi,bmi2,popcnt"
#define BREVIS_INLINE __attribute__((always_inline)) inline

namespace brevis::bits {

BREVIS_TARGET_BEGIN(BREVIS_AVX2)
namespace {

using V = __m256i;
constexpr unsigned kLanes = 64;

BREVIS_INLINE V load(const void* from) { return _mm256_loadu_si256(static_cast<const V*>(from)); }
BREVIS_INLINE void store(void* to, V v) { _mm256_storeu_si256(static_cast<V*>(to), v); }
BREVIS_INLINE __m128i load_half(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
BREVIS_INLINE V both(const void* from) { return _mm256_broadcastsi128_si256(load_half(from)); }
BREVIS_INLINE V or_(V a, V b) { return _mm256_or_si256(a, b); }
BREVIS_INLINE V and_(V a, V b) { return _mm256_and_si256(a, b); }

// For the eight lanes of a mask: a shuffle that brings the next words to the lanes of its ones, zero to the others.
struct ExpandTable {
  uint8_t shuffles[256][16];
};
constexpr ExpandTable make_expand_table() {
  ExpandTable table{};
  for (unsigned mask = 0; mask < 256; ++mask) {
    unsigned next = 0;
    for (unsigned lane = 0; lane < 8; ++lane) {
      const bool takes = (mask >> lane & 1) != 0;
      table.shuffles[mask][2 * lane] = static_cast<uint8_t>(takes ? 2 * next : 0x80);
      table.shuffles[mask][2 * lane + 1] = static_cast<uint8_t>(takes ? 2 * next + 1 : 0x80);
      next += takes;
    }
  }
  return table;
}
alignas(64) constexpr ExpandTable kExpand = make_expand_table();

// The words that `refill` asks for, at their lanes.
BREVIS_INLINE V expand(unsigned low_mask8, unsigned high_mask8, const uint8_t*& next) {
  const __m128i low = _mm_shuffle_epi8(load_half(next), load_half(kExpand.shuffles[low_mask8]));
  next += 2 * static_cast<uint64_t>(_mm_popcnt_u32(low_mask8));
  const __m128i high = _mm_shuffle_epi8(load_half(next), load_half(kExpand.shuffles[high_mask8]));
  next += 2 * static_cast<uint64_t>(_mm_popcnt_u32(high_mask8));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

// Sixteen fields of up to 9 bits as 16-bit lanes, from 2b bytes of which eight lie in each half.
class Fields16 {
 public:
  static constexpr unsigned kMaxBits = 9;

  explicit Fields16(unsigned b) : b_(b) {
    alignas(32) uint8_t bytes[16];
    alignas(32) uint16_t factors[8];
    for (unsigned i = 0; i < 8; ++i) {
      bytes[2 * i] = static_cast<uint8_t>(i * b / 8);
      // The byte after the last field may not be there.
      bytes[2 * i + 1] = static_cast<uint8_t>(i * b % 8 + b <= 8 ? 0x80 : i * b / 8 + 1);
      factors[i] = static_cast<uint16_t>(1u << (16 - b - i * b % 8));  // to the top of the lane
    }
    bytes_ = both(bytes);
    factors_ = both(factors);
    down_ = _mm_cvtsi32_si128(static_cast<int>(16 - b));
  }
  BREVIS_INLINE V get(const uint8_t* at) const {
    const V data = _mm256_inserti128_si256(_mm256_castsi128_si256(load_half(at)), load_half(at + b_), 1);
    return _mm256_srl_epi16(_mm256_mullo_epi16(_mm256_shuffle_epi8(data, bytes_), factors_), down_);
  }
  // How far get() reads.
  size_t reach() const { return b_ + 16; }

 private:
  unsigned b_;
  V bytes_, factors_;
  __m128i down_;
};

// Eight fields of up to 25 bits as 32-bit lanes, from b bytes.
class Fields32 {
 public:
  static constexpr unsigned kMaxBits = 25;

  explicit Fields32(unsigned b) : second_(b / 2) {
    alignas(32) uint8_t bytes[32];
    alignas(32) uint32_t shifts[8];
    for (unsigned i = 0; i < 8; ++i) {
      const unsigned bit = i < 4 ? i * b : (i - 4) * b + 4 * (b % 2);
      for (unsigned byte = 0; byte < 4; ++byte) bytes[4 * i + byte] = static_cast<uint8_t>(bit / 8 + byte);
      shifts[i] = bit % 8;
    }
    bytes_ = load(bytes);
    shifts_ = load(shifts);
    mask_ = _mm256_set1_epi32(static_cast<int>(low_mask(b)));
  }
  BREVIS_INLINE V get(const uint8_t* at) const {
    const V data = _mm256_inserti128_si256(_mm256_castsi128_si256(load_half(at)), load_half(at + second_), 1);
    return and_(_mm256_srlv_epi32(_mm256_shuffle_epi8(data, bytes_), shifts_), mask_);
  }
  size_t reach() const { return second_ + 16; }

 private:
  unsigned second_;  // where the fifth field's byte is
  V bytes_, shifts_, mask_;
};

// Runs put(word, fields) for as many vectors of fields as may be read and are wanted, from word `first`, a multiple of
// 8, on; gives the words done. `make(at)` reads the fields of kWords words from there.
template <unsigned kWords, class Make, class Put>
BREVIS_INLINE size_t for_fields(const uint8_t* in, size_t bytes, unsigned b, size_t reach, size_t count, Make&& make,
                                Put&& put) {
  const size_t step = kWords * b / 8;
  size_t done = 0;
  for (; done + kWords <= count && reach <= bytes; done += kWords, in += step, bytes -= step) put(done, make(in));
  return done;
}

template <class Put>
BREVIS_INLINE size_t for_fields8(const uint8_t* in, size_t bytes, unsigned b, size_t count, Put&& put) {
  const Fields16 fields(b);
  return for_fields<32>(
      in, bytes, b, 2 * b + fields.reach(), count,
      [&](const uint8_t* at) __attribute__((always_inline)) {
        return _mm256_permute4x64_epi64(_mm256_packus_epi16(fields.get(at), fields.get(at + 2 * b)), 0xd8);
      },
      put);
}
template <class Put>
BREVIS_INLINE size_t for_fields16(const uint8_t* in, size_t bytes, unsigned b, size_t count, Put&& put) {
  if (b <= Fields16::kMaxBits) {
    const Fields16 fields(b);
    return for_fields<16>(
        in, bytes, b, fields.reach(),
        count, [&](const uint8_t* at) __attribute__((always_inline)) { return fields.get(at); }, put);
  }
  const Fields32 fields(b);
  return for_fields<16>(
      in, bytes, b, b + fields.reach(), count,
      [&](const uint8_t* at) __attribute__((always_inline)) {
        return _mm256_permute4x64_epi64(_mm256_packus_epi32(fields.get(at), fields.get(at + b)), 0xd8);
      },
      put);
}
template <class Put>
BREVIS_INLINE size_t for_fields32(const uint8_t* in, size_t bytes, unsigned b, size_t count, Put&& put) {
  if (b > Fields32::kMaxBits) return 0;
  const Fields32 fields(b);
  return for_fields<8>(
      in, bytes, b, fields.reach(),
      count, [&](const uint8_t* at) __attribute__((always_inline)) { return fields.get(at); }, put);
}

}  // namespace
BREVIS_TARGET_END

}  // namespace brevis::bits
