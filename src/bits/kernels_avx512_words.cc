// SPDX-License-Identifier: Apache-2.0
//
// AVX-512 kernels over plain words. Packing is the way of scalar code, halving steps that join adjacent fields, up to
// 64-bit elements; two byte permutes then put the elements' bits one after the other, even and odd ones apart, since a
// byte may hold bits of both.
#if defined(__x86_64__)
#include "bits/avx512.h"

namespace brevis::bits {

BREVIS_TARGET_BEGIN(BREVIS_AVX512)
namespace {

template <unsigned kLane>
size_t unpack_vectors(const uint8_t* in, size_t bytes, unsigned b, uint8_t* out, size_t count) {
  if (b > FieldReader<kLane>::kMaxBits) return 0;
  const PackedField field{in, bytes, b, 0};
  FieldReader<kLane> fields(field, 0);
  const size_t readable = FieldReader<kLane>::readable(field, 0), whole = count / (kVector / kLane);
  const size_t vectors = readable < whole ? readable : whole;
  for (size_t v = 0; v < vectors; ++v, out += kVector) _mm512_storeu_si512(out, fields.add(_mm512_setzero_si512()));
  return vectors * (kVector / kLane);
}

void unpack(const uint8_t* in, unsigned b, Words out) {
  const size_t bytes = (out.count * b + 7) / 8;
  const unsigned lane = out.lane();
  size_t done = 0;
  if (lane == 1) done = unpack_vectors<1>(in, bytes, b, out.data, out.count);
  if (lane == 2) done = unpack_vectors<2>(in, bytes, b, out.data, out.count);
  if (lane == 4) done = unpack_vectors<4>(in, bytes, b, out.data, out.count);
  all_kernels().front().unpack(in + done / 8 * b, b, {out.data + done * lane, out.count - done, out.width});
}

// Packs vectors of lanes of kLane bytes.
template <unsigned kLane>
class FieldWriter {
 public:
  static constexpr unsigned kFields = 8 / kLane;
  // A byte holds bits of at most two elements, and an element's bits fit it wherever the first byte starts.
  static bool serves(unsigned b) { return kFields * b >= 8 && b <= (kLane == 1 ? 7 : kLane == 2 ? 15 : 30); }

  explicit FieldWriter(unsigned b) : bytes_(kFields * b), stored_(low_mask(bytes_)) {
    for (unsigned level = 0, half = 8 * kLane, n = b; half < 64; ++level, half *= 2, n *= 2) {
      uint64_t low = 0;
      for (unsigned at = 0; at < 64; at += 2 * half) low |= low_mask(n) << at;
      low_[level] = _mm512_set1_epi64(static_cast<int64_t>(low));
      high_[level] = _mm512_set1_epi64(static_cast<int64_t>(low << n));
      shift_[level] = _mm_cvtsi32_si128(static_cast<int>(half - n));
    }
    alignas(64) uint64_t starts[8];
    alignas(64) uint8_t from[2][64] = {};
    for (unsigned i = 0; i < 8; ++i) starts[i] = i * bytes_ % 8;
    for (unsigned j = 0; j < bytes_; ++j)
      for (unsigned i = 8 * j / bytes_; i <= (8 * j + 7) / bytes_ && i < 8; ++i) {
        from[i % 2][j] = static_cast<uint8_t>(8 * i + j - i * bytes_ / 8);
        has_[i % 2] |= uint64_t{1} << j;
      }
    starts_ = load(starts);
    from_[0] = load(from[0]);
    from_[1] = load(from[1]);
  }

  BREVIS_INLINE void put(V words, uint8_t* out) const {
    for (unsigned level = 0; level < kLevels; ++level)
      words = _mm512_ternarylogic_epi32(high_[level], _mm512_srl_epi64(words, shift_[level]),
                                        _mm512_and_si512(words, low_[level]), 0xea);
    words = _mm512_sllv_epi64(words, starts_);
    const V even = _mm512_maskz_permutexvar_epi8(has_[0], from_[0], words);
    const V odd = _mm512_maskz_permutexvar_epi8(has_[1], from_[1], words);
    _mm512_mask_storeu_epi8(out, stored_, _mm512_or_si512(even, odd));
  }
  // Of a vector of words.
  size_t bytes() const { return bytes_; }

