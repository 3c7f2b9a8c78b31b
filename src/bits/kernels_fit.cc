// SPDX-License-Identifier: Apache-2.0
//
// Sums over the fields of words, as fitting an `offset` or a `context` to a stream takes them: plain loops, compiled
// for the baseline and for the vector sets.
#include "bits/kernels.h"
#include "bits/target.h"

namespace brevis::bits {

#define BREVIS_QUARTERS_LOOP(T)                                                                \
  {                                                                                            \
    const T* __restrict word = reinterpret_cast<const T*>(in.data);                            \
    if (shift >= 2) {                                                                          \
      const unsigned down = shift - 2;                                                         \
      for (size_t i = 0; i < in.count; ++i)                                                    \
        out[i] = static_cast<uint16_t>(static_cast<uint16_t>(word[i] >> down) & mask);         \
    } else {                                                                                   \
      const unsigned up = 2 - shift;                                                           \
      for (size_t i = 0; i < in.count; ++i)                                                    \
        out[i] = static_cast<uint16_t>(static_cast<uint16_t>(uint64_t{word[i]} << up) & mask); \
    }                                                                                          \
    return;                                                                                    \
  }

#define BREVIS_FIT_LOOPS                                                                                        \
  void quarters(ConstWords in, unsigned shift, unsigned bits, uint16_t* __restrict out) {                       \
    const uint16_t mask = static_cast<uint16_t>(low_mask(bits + 2));                                            \
    switch (in.lane()) {                                                                                        \
      case 1: BREVIS_QUARTERS_LOOP(uint8_t)                                                                     \
      case 2: BREVIS_QUARTERS_LOOP(uint16_t)                                                                    \
      case 4: BREVIS_QUARTERS_LOOP(uint32_t)                                                                    \
      default: BREVIS_QUARTERS_LOOP(uint64_t)                                                                   \
    }                                                                                                           \
  }                                                                                                             \
  void quarter_terms(const uint16_t* __restrict in, size_t count, int16_t middle, int16_t cut,                  \
                     uint32_t* __restrict out) {                                                                \
    for (size_t i = 0; i < count; ++i) {                                                                        \
      const int16_t q = static_cast<int16_t>(in[i]), apart = static_cast<int16_t>(q - middle);                  \
      const int16_t low = apart < -cut ? static_cast<int16_t>(-cut) : apart, near = low > cut ? cut : low;      \
      const uint32_t term = (uint32_t{1} << kTermSumBits) + static_cast<uint32_t>(near + cut);                  \
      out[i] = q < 4 ? 0 : term;                                                                                \
    }                                                                                                           \
  }                                                                                                             \
  void add_terms(uint32_t* __restrict sums, const uint32_t* __restrict terms, size_t count) {                   \
    for (size_t i = 0; i < count; ++i) sums[i] += terms[i];                                                     \
  }                                                                                                             \
  uint32_t sum_terms(const uint32_t* __restrict terms, size_t count) {                                          \
    uint32_t sum = 0;                                                                                           \
    for (size_t i = 0; i < count; ++i) sum += terms[i];                                                         \
    return sum;                                                                                                 \
  }                                                                                                             \
  void add_levels(uint16_t* __restrict sums, const uint8_t* __restrict levels, uint16_t weight, size_t count) { \
    for (size_t i = 0; i < count; ++i) sums[i] = static_cast<uint16_t>(sums[i] + weight * levels[i]);           \
  }

#define BREVIS_FIT_FILL                \
  table.quarters = quarters;           \
  table.quarter_terms = quarter_terms; \
  table.add_terms = add_terms;         \
  table.sum_terms = sum_terms;         \
  table.add_levels = add_levels;

namespace scalar {
namespace {
BREVIS_FIT_LOOPS
void fill(Kernels& table) { BREVIS_FIT_FILL }
}  // namespace
}  // namespace scalar

void fill_scalar_fit(Kernels& table) { scalar::fill(table); }

#if defined(__x86_64__)
namespace avx2 {
BREVIS_TARGET_BEGIN("avx2")
namespace {
BREVIS_FIT_LOOPS
void fill(Kernels& table) { BREVIS_FIT_FILL }
}  // namespace
BREVIS_TARGET_END
}  // namespace avx2

void fill_avx2_fit(Kernels& table) { avx2::fill(table); }

namespace avx512 {
BREVIS_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq")
namespace {
BREVIS_FIT_LOOPS
void fill(Kernels& table) { BREVIS_FIT_FILL }
}  // namespace
BREVIS_TARGET_END
}  // namespace avx512

void fill_avx512_fit(Kernels& table) { avx512::fill(table); }
#endif

}  // namespace brevis::bits
