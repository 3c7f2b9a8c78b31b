// SPDX-License-Identifier: Apache-2.0
//
// The loops of kernels_scale.cc, which includes this once for each instruction set, inside a namespace of its own.

inline uint32_t bits_of(float value) {
  uint32_t word;
  __builtin_memcpy(&word, &value, 4);
  return word;
}

// To the nearest, ties to even, from the bits of a finite F32.
inline uint16_t to_bf16(uint32_t word) { return static_cast<uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16); }

inline uint16_t to_f16(uint32_t word) {
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

void scale_to_f32(const uint16_t* places, const float* levels, const float* scales, void* out, size_t count) {
  uint32_t* to = static_cast<uint32_t*>(out);
  for (size_t i = 0; i < count; ++i) to[i] = bits_of(levels[places[i] & (kScaledLevels - 1)] * scales[i]);
}

void scale_to_bf16(const uint16_t* places, const float* levels, const float* scales, void* out, size_t count) {
  uint16_t* to = static_cast<uint16_t*>(out);
  for (size_t i = 0; i < count; ++i) to[i] = to_bf16(bits_of(levels[places[i] & (kScaledLevels - 1)] * scales[i]));
}

void scale_to_f16(const uint16_t* places, const float* levels, const float* scales, void* out, size_t count) {
  uint16_t* to = static_cast<uint16_t*>(out);
  for (size_t i = 0; i < count; ++i) to[i] = to_f16(bits_of(levels[places[i] & (kScaledLevels - 1)] * scales[i]));
}

void fill(Kernels& table) {
  table.scale_levels[static_cast<size_t>(ScaledFloat::f32)] = scale_to_f32;
  table.scale_levels[static_cast<size_t>(ScaledFloat::bf16)] = scale_to_bf16;
  table.scale_levels[static_cast<size_t>(ScaledFloat::f16)] = scale_to_f16;
}
