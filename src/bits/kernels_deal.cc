// SPDX-License-Identifier: Apache-2.0
//
// Joining four streams by the class of each place (operators `select` and `context`) and taking them apart: scalar
// code, and with AVX-512 a vector of places at a time, into whose lanes of a class the words of its stream are spread,
// or from which they are gathered.
#include "bits/kernels.h"
#include "bits/target.h"

#if defined(__x86_64__)
#include "bits/avx512.h"
#endif

namespace brevis::bits {

namespace scalar {
namespace {

// One addition carries all places: they fit 16 bits each, since no more than that are dealt at a time.
template <class T>
void deal(const uint8_t* classes, size_t count, DealHands& hands, T* out) {
  std::array<const T*, DealHands::kHands> from;
  for (size_t c = 0; c < from.size(); ++c) from[c] = reinterpret_cast<const T*>(hands.next[c]);
  uint64_t places = 0;
  for (size_t i = 0; i < count; ++i) {
    const unsigned shift = 16u * classes[i];
    out[i] = from[classes[i]][places >> shift & 0xffff];
    places += uint64_t{1} << shift;
  }
  for (size_t c = 0; c < from.size(); ++c) hands.next[c] += (places >> 16 * c & 0xffff) * sizeof(T);
}

template <class T>
void split(const uint8_t* classes, const T* in, size_t count, const std::array<uint8_t*, DealHands::kHands>& out) {
  std::array<T*, DealHands::kHands> to;
  for (size_t c = 0; c < to.size(); ++c) to[c] = reinterpret_cast<T*>(out[c]);
  uint64_t places = 0;
  for (size_t i = 0; i < count; ++i) {
    const unsigned shift = 16u * classes[i];
    to[classes[i]][places >> shift & 0xffff] = in[i];
    places += uint64_t{1} << shift;
  }
}

void split(const uint8_t* classes, ConstWords in, const std::array<uint8_t*, DealHands::kHands>& out) {
  visit_lane(in.width, [&]<class T>(T) { split(classes, in.as<T>().data(), in.count, out); });
}

void deal(const uint8_t* classes, DealHands& hands, Words out) {
  visit_lane(out.width, [&]<class T>(T) { deal(classes, out.count, hands, out.as<T>().data()); });
}

}  // namespace
}  // namespace scalar

void fill_scalar_deal(Kernels& table) {
  table.deal = scalar::deal;
  table.split = scalar::split;
}

#if defined(__x86_64__)
BREVIS_TARGET_BEGIN(BREVIS_AVX512)
namespace {

// Vectors of classes, for as long as a whole vector of each stream can be read.
template <unsigned kLane>
size_t deal_vectors(const uint8_t* classes, DealHands& hands, uint8_t* out, size_t count) {
  constexpr size_t kWords = kVector / kLane;
  size_t i = 0;
  for (; i + kWords <= count; i += kWords) {
    bool readable = true;
    for (size_t c = 0; c < DealHands::kHands; ++c)
      readable = readable && static_cast<size_t>(hands.end[c] - hands.next[c]) >= kVector;
    if (!readable) break;
    V words = _mm512_setzero_si512();
    for (size_t c = 0; c < DealHands::kHands; ++c) {
      uint64_t of_class;
      const V next = load(hands.next[c]);
      if constexpr (kLane == 1) {
        of_class = _mm512_cmpeq_epi8_mask(load(classes + i), _mm512_set1_epi8(static_cast<char>(c)));
        words = _mm512_mask_expand_epi8(words, of_class, next);
      } else if constexpr (kLane == 2) {
        const __m256i at = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(classes + i));
        const __mmask32 mask = _mm256_cmpeq_epi8_mask(at, _mm256_set1_epi8(static_cast<char>(c)));
        words = _mm512_mask_expand_epi16(words, mask, next);
        of_class = mask;
      } else {
        const __m128i at = _mm_loadu_si128(reinterpret_cast<const __m128i*>(classes + i));
        const __mmask16 mask = _mm_cmpeq_epi8_mask(at, _mm_set1_epi8(static_cast<char>(c)));
        words = _mm512_mask_expand_epi32(words, mask, next);
        of_class = mask;
      }
      hands.next[c] += static_cast<size_t>(_mm_popcnt_u64(of_class)) * kLane;
    }
    _mm512_storeu_si512(out + i * kLane, words);
  }
  return i;
}

void deal_avx512(const uint8_t* classes, DealHands& hands, Words out) {
  const unsigned lane = out.lane();
  size_t done = 0;
  if (lane == 1) done = deal_vectors<1>(classes, hands, out.data, out.count);
  if (lane == 2) done = deal_vectors<2>(classes, hands, out.data, out.count);
  if (lane == 4) done = deal_vectors<4>(classes, hands, out.data, out.count);
  scalar::deal(classes + done, hands, {out.data + done * lane, out.count - done, out.width});
}

// The places of a class among those wanted.
BREVIS_INLINE uint64_t places_of(const uint8_t* classes, size_t c, uint64_t wanted) {
  return _mm512_mask_cmpeq_epi8_mask(wanted, _mm512_maskz_loadu_epi8(wanted, classes),
                                     _mm512_set1_epi8(static_cast<char>(c)));
}

template <unsigned kLane>
void split_vectors(const uint8_t* classes, const uint8_t* in, size_t count,
                   std::array<uint8_t*, DealHands::kHands> out) {
  constexpr size_t kWords = kVector / kLane;
  for (size_t i = 0; i < count; i += kWords) {
    const uint64_t wanted = low_mask(static_cast<unsigned>(count - i < kWords ? count - i : kWords));
    V words;
    if constexpr (kLane == 1) words = _mm512_maskz_loadu_epi8(wanted, in + i);
    if constexpr (kLane == 2) words = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(wanted), in + 2 * i);
    if constexpr (kLane == 4) words = _mm512_maskz_loadu_epi32(static_cast<__mmask16>(wanted), in + 4 * i);
    for (size_t c = 0; c < out.size(); ++c) {
      const uint64_t of_class = places_of(classes + i, c, wanted);
      const auto some = static_cast<unsigned>(_mm_popcnt_u64(of_class));
      const uint64_t filled = low_mask(some);
      // Not straight to memory, which some CPUs take a hundred steps for.
      if constexpr (kLane == 1) {
        _mm512_mask_storeu_epi8(out[c], filled, _mm512_maskz_compress_epi8(of_class, words));
      } else if constexpr (kLane == 2) {
        _mm512_mask_storeu_epi16(out[c], static_cast<__mmask32>(filled),
                                 _mm512_maskz_compress_epi16(static_cast<__mmask32>(of_class), words));
      } else {
        _mm512_mask_storeu_epi32(out[c], static_cast<__mmask16>(filled),
                                 _mm512_maskz_compress_epi32(static_cast<__mmask16>(of_class), words));
      }
      out[c] += some * kLane;
    }
  }
}

void split_avx512(const uint8_t* classes, ConstWords in, const std::array<uint8_t*, DealHands::kHands>& out) {
  switch (in.lane()) {
    case 1: return split_vectors<1>(classes, in.data, in.count, out);
    case 2: return split_vectors<2>(classes, in.data, in.count, out);
    case 4: return split_vectors<4>(classes, in.data, in.count, out);
    default: return scalar::split(classes, in, out);
  }
}

}  // namespace
BREVIS_TARGET_END

void fill_avx512_deal(Kernels& table) {
  table.deal = deal_avx512;
  table.split = split_avx512;
}
#endif

}  // namespace brevis::bits
