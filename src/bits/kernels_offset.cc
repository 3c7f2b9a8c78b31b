// SPDX-License-Identifier: Apache-2.0
//
// Moving a field of every word by a small amount of its own (operator `offset`): one loop, compiled for the baseline
// and for the vector sets, in which compilers keep a word a lane.
#include "bits/kernels.h"
#include "bits/target.h"

namespace brevis::bits {

#define BREVIS_MOVE_LOOP(T)                                                           \
  {                                                                                   \
    T* __restrict word = reinterpret_cast<T*>(words.data);                            \
    const T mask = static_cast<T>(low_mask(field.bits) << field.shift);               \
    const T negate = field.back ? static_cast<T>(~T{0}) : T{0};                       \
    const T rest = static_cast<T>(~mask);                                             \
    const unsigned shift = field.shift;                                               \
    for (size_t i = 0; i < words.count; ++i) {                                        \
      const int16_t quarters = static_cast<int16_t>(steps[i] + base);                 \
      const T whole = static_cast<T>(quarters >> 2);                                  \
      const T signed_step = static_cast<T>(static_cast<T>(whole ^ negate) - negate);  \
      const T moved = static_cast<T>(word[i] + static_cast<T>(signed_step << shift)); \
      word[i] = static_cast<T>((word[i] & rest) | (moved & mask));                    \
    }                                                                                 \
    return;                                                                           \
  }

#define BREVIS_MOVE_FIELD                                                                               \
  void move_field(Words words, const FieldMove& field, const int16_t* __restrict steps, int16_t base) { \
    switch (words.lane()) {                                                                             \
      case 1: BREVIS_MOVE_LOOP(uint8_t)                                                                 \
      case 2: BREVIS_MOVE_LOOP(uint16_t)                                                                \
      case 4: BREVIS_MOVE_LOOP(uint32_t)                                                                \
      default: BREVIS_MOVE_LOOP(uint64_t)                                                               \
    }                                                                                                   \
  }

namespace scalar {
namespace {
BREVIS_MOVE_FIELD
}  // namespace
}  // namespace scalar

void fill_scalar_offset(Kernels& table) { table.move_field = scalar::move_field; }

#if defined(__x86_64__)
namespace avx2 {
BREVIS_TARGET_BEGIN("avx2")
namespace {
BREVIS_MOVE_FIELD
}  // namespace
BREVIS_TARGET_END
}  // namespace avx2

void fill_avx2_offset(Kernels& table) { table.move_field = avx2::move_field; }

namespace avx512 {
BREVIS_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq")
namespace {
BREVIS_MOVE_FIELD
}  // namespace
BREVIS_TARGET_END
}  // namespace avx512

void fill_avx512_offset(Kernels& table) { table.move_field = avx512::move_field; }
#endif

}  // namespace brevis::bits
