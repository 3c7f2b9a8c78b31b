// SPDX-License-Identifier: Apache-2.0
//
// Scalar kernels that go from payloads to words: tiles that stay in the first-level cache pass through symbols,
// unpacked fields and the words they make.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "bits/kernels.h"

namespace brevis::bits {
namespace {

constexpr size_t kTile = 1024;  // a multiple of any number of lanes
constexpr uint32_t kLowest = 1u << 16;

template <class T>
T load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class Word, class Field>
void or_field(Word* words, const Field* fields, size_t count, unsigned shift) {
  for (size_t i = 0; i < count; ++i) words[i] = static_cast<Word>(words[i] | static_cast<Word>(fields[i]) << shift);
}

// Fields of one bit, such as signs, whose first starts on a byte; gives the words done. A product spreads as many bits
// as words have place in 64 bits, four at most: copies of the bits, each a word less one bit further up, have bit i at
// the top of word i.
template <class Word>
size_t or_bits(Word* words, const uint8_t* bits, size_t count, unsigned shift) {
  constexpr unsigned kWidth = 8 * sizeof(Word), kGroup = sizeof(Word) == 4 ? 2 : 4;
  uint64_t copies = 0, tops = 0;
  for (unsigned i = 0; i < kGroup; ++i) {
    copies |= uint64_t{1} << ((i + 1) * (kWidth - 1));
    tops |= uint64_t{1} << ((i + 1) * kWidth - 1);
  }
  using Chunk = std::conditional_t<sizeof(Word) == 1, uint32_t, uint64_t>;
  size_t done = 0;
  for (; done + 8 <= count; done += 8) {
    for (unsigned i = 0; i < 8; i += kGroup) {
      const uint64_t some = bits[done / 8] >> i & low_mask(kGroup);
      Chunk chunk = load<Chunk>(words + done + i);
      chunk = static_cast<Chunk>(chunk | (some * copies & tops) >> (kWidth - 1 - shift));
      std::memcpy(words + done + i, &chunk, sizeof chunk);
    }
  }
  return done;
}

template <class Word>
void add_field(const PackedField& field, size_t first, Word* words, size_t count) {
  const size_t before = first % 8;  // unpacked in vain, so that the first field starts on a byte
  const uint8_t* const in = field.data + (first - before) / 8 * field.b;
  size_t done = 0;
  if (field.b == 1 && before == 0) done = or_bits(words, in, count, field.shift);
  alignas(8) uint8_t unpacked[(kTile + 8) * sizeof(Word)];
  all_kernels().front().unpack(in + done / 8 * field.b, field.b,
                               {unpacked, before + count - done, static_cast<uint8_t>(field.b)});
  visit_lane(field.b, [&]<class Field>(Field) {
    if constexpr (sizeof(Field) <= sizeof(Word))
      or_field(words + done, reinterpret_cast<const Field*>(unpacked) + before, count - done, field.shift);
  });
}

template <class Word>
size_t occurrences(const Word* words, size_t count, Word word) {
  static_assert(kTile <= 0xffff);
  uint16_t sum = 0;  // narrow, so that compilers count many at once
  for (size_t i = 0; i < count; ++i) sum = static_cast<uint16_t>(sum + (words[i] == word));
  return sum;
}

// As alias_decode, with a symbol's value in its place.
template <unsigned kLanes, class Word>
size_t decode_values(const uint32_t* slots, const Word* values, RansCursor& cursor, Word* out, size_t rounds) {
  uint32_t states[kLanes];
  std::copy_n(cursor.states, kLanes, states);
  const uint8_t* next = cursor.next;
  size_t round = 0;
  for (; round < rounds && cursor.end - next >= 2 * kLanes; ++round, out += kLanes) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      uint32_t x = states[lane];
      const uint32_t entry = slots[x & 0xfff];
      out[lane] = values[entry >> 24];
      x = (entry & 0xfff) * (x >> 12) + (entry >> 12 & 0xfff);
      const uint32_t taken = x << 16 | load<uint16_t>(next);
      next += 2 * static_cast<uint32_t>(x < kLowest);
      states[lane] = pick_below(x, kLowest, taken, x);
    }
  }
  std::copy_n(states, kLanes, cursor.states);
  cursor.next = next;
  return round;
}