 private:
  static constexpr unsigned kLevels = kLane == 1 ? 3 : kLane == 2 ? 2 : 1;

  unsigned bytes_;  // of a vector; also the bits of an element
  uint64_t stored_, has_[2] = {};
  V low_[kLevels], high_[kLevels], starts_, from_[2];
  __m128i shift_[kLevels];
};

template <unsigned kLane>
size_t pack_vectors(ConstWords in, unsigned shift, unsigned b, uint8_t* out) {
  if (!FieldWriter<kLane>::serves(b)) return 0;
  const FieldWriter<kLane> writer(b);
  const size_t vectors = in.count / (kVector / kLane);
  const __m128i down = _mm_cvtsi32_si128(static_cast<int>(shift));
  // Steps of the writer look at b bits of each word, so nothing above needs to be cut off.
  for (size_t v = 0; v < vectors; ++v) {
    V words = load(in.data + v * kVector);
    if constexpr (kLane == 4) words = _mm512_srl_epi32(words, down);
    if constexpr (kLane == 2) words = _mm512_srl_epi16(words, down);
    if constexpr (kLane == 1) words = _mm512_srl_epi16(words, down);  // what comes in from the next byte is above b
    writer.put(words, out + v * writer.bytes());
  }
  return vectors * (kVector / kLane);
}

// Of fields of one bit.
template <unsigned kLane>
size_t pack_bits(ConstWords in, unsigned shift, uint8_t* out) {
  const size_t vectors = in.count / (kVector / kLane);
  const uint32_t one = 1u << shift;
  const V bit = kLane == 1   ? _mm512_set1_epi8(static_cast<char>(one))
                : kLane == 2 ? _mm512_set1_epi16(static_cast<short>(one))
                             : _mm512_set1_epi32(static_cast<int>(one));
  for (size_t v = 0; v < vectors; ++v) {
    const V words = load(in.data + v * kVector);
    const uint64_t bits = kLane == 1   ? _mm512_test_epi8_mask(words, bit)
                          : kLane == 2 ? _mm512_test_epi16_mask(words, bit)
                                       : _mm512_test_epi32_mask(words, bit);
    __builtin_memcpy(out + v * (8 / kLane), &bits, 8 / kLane);
  }
  return vectors * (kVector / kLane);
}

// Packs whole vectors; gives the words done.
size_t pack_whole(ConstWords in, unsigned shift, unsigned b, uint8_t* out) {
  switch (in.lane()) {
    case 1: return b == 1 ? pack_bits<1>(in, shift, out) : pack_vectors<1>(in, shift, b, out);
    case 2: return b == 1 ? pack_bits<2>(in, shift, out) : pack_vectors<2>(in, shift, b, out);
    case 4: return b == 1 ? pack_bits<4>(in, shift, out) : pack_vectors<4>(in, shift, b, out);
    default: return 0;
  }
}

void pack(ConstWords in, unsigned b, uint8_t* out) {
  const size_t done = pack_whole(in, 0, b, out);
  all_kernels().front().pack(in.part(done, in.count - done), b, out + done / 8 * b);
}

void pack_field(ConstWords in, unsigned shift, unsigned b, uint8_t* out) {
  const size_t done = pack_whole(in, shift, b, out);
  all_kernels().front().pack_field(in.part(done, in.count - done), shift, b, out + done / 8 * b);
}

// A vector of lanes of kLane bytes from as many words of kIn bytes.
template <unsigned kIn, unsigned kLane>
BREVIS_INLINE V widen_lanes(const uint8_t* in) {
  if constexpr (kIn == kLane) return load(in);
  if constexpr (kLane == 2) return _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(in)));
  if constexpr (kIn == 2) return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(in)));
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in)));
}

