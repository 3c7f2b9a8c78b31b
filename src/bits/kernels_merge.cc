// SPDX-License-Identifier: Apache-2.0
//
// Scalar kernels that go from payloads to words: tiles that stay in the first-level cache pass through symbols,
// unpacked fields and the words they make.
#include <algorithm>
#include <cstring>

#include "bits/kernels.h"

namespace brevis::bits {
namespace {

constexpr size_t kTile = 1024;  // a multiple of any number of lanes

template <class Word, class Field>
void or_field(Word* words, const Field* fields, size_t count, unsigned shift) {
  for (size_t i = 0; i < count; ++i) words[i] = static_cast<Word>(words[i] | static_cast<Word>(fields[i]) << shift);
}

template <class Word>
void add_field(const PackedField& field, size_t first, Word* words, size_t count) {
  const size_t before = first % 8;  // unpacked in vain, so that the first field starts on a byte
  alignas(8) uint8_t unpacked[(kTile + 8) * sizeof(Word)];
  all_kernels().front().unpack(field.data + (first - before) / 8 * field.b, field.b,
                               {unpacked, before + count, static_cast<uint8_t>(field.b)});
  visit_lane(field.b, [&]<class Field>(Field) {
    if constexpr (sizeof(Field) <= sizeof(Word))
      or_field(words, reinterpret_cast<const Field*>(unpacked) + before, count, field.shift);
  });
}

size_t occurrences(const uint8_t* symbols, size_t count, unsigned symbol) {
  if (symbol >= 64) return 0;
  static_assert(kTile <= 0xffff);
  uint16_t sum = 0;  // narrow, so that compilers count many at once
  for (size_t i = 0; i < count; ++i) sum = static_cast<uint16_t>(sum + (symbols[i] == symbol));
  return sum;
}

template <class Word>
size_t merge_alias(const AliasMerge& merge, RansCursor& cursor, uint8_t* out, size_t rounds, size_t& counted) {
  Word values[64], words[kTile];
  std::copy_n(merge.values, 64, values);
  uint8_t symbols[kTile];
  size_t done = 0;
  while (done < rounds) {
    const size_t wanted = std::min(rounds - done, kTile / cursor.lanes);
    const size_t got = all_kernels().front().alias_decode(merge.table, cursor, symbols, wanted);
    const size_t first = done * cursor.lanes, count = got * cursor.lanes;
    for (size_t i = 0; i < count; ++i) words[i] = values[symbols[i]];
    counted += occurrences(symbols, count, merge.counted);
    for (size_t k = 0; k < merge.field_count; ++k) add_field(merge.fields[k], merge.first + first, words, count);
    if (count != 0) std::memcpy(out + first * sizeof(Word), words, count * sizeof(Word));
    done += got;
    if (got < wanted) break;
  }
  return done;
}

template <class Word, class Field>
void take_field_typed(const Word* in, size_t count, unsigned shift, Field mask, Field* out) {
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<Field>(static_cast<Field>(in[i] >> shift) & mask);
}

void take_field(ConstWords in, unsigned shift, Words out) {
  visit_lane(in.width, [&]<class Word>(Word) {
    visit_lane(out.width, [&]<class Field>(Field) {
      if constexpr (sizeof(Field) <= sizeof(Word))
        take_field_typed(in.as<Word>().data(), in.count, shift, static_cast<Field>(low_mask(out.width)),
                         out.as<Field>().data());
    });
  });
}

void look_up(ConstWords in, unsigned shift, unsigned b, const uint8_t* table, uint8_t* out) {
  const uint64_t mask = low_mask(b);
  visit_lane(in.width, [&]<class Word>(Word) {
    const Word* const words = in.as<Word>().data();
    for (size_t i = 0; i < in.count; ++i) out[i] = table[words[i] >> shift & mask];
  });
}

}  // namespace

void fill_scalar_merge(Kernels& table) {
  table.take_field = take_field;
  table.look_up = look_up;
  table.merge_alias[0] = merge_alias<uint8_t>;
  table.merge_alias[1] = merge_alias<uint16_t>;
  table.merge_alias[2] = merge_alias<uint32_t>;
}

}  // namespace brevis::bits
