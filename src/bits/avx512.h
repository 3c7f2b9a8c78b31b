// SPDX-License-Identifier: Apache-2.0
//
// What the AVX-512 kernels share. For kernels_avx512*.cc alone: each includes it last and gets a copy of its own.
//
// Requires: a CPU for which cpu_has_avx512(). Threads: pure functions.
#pragma once

#include <immintrin.h>

#include "bits/kernels.h"
#include "bits/target.h"

#define BREVIS_AVX512 "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,bmi,bmi2,popcnt"
#define BREVIS_INLINE __attribute__((always_inline)) inline

namespace brevis::bits {

BREVIS_TARGET_BEGIN(BREVIS_AVX512)
namespace {

using V = __m512i;
constexpr size_t kVector = 64;  // bytes
constexpr unsigned kLanes = 64;

BREVIS_INLINE V load(const void* from) { return _mm512_loadu_si512(from); }

// where & a | ~where & b
BREVIS_INLINE V select(V where, V a, V b) { return _mm512_ternarylogic_epi32(where, a, b, 0xca); }

// Brings packed fields into lanes of kLane bytes.
template <unsigned kLane>
class FieldReader {
 public:
  // Fields of so many bits fit 64-bit elements wherever the first one starts in its byte.
  static constexpr unsigned kMaxBits = kLane == 1 ? 7 : kLane == 2 ? 15 : 30;

  FieldReader() = default;
  FieldReader(const PackedField& field, size_t first)
      : at_(field.data + first / 8 * field.b), step_(field.b * (kVector / 8) / kLane) {
    constexpr unsigned kFields = 8 / kLane;
    alignas(64) uint8_t bytes[64], shifts[64];
    for (unsigned i = 0; i < 64; ++i) {
      const unsigned start = i / 8 * kFields * field.b;  // bit of the element's first field
      bytes[i] = static_cast<uint8_t>(start / 8 + i % 8);
      shifts[i] = static_cast<uint8_t>((start % 8 + i % 8 / kLane * field.b + i % kLane * 8 - field.shift) % 64);
    }
    bytes_ = load(bytes);
    shifts_ = load(shifts);
    const uint64_t mask = low_mask(field.b) << field.shift;
    mask_ = kLane == 1   ? _mm512_set1_epi8(static_cast<char>(mask))
            : kLane == 2 ? _mm512_set1_epi16(static_cast<short>(mask))
                         : _mm512_set1_epi32(static_cast<int>(mask));
  }

  // The next field is the first one there.
  void read_from(const uint8_t* at) { at_ = at; }

  // Vectors that may be read from word `first` on.
  static size_t readable(const PackedField& field, size_t first) {
    const size_t step = field.b * (kVector / 8) / kLane, bytes = field.bytes - first / 8 * field.b;
    return bytes < kVector ? 0 : (bytes - kVector) / step + 1;
  }

  // The fields of the next vector, or-ed to `words`.
  BREVIS_INLINE V add(V words) {
    const V bits = _mm512_multishift_epi64_epi8(shifts_, _mm512_permutexvar_epi8(bytes_, load(at_)));
    at_ += step_;
    return _mm512_ternarylogic_epi32(mask_, bits, words, 0xea);
  }

 private:
  const uint8_t* at_ = nullptr;
  size_t step_ = 0;
  V bytes_, shifts_, mask_;
};

}  // namespace
BREVIS_TARGET_END

}  // namespace brevis::bits