// Fields in lanes of their own, by vectors of words.
template <unsigned kLane>
struct LaneReader {
  const uint8_t* at;
  unsigned in;  // bytes of a lane
  __m128i shift;

  BREVIS_INLINE V add(V words) {
    V fields;
    if (in == kLane)
      fields = load(at);
    else if (in == 1)
      fields = widen_lanes<1, kLane>(at);
    else
      fields = widen_lanes < kLane == 4 ? 2 : kLane, kLane > (at);
    at += kVector / kLane * in;
    // Bytes have no shift of their own, but nothing of one leaves it.
    return _mm512_or_si512(words, kLane == 4 ? _mm512_sll_epi32(fields, shift) : _mm512_sll_epi16(fields, shift));
  }
};

template <unsigned kLane>
void merge_fields(const FieldMerge& merge, uint8_t* out, size_t count) {
  constexpr size_t kWords = kVector / kLane;
  size_t vectors = count / kWords;
  FieldReader<kLane> packed[FieldMerge::kMaxFields];
  for (size_t k = 0; k < merge.packed_count; ++k) {
    const bool serves = merge.packed[k].b <= FieldReader<kLane>::kMaxBits;
    const size_t readable = serves ? FieldReader<kLane>::readable(merge.packed[k], 0) : 0;
    if (serves) packed[k] = FieldReader<kLane>(merge.packed[k], 0);
    if (vectors > readable) vectors = readable;
  }
  LaneReader<kLane> lanes[FieldMerge::kMaxFields];
  for (size_t k = 0; k < merge.lane_count; ++k)
    lanes[k] = {merge.lanes[k].words.data, static_cast<unsigned>(merge.lanes[k].words.lane()),
                _mm_cvtsi32_si128(static_cast<int>(merge.lanes[k].shift))};
  const V fixed = kLane == 1   ? _mm512_set1_epi8(static_cast<char>(merge.fixed))
                  : kLane == 2 ? _mm512_set1_epi16(static_cast<short>(merge.fixed))
                               : _mm512_set1_epi32(static_cast<int>(merge.fixed));
  for (size_t v = 0; v < vectors; ++v) {
    V words = fixed;
    for (size_t k = 0; k < merge.lane_count; ++k) words = lanes[k].add(words);
    for (size_t k = 0; k < merge.packed_count; ++k) words = packed[k].add(words);
    _mm512_storeu_si512(out + v * kVector, words);
  }
  const size_t done = vectors * kWords;
  all_kernels().front().merge_fields[kLane / 2](merge.after(done), out + vectors * kVector, count - done);
}

// Sixteen words as 32-bit lanes.
template <unsigned kLane>
BREVIS_INLINE V widen_words(const uint8_t* in) {
  if constexpr (kLane == 1) return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in)));
  if constexpr (kLane == 2) return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(in)));
  return load(in);
}
template <unsigned kLane>
BREVIS_INLINE void narrow_words(V words, uint8_t* out) {
  if constexpr (kLane == 1) _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtepi32_epi8(words));
  if constexpr (kLane == 2) _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_cvtepi32_epi16(words));
  if constexpr (kLane == 4) _mm512_storeu_si512(out, words);
}

// From 16-bit words to bytes there is a shorter way.
void take_bytes(const uint8_t* in, size_t vectors, unsigned shift, uint32_t mask, uint8_t* out) {
  const __m128i down = _mm_cvtsi32_si128(static_cast<int>(shift));
  const V field = _mm512_set1_epi16(static_cast<short>(mask));
  for (size_t v = 0; v < vectors; ++v)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 32 * v),
                        _mm512_cvtepi16_epi8(_mm512_and_si512(_mm512_srl_epi16(load(in + 64 * v), down), field)));
}

template <unsigned kIn, unsigned kOut>
void take_field_lanes(const uint8_t* in, size_t vectors, unsigned shift, uint32_t mask, uint8_t* out) {
  const __m128i down = _mm_cvtsi32_si128(static_cast<int>(shift));
  const V field = _mm512_set1_epi32(static_cast<int>(mask));
  for (size_t v = 0; v < vectors; ++v, in += 16 * kIn, out += 16 * kOut)
    narrow_words<kOut>(_mm512_and_si512(_mm512_srl_epi32(widen_words<kIn>(in), down), field), out);
}