template <class Word>
size_t merge_alias(const AliasMerge& merge, RansCursor& cursor, uint8_t* out, size_t rounds, size_t& counted) {
  if (cursor.lanes < 16 || merge.table.slots == nullptr) return 0;
  Word values[64], words[kTile];
  std::copy_n(merge.values, 64, values);
  const auto decode = cursor.lanes == 64 ? decode_values<64, Word> : decode_values<16, Word>;
  size_t done = 0;
  while (done < rounds) {
    const size_t wanted = std::min(rounds - done, kTile / cursor.lanes);
    const size_t got = decode(merge.table.slots, values, cursor, words, wanted);
    const size_t first = done * cursor.lanes, count = got * cursor.lanes;
    if (merge.counted < 64) counted += occurrences(words, count, values[merge.counted]);
    for (size_t k = 0; k < merge.field_count; ++k) add_field(merge.fields[k], merge.first + first, words, count);
    if (count != 0) std::memcpy(out + first * sizeof(Word), words, count * sizeof(Word));
    done += got;
    if (got < wanted) break;
  }
  return done;
}

template <class Word>
void merge_symbols(const AliasMerge& merge, const uint8_t* symbols, uint8_t* out, size_t count, size_t& counted) {
  Word values[64], words[kTile];
  std::copy_n(merge.values, 64, values);
  for (size_t first = 0; first < count; first += kTile) {
    const size_t some = std::min(count - first, kTile);
    for (size_t i = 0; i < some; ++i) words[i] = values[symbols[first + i]];
    if (merge.counted < 64) counted += occurrences(words, some, values[merge.counted]);
    for (size_t k = 0; k < merge.field_count; ++k) add_field(merge.fields[k], merge.first + first, words, some);
    std::memcpy(out + first * sizeof(Word), words, some * sizeof(Word));
  }
}

template <class Word>
void merge_fields(const FieldMerge& merge, uint8_t* out, size_t count) {
  Word words[kTile];
  for (size_t first = 0; first < count; first += kTile, out += sizeof words) {
    const size_t some = std::min(count - first, kTile);
    std::fill_n(words, some, static_cast<Word>(merge.fixed));
    for (size_t k = 0; k < merge.lane_count; ++k) {
      const ConstWords in = merge.lanes[k].words;  // no bindings: lambdas capture them only as of clang 16
      const unsigned shift = merge.lanes[k].shift;
      visit_lane(in.width, [&]<class Field>(Field) {
        if constexpr (sizeof(Field) <= sizeof(Word)) or_field(words, in.as<Field>().data() + first, some, shift);
      });
    }
    for (size_t k = 0; k < merge.packed_count; ++k) add_field(merge.packed[k], first, words, some);
    std::memcpy(out, words, some * sizeof(Word));
  }
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

void pack_field(ConstWords in, unsigned shift, unsigned b, uint8_t* out) {
  alignas(8) uint8_t lanes[kTile * 8];
  for (size_t i = 0; i < in.count; i += kTile) {
    const Words tile{lanes, std::min(kTile, in.count - i), static_cast<uint8_t>(b)};
    take_field(in.part(i, tile.count), shift, tile);
    all_kernels().front().pack(tile, b, out + i / 8 * b);
  }
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
  table.pack_field = pack_field;
  table.look_up = look_up;
  table.merge_fields[0] = merge_fields<uint8_t>;
  table.merge_fields[1] = merge_fields<uint16_t>;
  table.merge_fields[2] = merge_fields<uint32_t>;
  table.merge_alias[0] = merge_alias<uint8_t>;
  table.merge_alias[1] = merge_alias<uint16_t>;
  table.merge_alias[2] = merge_alias<uint32_t>;
  table.merge_symbols[0] = merge_symbols<uint8_t>;
  table.merge_symbols[1] = merge_symbols<uint16_t>;
  table.merge_symbols[2] = merge_symbols<uint32_t>;
}

}  // namespace brevis::bits
