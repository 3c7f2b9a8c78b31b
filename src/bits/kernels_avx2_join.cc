// SPDX-License-Identifier: Apache-2.0
//
// AVX2 kernel of `context` for words of two bytes: as kernels_avx512_join.cc does it, with a table of shuffles for the
// expanding move, eight places at a time.
#if defined(__x86_64__)
#include "bits/avx2.h"

namespace brevis::bits {

BREVIS_TARGET_BEGIN(BREVIS_AVX2)
namespace {

#include "bits/streams_join.h"

constexpr size_t kHands = DealHands::kHands;
constexpr size_t kWords = 16;

BREVIS_INLINE V shorts(unsigned value) { return _mm256_set1_epi16(static_cast<short>(value)); }

template <size_t kTerms>
class Join {
 public:
  explicit Join(const LevelJoin& join)
      : join_(join), shift_(_mm_cvtsi32_si128(static_cast<int>(join.shift))), always_(shorts(join.sums.always)) {
    mask_ = shorts(static_cast<uint16_t>(join.mask));
    low_ = shorts(static_cast<uint16_t>(join.low));
    for (size_t k = 0; k < kTerms; ++k) weights_[k] = shorts(join.sums.weights[k]);
    for (size_t c = 0; c + 1 < kHands; ++c) below_[c] = shorts(join.sums.begins[c] - 1u);
  }

  // The words of kWords places from `at` on.
  BREVIS_INLINE void step(size_t at, StreamsToJoin& streams, uint8_t* out) const {
    V sum = always_;
    for (size_t k = 0; k < kTerms; ++k)
      sum = _mm256_add_epi16(
          sum, _mm256_mullo_epi16(_mm256_cvtepu8_epi16(load_half(join_.sums.levels[k] + at)), weights_[k]));
    // Sums are at most 1,008, so that signed comparisons do.
    const V one = _mm256_cmpgt_epi16(sum, below_[0]), two = _mm256_cmpgt_epi16(sum, below_[1]),
            three = _mm256_cmpgt_epi16(sum, below_[2]);
    const V zero = _mm256_andnot_si256(one, _mm256_set1_epi16(-1));
    const unsigned masks[2] = {both_masks(zero, _mm256_andnot_si256(two, one)),
                               both_masks(_mm256_andnot_si256(three, two), three)};
    __m128i half[2];
    for (unsigned h = 0; h < 2; ++h)
      for (size_t c = 0; c < kHands; ++c) {
        const unsigned mask = masks[c / 2] >> (16 * h + 8 * (c % 2)) & 0xff;
        const __m128i some = _mm_shuffle_epi8(load_half(streams.next[c]), load_half(kExpand.shuffles[mask]));
        half[h] = c == 0 ? some : _mm_or_si128(half[h], some);
        streams.next[c] += 2 * static_cast<size_t>(_mm_popcnt_u32(mask));
      }
    const V words = _mm256_inserti128_si256(_mm256_castsi128_si256(half[0]), half[1], 1);
    store(out, words);
    const V field = and_(_mm256_srl_epi16(words, shift_), mask_);
    const V level = _mm256_min_epu16(_mm256_subs_epu16(field, low_), shorts(kTopLevel));
    const V bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(level, level), 0xd8);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(join_.own + at), _mm256_castsi256_si128(bytes));
  }

  void last_steps(size_t at, size_t count, StreamsToJoin& streams, uint8_t* out) const {
    for (size_t i = at; i < count; ++i, out += 2) {
      unsigned sum = join_.sums.always;
      for (size_t k = 0; k < kTerms; ++k) sum += join_.sums.weights[k] * join_.sums.levels[k][i];
      size_t c = 0;
      while (c + 1 < kHands && sum >= join_.sums.begins[c]) ++c;
      uint16_t word;
      __builtin_memcpy(&word, streams.next[c], sizeof word);
      __builtin_memcpy(out, &word, sizeof word);
      streams.next[c] += sizeof word;
      const uint64_t field = uint64_t{word} >> join_.shift & join_.mask;
      const uint64_t level = field < join_.low ? 0 : field - join_.low;
      join_.own[i] = static_cast<uint8_t>(level < kTopLevel ? level : kTopLevel);
    }
  }

 private:
  // Of the lower eight lanes of one vector and of another, then of the upper ones.
  static BREVIS_INLINE unsigned both_masks(V first, V second) {
    return static_cast<unsigned>(_mm256_movemask_epi8(_mm256_packs_epi16(first, second)));
  }

  const LevelJoin& join_;
  __m128i shift_;
  V always_, mask_, low_, weights_[kTerms == 0 ? 1 : kTerms], below_[kHands - 1];
};

template <size_t kTerms>
bool join_terms(const LevelJoin& join, const DealHands& hands, uint8_t* out, size_t count) {
  const Join<kTerms> vectors(join);
  StreamsToJoin streams(hands);
  size_t at = 0;
  for (; at + kWords <= count; at += kWords) {
    if (!streams.ready()) return false;
    vectors.step(at, streams, out + 2 * at);
  }
  if (!streams.ready()) return false;
  vectors.last_steps(at, count, streams, out + 2 * at);
  return streams.ready();
}

bool join_levels(const LevelJoin& join, const DealHands& hands, uint8_t* out, size_t count) {
  switch (join.sums.terms) {
    case 0: return join_terms<0>(join, hands, out, count);
    case 1: return join_terms<1>(join, hands, out, count);
    case 2: return join_terms<2>(join, hands, out, count);
    case 3: return join_terms<3>(join, hands, out, count);
    default: return join_terms<LevelSums::kMaxTerms>(join, hands, out, count);
  }
}

}  // namespace
BREVIS_TARGET_END

void fill_avx2_join(Kernels& table) { table.join_levels[1] = join_levels; }

}  // namespace brevis::bits
#endif
