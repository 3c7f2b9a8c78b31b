// SPDX-License-Identifier: Apache-2.0
//
// AVX-512 kernels from symbols to words: what is decoded without wide vectors, or several payloads side by side, still
// becomes words 64 at a time. The last words, where vectors would read beyond the fields, come from copies of the
// fields' ends.
#if defined(__x86_64__)
#include "bits/avx512_merge.h"

namespace brevis::bits {

BREVIS_TARGET_BEGIN(BREVIS_AVX512)
namespace {

// The end of a field, with zeros behind it. A field's last 63 bytes may not be read by vectors, which is 504 words of
// one bit, and as many words of any other field.
struct FieldEnd {
  static constexpr size_t kMost = (504 + 64) * 30 / 8, kZeros = 64 * 30 / 8 + kVector;
  uint8_t bytes[kMost + kZeros];

  void copy(const uint8_t* from, size_t count) {
    const size_t some = count < kMost ? count : kMost;
    if (some != 0) __builtin_memcpy(bytes, from, some);
    __builtin_memset(bytes + some, 0, kZeros);
  }
};

template <unsigned kLane, class FieldShape>
class SymbolMerge {
 public:
  SymbolMerge(const AliasMerge& merge, const Fields& fields) : values_(merge.values), rest_(fields, merge.first) {
    escape_ = _mm512_set1_epi8(static_cast<char>(merge.counted < 64 ? merge.counted : 0xff));
  }

  // 64 words; those of `counted` are looked at for the counted symbol.
  BREVIS_INLINE void step(const uint8_t* symbols, uint64_t counted, uint8_t* out) {
    const V in = load(symbols);
    hits_ += static_cast<size_t>(_mm_popcnt_u64(_mm512_mask_cmpeq_epi8_mask(counted, in, escape_)));
    V words[kLane];
    values_.look_up(in, words);
    rest_.add(words, out);
  }
  // Goes on in copies of what is left of the fields.
  void leave(const AliasMerge& merge, const Fields& fields, size_t words, FieldEnd (&ends)[3]) {
    rest_.read_from(fields, [&](const PackedField& field, unsigned k) {
      const size_t done = (merge.first + words) / 8 * field.b;
      ends[k].copy(field.data + done, field.bytes - done);
      return ends[k].bytes;
    });
  }
  size_t hits() const { return hits_; }

 private:
  ValueTable<kLane> values_;
  PackedRest<kLane, FieldShape> rest_;
  V escape_;
  size_t hits_ = 0;
};

template <unsigned kLane, class FieldShape>
void merge_all(const AliasMerge& merge, const Fields& fields, const uint8_t* symbols, uint8_t* out, size_t count,
               size_t& counted) {
  constexpr size_t kGroup = 64;
  SymbolMerge<kLane, FieldShape> words(merge, fields);
  const size_t readable = fields.readable<kLane>(merge), groups = count / kGroup;
  const size_t safe = groups < readable ? groups : readable;
  size_t group = 0;
  for (; group < safe; ++group) words.step(symbols + group * kGroup, ~uint64_t{0}, out + group * kGroup * kLane);
  if (group * kGroup < count) {
    FieldEnd ends[3];
    words.leave(merge, fields, group * kGroup, ends);
    for (; group < groups; ++group) words.step(symbols + group * kGroup, ~uint64_t{0}, out + group * kGroup * kLane);
    if (const size_t rest = count % kGroup; rest != 0) {
      alignas(64) uint8_t last[kGroup * kLane];
      words.step(symbols + group * kGroup, low_mask(static_cast<unsigned>(rest)), last);
      __builtin_memcpy(out + group * kGroup * kLane, last, rest * kLane);
    }
  }
  counted += words.hits();
}

template <unsigned kLane>
void merge_symbols(const AliasMerge& merge, const uint8_t* symbols, uint8_t* out, size_t count, size_t& counted) {
  Fields fields;
  if (!fields.sort<kLane>(merge))
    return all_kernels().front().merge_symbols[kLane / 2](merge, symbols, out, count, counted);
  by_shape(fields, [&]<class FieldShape>(FieldShape) {
    merge_all<kLane, FieldShape>(merge, fields, symbols, out, count, counted);
  });
}

}  // namespace
BREVIS_TARGET_END

void fill_avx512_symbols(Kernels& table) {
  table.merge_symbols[0] = merge_symbols<1>;
  table.merge_symbols[1] = merge_symbols<2>;
  table.merge_symbols[2] = merge_symbols<4>;
}

}  // namespace brevis::bits
#endif
