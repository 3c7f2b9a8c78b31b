// SPDX-License-Identifier: Apache-2.0
//
// Levels of quantisers times scales, written from the definition of `dequantise` alone, slowly, and streams of such
// words. Threads: pure functions.
#pragma once

#include <cmath>

#include "support/words.h"

namespace brevis::test {

// A float's form: bits of its exponent and of its fraction.
struct FloatForm {
  unsigned exponent_bits, fraction_bits;
  unsigned width() const { return 1 + exponent_bits + fraction_bits; }
  uint32_t infinity() const { return ((1u << exponent_bits) - 1) << fraction_bits; }
  uint32_t sign() const { return 1u << (width() - 1); }
};
// By type as `dequantise` counts them: F32, BF16, F16.
inline constexpr FloatForm kScaledForms[] = {{8, 23}, {8, 7}, {5, 10}};

inline double float_value(FloatForm form, uint32_t word) {
  const auto exponent = static_cast<int>(word >> form.fraction_bits & ((1u << form.exponent_bits) - 1));
  const uint32_t fraction = word & ((1u << form.fraction_bits) - 1);
  const double whole = exponent == 0 ? fraction : fraction | 1u << form.fraction_bits;
  const int bias = (1 << (form.exponent_bits - 1)) - 1;
  const double size = std::ldexp(whole, std::max(exponent, 1) - bias - static_cast<int>(form.fraction_bits));
  return (word & form.sign()) != 0 ? -size : size;
}

// The nearest word, of two as near the even one: sizes of words ascend with their values, infinity above all.
inline uint32_t nearest_float(FloatForm form, double value) {
  const uint32_t sign = std::signbit(value) ? form.sign() : 0;
  const double size = std::abs(value);
  uint32_t low = 0, high = form.infinity();  // float_value() gives infinity's word the value that would come next
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    (float_value(form, middle) <= size ? low : high) = middle;
  }
  const double below = size - float_value(form, low), above = float_value(form, high) - size;
  return sign | (below < above || (below == above && low % 2 == 0) ? low : high);
}

// A product of two F32, which a double holds, rounded to F32 and then to the type.
inline uint32_t scaled_word(unsigned type, float level, float scale) {
  const uint32_t single = nearest_float(kScaledForms[0], double{level} * double{scale});
  return type == 0 ? single : nearest_float(kScaledForms[type], float_value(kScaledForms[0], single));
}

// +0 where there is no level.
inline float level_at(unsigned kind, unsigned place) {
  constexpr float kNormalQuantiles[] = {-1.0f,
                                        -0.6961928009986877f,
                                        -0.5250730514526367f,
                                        -0.39491748809814453f,
                                        -0.28444138169288635f,
                                        -0.18477343022823334f,
                                        -0.09105003625154495f,
                                        0.0f,
                                        0.07958029955625534f,
                                        0.16093020141124725f,
                                        0.24611230194568634f,
                                        0.33791524171829224f,
                                        0.44070982933044434f,
                                        0.5626170039176941f,
                                        0.7229568362236023f,
                                        1.0f};
  switch (kind) {
    case 0: return place == 1 ? -0.0f : place >= 2 ? static_cast<float>(static_cast<int>(place) - 256) : 0.0f;
    case 1:
      if (place < 1 || place > 256 || ((place - 1) & 0x7f) == 0x7f) return 0;
      return static_cast<float>(float_value({4, 3}, place - 1));
    case 2:
      if (place < 1 || place > 256 || ((place - 1) & 0x7c) == 0x7c) return 0;
      return static_cast<float>(float_value({5, 2}, place - 1));
    default: return place >= 1 && place <= 16 ? kNormalQuantiles[place - 1] : 0;
  }
}

// How words were quantised: the kind of levels and the type of the words, as parameters; integers from -2^(bits-1) on.
struct Quantised {
  unsigned kind, type;
  uint64_t row, columns, rows;
  unsigned bits = 4;
  unsigned odd = 0;  // of 64 words so many are anything
};

inline unsigned draw_place(const Quantised& how, Random& random) {
  switch (how.kind) {
    case 0: return 256 - (1u << (how.bits - 1)) + static_cast<unsigned>(random.below(uint64_t{1} << how.bits));
    case 3: return 1 + static_cast<unsigned>(random.below(16));
    default: return 1 + static_cast<unsigned>(random.below(256));  // a few have no level
  }
}

inline float draw_scale(Random& random) {
  constexpr unsigned kDigits[] = {23, 10, 7, 0};
  const auto exponent = static_cast<uint32_t>(112 + random.below(15));
  const auto digits = static_cast<uint32_t>(random.next()) & 0x7fffff & ~((1u << (23 - kDigits[random.below(4)])) - 1);
  return static_cast<float>(float_value(kScaledForms[0], exponent << 23 | digits));
}

// Words of anything that a float can be.
inline uint32_t draw_odd(FloatForm form, Random& random) {
  const uint32_t sign = random.below(2) != 0 ? form.sign() : 0;
  switch (random.below(5)) {
    case 0: return sign;
    case 1: return sign | form.infinity();
    case 2: return sign | form.infinity() | static_cast<uint32_t>(1 + random.below((1u << form.fraction_bits) - 1));
    case 3: return sign | static_cast<uint32_t>(random.below(1u << form.fraction_bits));
    default: return static_cast<uint32_t>(random.next() & bits::low_mask(form.width()));
  }
}

// Words [position, position + count) of a matrix whose blocks have scales of their own.
inline bits::OwnedWords scaled_words(const Quantised& how, uint64_t position, size_t count, uint64_t seed) {
  const FloatForm form = kScaledForms[how.type];
  bits::OwnedWords out(form.width(), count);
  Random random(seed);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t at = position + i, band = at / how.row / how.rows, across = at % how.row / how.columns;
    Random of_block(seed ^ (band << 32 | across));
    const float level = level_at(how.kind, draw_place(how, random));
    const bool odd = random.below(64) < how.odd;
    out.words().set(i, odd ? draw_odd(form, random) : scaled_word(how.type, level, draw_scale(of_block)));
  }
  return out;
}

}  // namespace brevis::test
