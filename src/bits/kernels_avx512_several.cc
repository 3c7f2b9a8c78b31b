// SPDX-License-Identifier: Apache-2.0
//
// Alias-coded payloads of 16 lanes, two to four side by side, with AVX-512. One alone is a chain of dependent steps of
// some 30 to 45 cycles (kernels_avx512.cc); with four of them what counts is the number of instructions, so that
// products are those of all lanes at once, and tables, which no longer fit the registers, are operands in memory.
#if defined(__x86_64__)
#include "bits/avx512_merge.h"
#include "bits/avx512_several.h"

namespace brevis::bits {

BREVIS_TARGET_BEGIN(BREVIS_AVX512)
namespace {

BREVIS_INLINE V all(uint32_t value) { return _mm512_set1_epi32(static_cast<int>(value)); }

// The entries of a side.
BREVIS_INLINE V look_up(const uint32_t* entries, V bucket, __mmask16 upper) {
  return _mm512_mask_mov_epi32(_mm512_permutex2var_epi32(load(entries), bucket, load(entries + 16)), upper,
                               _mm512_permutex2var_epi32(load(entries + 32), bucket, load(entries + 48)));
}

// Decodes a symbol in every lane, into bits 12 to 17; the others mean nothing. Requires: 16 words from `next` on.
BREVIS_INLINE V step(V& state, const AliasPlanes& planes, const uint8_t*& next) {
  const V words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(next)));
  const V bucket = _mm512_srli_epi32(state, 6);
  const V threshold = _mm512_maskz_permutexvar_epi8(0x1111111111111111, bucket, load(planes.threshold));
  const __mmask16 upper = _mm512_test_epi32_mask(state, all(0x800));
  const __mmask16 second = _mm512_cmpge_epu32_mask(_mm512_and_si512(state, all(0xff)), threshold);
  const V entry =
      _mm512_mask_mov_epi32(look_up(planes.entry[0], bucket, upper), second, look_up(planes.entry[1], bucket, upper));
  const V rank = _mm512_and_si512(_mm512_sub_epi32(state, entry), all(0xfff));
  const V product =
      _mm512_mullo_epi32(_mm512_srli_epi32(entry, 20), _mm512_srli_epi32(state, AliasDecoder::kScaleBits));
  const V x = _mm512_add_epi32(product, rank);
  const __mmask16 refill = _mm512_cmplt_epu32_mask(x, all(0x10000));
  state = _mm512_mask_or_epi32(x, refill, _mm512_slli_epi32(x, 16), _mm512_maskz_expand_epi32(refill, words));
  next += 2 * static_cast<uint64_t>(_mm_popcnt_u32(refill));
  return entry;
}

// Even bytes, in lane order, of what two rounds give.
BREVIS_INLINE V join_rounds(V first, V second) {
  alignas(64) static constexpr auto kOrder = [] {
    struct {
      uint8_t at[64];
    } order{};
    for (unsigned i = 0; i < 32; ++i)
      for (unsigned byte = 0; byte < 2; ++byte)
        order.at[2 * i + byte] = static_cast<uint8_t>((i < 16 ? 4 * i : 4 * (i - 16) + 2) + byte);
    return order;
  }();
  const V both = select(all(0xffff0000), _mm512_slli_epi32(second, 4), _mm512_srli_epi32(first, 12));
  return _mm512_permutexvar_epi8(load(kOrder.at), both);
}

struct ByWords {
  using Symbols = V;
  struct Table {
    const AliasPlanes* planes;
    void fill(const AliasPlanes& from) { planes = &from; }
  };
  struct State {
    V state;
    void read(const uint32_t* states) { state = load(states); }
    void write(uint32_t* states) const { _mm512_storeu_si512(states, state); }
    BREVIS_INLINE V step(const Table& table, const uint8_t*& next) { return bits::step(state, *table.planes, next); }
  };
  BREVIS_INLINE static V bytes_of(const V (&rounds)[4]) {
    return lane_order(join_rounds(rounds[0], rounds[1]), join_rounds(rounds[2], rounds[3]));
  }
};

}  // namespace
BREVIS_TARGET_END

void fill_avx512_several(Kernels& table) { table.alias_sixteens = {4, decode_sixteens<ByWords>}; }

}  // namespace brevis::bits
#endif