void take_field(ConstWords in, unsigned shift, Words out) {
  const size_t vectors = in.count / 16;
  const uint32_t mask = static_cast<uint32_t>(low_mask(out.width));
  size_t done = 16 * vectors;
  switch (10 * in.lane() + out.lane()) {
    case 11: take_field_lanes<1, 1>(in.data, vectors, shift, mask, out.data); break;
    case 21: take_bytes(in.data, vectors / 2, shift, mask, out.data), done = done / 32 * 32; break;
    case 22: take_field_lanes<2, 2>(in.data, vectors, shift, mask, out.data); break;
    case 41: take_field_lanes<4, 1>(in.data, vectors, shift, mask, out.data); break;
    case 42: take_field_lanes<4, 2>(in.data, vectors, shift, mask, out.data); break;
    case 44: take_field_lanes<4, 4>(in.data, vectors, shift, mask, out.data); break;
    default: done = 0;
  }
  all_kernels().front().take_field(in.part(done, in.count - done), shift, out.part(done, out.count - done));
}

template <unsigned kLane>
void look_up_lanes(const uint8_t* in, size_t vectors, unsigned shift, uint32_t mask, const uint8_t* table,
                   uint8_t* out) {
  const __m128i down = _mm_cvtsi32_si128(static_cast<int>(shift));
  const V field = _mm512_set1_epi32(static_cast<int>(mask));
  for (size_t v = 0; v < vectors; ++v, in += 16 * kLane, out += 16) {
    const V index = _mm512_and_si512(_mm512_srl_epi32(widen_words<kLane>(in), down), field);
    narrow_words<1>(_mm512_i32gather_epi32(index, table, 1), out);
  }
}

// Tables of lists have one entry everywhere but at the words that are listed, which are neighbours more often than not:
// 256 entries from `first` on are looked up in registers, and everywhere else there is `other`.
class NearTable {
 public:
  // False where more than 256 entries lie between the first and the last that differ from the others.
  bool find(const uint8_t* table, size_t size) {
    other_ = _mm512_set1_epi8(static_cast<char>(table[size - 1]));
    const auto differs = [&](size_t at) { return _mm512_cmpneq_epi8_mask(load(table + at), other_); };
    size_t from = 0, to = size;
    if (size > kEntries) {
      while (from < to && differs(from) == 0) from += kVector;
      while (from < to && differs(to - kVector) == 0) to -= kVector;
      if (from < to) {
        const auto low = static_cast<size_t>(__builtin_ctzll(differs(from)));
        to -= static_cast<size_t>(__builtin_clzll(differs(to - kVector)));
        from += low;
      }
      if (to - from > kEntries) return false;
    }
    first_ = static_cast<uint32_t>(from);
    for (unsigned k = 0; k < 4; ++k, from += kVector) {
      const size_t left = from < size ? size - from : 0;
      const __mmask64 there = left < kVector ? low_mask(static_cast<unsigned>(left)) : ~uint64_t{0};
      part_[k] = _mm512_mask_loadu_epi8(other_, there, table + (left == 0 ? 0 : from));
    }
    return true;
  }

