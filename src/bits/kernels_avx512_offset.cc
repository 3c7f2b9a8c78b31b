// SPDX-License-Identifier: Apache-2.0
//
// Moving a field of every word (operator `offset`) with AVX-512: rows are often short, so that what is less than a
// vector is masked instead of being done word by word.
#if defined(__x86_64__)
#include "bits/avx512.h"

namespace brevis::bits {

BREVIS_TARGET_BEGIN(BREVIS_AVX512)
namespace {

constexpr size_t kSteps = 32;  // of a vector

// Whole steps at their place in the word.
struct Shifted {
  __m128i shift;
  V back;  // all ones where steps are taken off

  explicit Shifted(const FieldMove& field)
      : shift(_mm_cvtsi32_si128(static_cast<int>(field.shift))), back(_mm512_set1_epi16(field.back ? -1 : 0)) {}
  BREVIS_INLINE V whole(V quarters) const {
    const V whole = _mm512_srai_epi16(quarters, 2);
    return _mm512_sub_epi16(_mm512_xor_si512(whole, back), back);
  }
};

// Words of 16 bits as they lie, 32 of them.
void move_16(Words words, const FieldMove& field, const int16_t* steps, int16_t base) {
  const Shifted shifted(field);
  const V mask = _mm512_set1_epi16(static_cast<short>(low_mask(field.bits) << field.shift));
  const V bases = _mm512_set1_epi16(base);
  const auto moved = [&](V word, V some) __attribute__((always_inline)) {
    const V step = _mm512_sll_epi16(shifted.whole(_mm512_add_epi16(some, bases)), shifted.shift);
    return select(mask, _mm512_add_epi16(word, step), word);
  };
  size_t i = 0;
  for (; i + kSteps <= words.count; i += kSteps) {
    uint8_t* const at = words.data + 2 * i;
    _mm512_storeu_si512(at, moved(load(at), load(steps + i)));
  }
  if (i == words.count) return;
  const auto rest = static_cast<__mmask32>(low_mask(static_cast<unsigned>(words.count - i)));
  uint8_t* const at = words.data + 2 * i;
  _mm512_mask_storeu_epi16(at, rest,
                           moved(_mm512_maskz_loadu_epi16(rest, at), _mm512_maskz_loadu_epi16(rest, steps + i)));
}

// Of 32 bits, 16 of them.
void move_32(Words words, const FieldMove& field, const int16_t* steps, int16_t base) {
  const Shifted shifted(field);
  const V mask = _mm512_set1_epi32(static_cast<int>(low_mask(field.bits) << field.shift));
  const V bases = _mm512_set1_epi16(base);
  const auto moved = [&](V word, __m256i some) __attribute__((always_inline)) {
    const V whole = shifted.whole(_mm512_add_epi16(_mm512_castsi256_si512(some), bases));
    const V step = _mm512_sll_epi32(_mm512_cvtepi16_epi32(_mm512_castsi512_si256(whole)), shifted.shift);
    return select(mask, _mm512_add_epi32(word, step), word);
  };
  constexpr size_t kWords = kSteps / 2;
  size_t i = 0;
  for (; i + kWords <= words.count; i += kWords) {
    uint8_t* const at = words.data + 4 * i;
    _mm512_storeu_si512(at, moved(load(at), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(steps + i))));
  }
  if (i == words.count) return;
  const auto rest = static_cast<__mmask16>(low_mask(static_cast<unsigned>(words.count - i)));
  uint8_t* const at = words.data + 4 * i;
  _mm512_mask_storeu_epi32(at, rest,
                           moved(_mm512_maskz_loadu_epi32(rest, at), _mm256_maskz_loadu_epi16(rest, steps + i)));
}

// What other widths are left to.
decltype(Kernels::move_field) compiled;

void move_field(Words words, const FieldMove& field, const int16_t* steps, int16_t base) {
  if (words.lane() == 2) return move_16(words, field, steps, base);
  if (words.lane() == 4) return move_32(words, field, steps, base);
  compiled(words, field, steps, base);
}

}  // namespace
BREVIS_TARGET_END

void fill_avx512_offset_rows(Kernels& table) {
  compiled = table.move_field;
  table.move_field = move_field;
}

}  // namespace brevis::bits
#endif
