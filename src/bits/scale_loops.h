// SPDX-License-Identifier: Apache-2.0
//
// The loops of kernels_scale.cc, which includes this once for each instruction set, inside a namespace of its own.

inline uint32_t bits_of(float value) {
  uint32_t word;
  __builtin_memcpy(&word, &value, 4);
  return word;
}

// To the nearest, ties to even, from the bits of a finite F32.
inline uint16_t bf16_of(uint32_t word) { return static_cast<uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16); }

inline uint16_t f16_of(uint32_t word) {
  constexpr uint32_t kLeastNormal = 113, kTooLarge = 0x477ff000;  // an exponent; what rounds to infinity
  const uint32_t size = word & 0x7fffffff, exponent = size >> 23;
  const uint32_t moved = size - ((kLeastNormal - 1) << 23);
  const uint32_t normal = (moved + 0xfff + (moved >> 13 & 1)) >> 13;
  // A subnormal one is a number of units of 2^-24.
  uint32_t shift = 126 - (exponent < kLeastNormal ? exponent : kLeastNormal - 1);
  shift = shift < 31 ? shift : 31;
  const uint32_t fraction = (size & 0x7fffff) | 0x800000;
  const uint32_t subnormal = (fraction + ((uint32_t{1} << (shift - 1)) - 1) + (fraction >> shift & 1)) >> shift;
  uint32_t half = exponent < kLeastNormal ? subnormal : normal;
  half = size >= kTooLarge ? 0x7c00 : half;
  return static_cast<uint16_t>(half | (word >> 16 & 0x8000));
}

struct FromTable {
  const float* levels;
  __attribute__((always_inline)) float operator()(uint16_t place) const { return levels[place & (kScaledLevels - 1)]; }
};

struct FromIntegers {
  __attribute__((always_inline)) float operator()(uint16_t place) const {
    const uint32_t level = bits_of(static_cast<float>(static_cast<int32_t>(place) - kZeroLevel));
    const uint32_t negative =
        0 - static_cast<uint32_t>(place == kNegativeZeroLevel);  // choices would not go by vectors
    const uint32_t word = (level & ~negative) | (negative & 0x80000000);
    float out;
    __builtin_memcpy(&out, &word, 4);
    return out;
  }
};

template <class Level>
__attribute__((always_inline)) inline void to_f32(const uint16_t* places, Level level, const float* scales, void* out,
                                                  size_t count) {
  uint32_t* to = static_cast<uint32_t*>(out);
  for (size_t i = 0; i < count; ++i) to[i] = bits_of(level(places[i]) * scales[i]);
}

template <class Level>
__attribute__((always_inline)) inline void to_bf16(const uint16_t* places, Level level, const float* scales, void* out,
                                                   size_t count) {
  uint16_t* to = static_cast<uint16_t*>(out);
  for (size_t i = 0; i < count; ++i) to[i] = bf16_of(bits_of(level(places[i]) * scales[i]));
}

template <class Level>
__attribute__((always_inline)) inline void to_f16(const uint16_t* places, Level level, const float* scales, void* out,
                                                  size_t count) {
  uint16_t* to = static_cast<uint16_t*>(out);
  for (size_t i = 0; i < count; ++i) to[i] = f16_of(bits_of(level(places[i]) * scales[i]));
}

#define BREVIS_SCALE(type)                                                                                        \
  void levels_##type(const uint16_t* places, const float* levels, const float* scales, void* out, size_t count) { \
    to_##type(places, FromTable{levels}, scales, out, count);                                                     \
  }                                                                                                               \
  void integers_##type(const uint16_t* places, const float* scales, void* out, size_t count) {                    \
    to_##type(places, FromIntegers{}, scales, out, count);                                                        \
  }
BREVIS_SCALE(f32)
BREVIS_SCALE(bf16)
BREVIS_SCALE(f16)
#undef BREVIS_SCALE

void fill(Kernels& table) {
  table.scale_levels[static_cast<size_t>(ScaledFloat::f32)] = levels_f32;
  table.scale_levels[static_cast<size_t>(ScaledFloat::bf16)] = levels_bf16;
  table.scale_levels[static_cast<size_t>(ScaledFloat::f16)] = levels_f16;
  table.scale_integers[static_cast<size_t>(ScaledFloat::f32)] = integers_f32;
  table.scale_integers[static_cast<size_t>(ScaledFloat::bf16)] = integers_bf16;
  table.scale_integers[static_cast<size_t>(ScaledFloat::f16)] = integers_f16;
}