  // For 64 words; their fields.
  template <unsigned kLane>
  BREVIS_INLINE V look_up(const uint8_t* in, __m128i down, uint32_t mask) const {
    if constexpr (kLane == 1) {
      const V field = _mm512_and_si512(_mm512_srl_epi16(load(in), down), _mm512_set1_epi8(static_cast<char>(mask)));
      return entries(field, ~uint64_t{0});
    } else if constexpr (kLane == 2) {
      const V field = _mm512_set1_epi16(static_cast<short>(mask)),
              first = _mm512_set1_epi16(static_cast<short>(first_)),
              size = _mm512_set1_epi16(static_cast<short>(kEntries));
      V index[2];
      for (unsigned k = 0; k < 2; ++k)
        index[k] = _mm512_sub_epi16(_mm512_and_si512(_mm512_srl_epi16(load(in + k * kVector), down), field), first);
      const uint64_t near = _mm512_cmplt_epu16_mask(index[0], size) | uint64_t{_mm512_cmplt_epu16_mask(index[1], size)}
                                                                          << (kVector / 2);
      return entries(
          _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(index[0])), _mm512_cvtepi16_epi8(index[1]), 1),
          near);
    } else {
      const V field = _mm512_set1_epi32(static_cast<int>(mask)), first = _mm512_set1_epi32(static_cast<int>(first_)),
              size = _mm512_set1_epi32(static_cast<int>(kEntries));
      alignas(64) uint8_t index[kVector];
      uint64_t near = 0;
      for (unsigned k = 0; k < 4; ++k) {
        const V at = _mm512_sub_epi32(_mm512_and_si512(_mm512_srl_epi32(load(in + k * kVector), down), field), first);
        _mm_store_si128(reinterpret_cast<__m128i*>(index + 16 * k), _mm512_cvtepi32_epi8(at));
        near |= uint64_t{_mm512_cmplt_epu32_mask(at, size)} << 16 * k;
      }
      return entries(load(index), near);
    }
  }

 private:
  static constexpr uint32_t kEntries = 256;

  BREVIS_INLINE V entries(V index, __mmask64 near) const {
    const V low = _mm512_permutex2var_epi8(part_[0], index, part_[1]),
            high = _mm512_permutex2var_epi8(part_[2], index, part_[3]);
    return _mm512_mask_mov_epi8(other_, near, _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(index), high));
  }

  V part_[4], other_;
  uint32_t first_ = 0;
};

template <unsigned kLane>
size_t look_up_near(const NearTable& table, const uint8_t* in, size_t count, unsigned shift, uint32_t mask,
                    uint8_t* out) {
  const __m128i down = _mm_cvtsi32_si128(static_cast<int>(shift));
  size_t i = 0;
  for (; i + kVector <= count; i += kVector)
    _mm512_storeu_si512(out + i, table.look_up<kLane>(in + i * kLane, down, mask));
  return i;
}

void look_up(ConstWords in, unsigned shift, unsigned b, const uint8_t* table, uint8_t* out) {
  constexpr size_t kWorthALook = 4;  // entries of a table a word
  const uint32_t mask = static_cast<uint32_t>(low_mask(b));
  const size_t size = size_t{1} << b;
  size_t done = 0;
  NearTable near;
  if (in.count >= kVector && size <= kWorthALook * in.count && near.find(table, size)) {
    switch (in.lane()) {
      case 1: done = look_up_near<1>(near, in.data, in.count, shift, mask, out); break;
      case 2: done = look_up_near<2>(near, in.data, in.count, shift, mask, out); break;
      case 4: done = look_up_near<4>(near, in.data, in.count, shift, mask, out); break;
      default: break;
    }
  }
  const uint8_t* const from = in.data + done * in.lane();
  const size_t vectors = (in.count - done) / 16;
  switch (in.lane()) {
    case 1: look_up_lanes<1>(from, vectors, shift, mask, table, out + done); break;
    case 2: look_up_lanes<2>(from, vectors, shift, mask, table, out + done); break;
    case 4: look_up_lanes<4>(from, vectors, shift, mask, table, out + done); break;
    default: break;
  }
  if (in.lane() <= 4) done += 16 * vectors;
  all_kernels().front().look_up(in.part(done, in.count - done), shift, b, table, out + done);
}

}  // namespace
BREVIS_TARGET_END

void fill_avx512_words(Kernels& table) {
  table.unpack = unpack;
  table.pack = pack;
  table.pack_field = pack_field;
  table.take_field = take_field;
  table.look_up = look_up;
  table.merge_fields[0] = merge_fields<1>;
  table.merge_fields[1] = merge_fields<2>;
  table.merge_fields[2] = merge_fields<4>;
}

}  // namespace brevis::bits
#endif
