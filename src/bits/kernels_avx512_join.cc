// SPDX-License-Identifier: Apache-2.0
//
// AVX-512 kernels of `context` where classes follow from words far enough before: classes, words and levels of a vector
// of places at a time. Classes stay masks, and an expanding move brings each stream's next words to the places of its
// class; that a stream's place waits for the count of its words in the vector before is all that is one after the
// other.
#if defined(__x86_64__)
#include "bits/avx512.h"

namespace brevis::bits {

BREVIS_TARGET_BEGIN(BREVIS_AVX512)
namespace {

#include "bits/streams_join.h"

BREVIS_INLINE V shorts(unsigned value) { return _mm512_set1_epi16(static_cast<short>(value)); }

template <unsigned kLane>
constexpr unsigned kWordsOf = kLane == 4 ? 16 : 32;  // sums have 16 bits

template <unsigned kLane, size_t kTerms>
class Join {
 public:
  static constexpr unsigned kWords = kWordsOf<kLane>;

  explicit Join(const LevelJoin& join)
      : always_(shorts(join.sums.always)),
        shift_(_mm_cvtsi32_si128(static_cast<int>(join.shift))),
        mask_(lanes(join.mask)),
        low_(lanes(join.low)),
        own_(join.own) {
    for (size_t k = 0; k < kTerms; ++k) {
      levels_[k] = join.sums.levels[k];
      weights_[k] = shorts(join.sums.weights[k]);
    }
    for (size_t c = 0; c + 1 < DealHands::kHands; ++c) begins_[c] = shorts(join.sums.begins[c]);
  }

  // The words of kWords places from `at` on, of which those of the mask are wanted.
  template <bool kAll>
  BREVIS_INLINE void step(size_t at, uint32_t wanted, StreamsToJoin& streams, uint8_t* out) {
    V sum = always_;
    for (size_t k = 0; k < kTerms; ++k)
      sum = _mm512_add_epi16(sum, _mm512_mullo_epi16(load_levels(k, at), weights_[k]));
    uint32_t from[DealHands::kHands];  // places of this class or a higher one
    from[0] = wanted;
    for (size_t c = 1; c < DealHands::kHands; ++c) from[c] = _mm512_mask_cmpge_epu16_mask(wanted, sum, begins_[c - 1]);
    V words[DealHands::kHands];
    for (size_t c = 0; c < DealHands::kHands; ++c) {
      const uint32_t of_class = c + 1 < DealHands::kHands ? from[c] & ~from[c + 1] : from[c];
      words[c] = expand(of_class, streams.next[c]);
      streams.next[c] += static_cast<size_t>(_mm_popcnt_u32(of_class)) * kLane;
    }
    const V all = _mm512_or_si512(_mm512_ternarylogic_epi32(words[0], words[1], words[2], 0xfe), words[3]);
    put<kAll>(at, wanted, all, out);
  }

 private:
  static BREVIS_INLINE V lanes(uint64_t value) {
    if constexpr (kLane == 1) return _mm512_set1_epi8(static_cast<char>(value));
    if constexpr (kLane == 2) return _mm512_set1_epi16(static_cast<short>(value));
    return _mm512_set1_epi32(static_cast<int>(value));
  }
  BREVIS_INLINE V load_levels(size_t k, size_t at) const {
    const __m256i bytes =
        kWords == 16 ? _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(levels_[k] + at)))
                     : _mm256_loadu_si256(reinterpret_cast<const __m256i*>(levels_[k] + at));
    return _mm512_cvtepu8_epi16(bytes);
  }
  static BREVIS_INLINE V expand(uint32_t places, const uint8_t* next) {
    if constexpr (kLane == 1) return _mm512_maskz_expand_epi8(places, load(next));
    if constexpr (kLane == 2) return _mm512_maskz_expand_epi16(places, load(next));
    return _mm512_maskz_expand_epi32(static_cast<__mmask16>(places), load(next));
  }
  // Stores words and their levels.
  template <bool kAll>
  BREVIS_INLINE void put(size_t at, uint32_t wanted, V words, uint8_t* out) const {
    if constexpr (kLane == 1) {
      const V field = _mm512_and_si512(_mm512_srl_epi16(words, shift_), mask_);
      const V level = _mm512_min_epu8(_mm512_subs_epu8(field, low_), lanes(kTopLevel));
      _mm512_mask_storeu_epi8(out, wanted, words);
      _mm512_mask_storeu_epi8(own_ + at, wanted, level);
    } else if constexpr (kLane == 2) {
      const V field = _mm512_and_si512(_mm512_srl_epi16(words, shift_), mask_);
      const V level = _mm512_min_epu16(_mm512_subs_epu16(field, low_), lanes(kTopLevel));
      if constexpr (kAll) {
        _mm512_storeu_si512(out, words);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(own_ + at), _mm512_cvtepi16_epi8(level));
      } else {
        _mm512_mask_storeu_epi16(out, wanted, words);
        _mm256_mask_storeu_epi8(own_ + at, wanted, _mm512_cvtepi16_epi8(level));
      }
    } else {
      const V field = _mm512_and_si512(_mm512_srl_epi32(words, shift_), mask_);
      const V level = _mm512_min_epu32(_mm512_sub_epi32(_mm512_max_epu32(field, low_), low_), lanes(kTopLevel));
      _mm512_mask_storeu_epi32(out, static_cast<__mmask16>(wanted), words);
      _mm_mask_storeu_epi8(own_ + at, static_cast<__mmask16>(wanted), _mm512_cvtepi32_epi8(level));
    }
  }

  const uint8_t* levels_[kTerms == 0 ? 1 : kTerms];
  V weights_[kTerms == 0 ? 1 : kTerms], begins_[DealHands::kHands - 1], always_;
  __m128i shift_;
  V mask_, low_;
  uint8_t* own_;
};

template <unsigned kLane, size_t kTerms>
bool join_terms(const LevelJoin& join, const DealHands& hands, uint8_t* out, size_t count) {
  constexpr unsigned kWords = kWordsOf<kLane>;
  constexpr uint32_t kAll = static_cast<uint32_t>(low_mask(kWords));
  Join<kLane, kTerms> vectors(join);
  StreamsToJoin streams(hands);
  size_t at = 0;
  for (; at + kWords <= count; at += kWords) {
    if (!streams.ready()) return false;
    vectors.template step<true>(at, kAll, streams, out + at * kLane);
  }
  if (!streams.ready()) return false;
  vectors.template step<false>(at, static_cast<uint32_t>(low_mask(static_cast<unsigned>(count - at))), streams,
                               out + at * kLane);
  return streams.ready();
}

template <unsigned kLane>
bool join_levels(const LevelJoin& join, const DealHands& hands, uint8_t* out, size_t count) {
  switch (join.sums.terms) {
    case 0: return join_terms<kLane, 0>(join, hands, out, count);
    case 1: return join_terms<kLane, 1>(join, hands, out, count);
    case 2: return join_terms<kLane, 2>(join, hands, out, count);
    case 3: return join_terms<kLane, 3>(join, hands, out, count);
    default: return join_terms<kLane, LevelSums::kMaxTerms>(join, hands, out, count);
  }
}

}  // namespace
BREVIS_TARGET_END

void fill_avx512_join(Kernels& table) {
  table.join_levels[0] = join_levels<1>;
  table.join_levels[1] = join_levels<2>;
  table.join_levels[2] = join_levels<4>;
}

}  // namespace brevis::bits
#endif
