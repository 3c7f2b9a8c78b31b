// SPDX-License-Identifier: Apache-2.0
//
// The inner loops that carry most bytes, behind one table of function pointers that is chosen once per process by CPU
// (or by BREVIS_CPU=scalar|avx2|avx512). The scalar functions define what each entry does; a faster variant lives in a
// file of its own (kernels_avx2.cc, ...), replaces the entries that it has in the table it is given, and must equal
// scalar for every input. Kernels never allocate and never fail: their callers have checked what they are given.
//
// Threads: the table is constant once chosen. Owns: nothing.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "bits/pick.h"
#include "bits/words.h"

namespace brevis::bits {

// Decoding state of interleaved rANS (docs/format.md, "Lanes"): 32-bit states and the 16-bit words yet to be read.
struct RansCursor {
  unsigned lanes;       // 1, 4, 16 or 64
  uint32_t* states;     // lanes of them, each at least 2^16
  const uint8_t* next;  // little-endian 16-bit words, unaligned
  const uint8_t* end;   // next + a multiple of 2

  size_t words_left() const { return static_cast<size_t>(end - next) / 2; }
};

// An alias table by buckets, small enough for registers or a few cache lines. The 4,096 slots stand in 16, 32 or 64
// equal buckets of two sides, with a symbol each; a bucket that has but one symbol has it on both. Arrays by bucket
// have 64 entries, those of fewer buckets several times in a row: entry slot >> 6 is always that of the slot.
struct alignas(64) AliasPlanes {
  uint32_t entry[2][64];     // by side and bucket: offset | symbol << 12 | frequency << 20; the same by bytes below
  uint8_t threshold[64];     // by bucket: its first slot of side 1, modulo 256
  uint8_t symbol[2][64];     // by side and bucket
  uint8_t offset[2][2][64];  // by side, byte (low first) and bucket: what to take off the slot, mod 4,096, for its rank
  uint8_t frequency[2][64];  // by byte and symbol: 16 times its frequency
};

// An alias table of 4,096 slots as decoders want it, in two equal forms.
struct AliasDecoder {
  static constexpr unsigned kScaleBits = 12;
  unsigned log_buckets;   // 4, 5 or 6; no symbol is above
  const uint32_t* slots;  // by slot: frequency | rank << 12 | symbol << 24; null where Kernels::wants_slots is false
  const AliasPlanes* planes;
};

// One step of decoding by buckets, the refill left to the caller: the symbol of the state's slot.
inline uint8_t alias_take(const AliasPlanes& planes, uint32_t& state) {
  const uint32_t x = state, bucket = x >> 6 & 63;
  const uint32_t entry =
      pick_below(x & 0xff, planes.threshold[bucket], planes.entry[0][bucket], planes.entry[1][bucket]);
  state = (entry >> 20) * (x >> AliasDecoder::kScaleBits) + ((x - entry) & 0xfff);
  return static_cast<uint8_t>(entry >> 12);
}

// A field of b bits that was packed, to be placed in words: field i << shift.
struct PackedField {
  const uint8_t* data;
  size_t bytes;  // at least what the fields of all words take
  unsigned b;    // 1 .. bits of the word's lane - 1
  unsigned shift;
};

// One of the payloads that are decoded side by side.
struct AliasStream {
  AliasDecoder table;
  RansCursor* cursor;
  uint8_t* out;
};
// Payloads of as many lanes, side by side, since one alone is a chain of dependent steps: 1 to `most` of them, kRounds
// rounds of each at a time, up to `rounds`, for as long as all of them have words for as many; gives the rounds done.
// Nothing is won by it where `most` is 0.
struct AliasSeveral {
  static constexpr size_t kMost = 8, kRounds = 4;
  size_t most;
  size_t (*decode)(const AliasStream* streams, size_t count, size_t rounds);
};

// Words made of one alias-coded field and others that are packed, from payloads to words in one go.
struct AliasMerge {
  static constexpr size_t kMaxFields = 4;
  AliasDecoder table;
  const uint32_t* values;  // 64: what a symbol stands for, at its place in the word
  unsigned counted;        // a symbol whose occurrences are counted, its value being no other's; 64 and more: none
  PackedField fields[kMaxFields];
  size_t field_count;
  size_t first;  // the word of the fields that the next symbol belongs to
};

// Words made of constants and fields, each packed or in lanes of its own.
struct FieldMerge {
  static constexpr size_t kMaxFields = 4;  // of a kind
  struct Lanes {
    ConstWords words;  // as many as are made
    unsigned shift;
  };
  uint64_t fixed;
  PackedField packed[kMaxFields];
  size_t packed_count;
  Lanes lanes[kMaxFields];
  size_t lane_count;

  // What is left of it after so many words, a multiple of 8.
  FieldMerge after(size_t words) const;
};

// One symbol's constants for encoding: x / frequency without a division, since
// floor(x / f) = floor(2x * ceil(2^63 / f) / 2^64) for x < 2^32, f < 2^16.
struct RansSymbol {
  uint64_t reciprocal;  // ceil(2^63 / frequency)
  uint32_t limit;       // states from here on give up 16 bits first: frequency << (32 - scale bits)
  uint16_t frequency;   // 0: the symbol cannot be coded
  uint16_t start;       // sum of the frequencies of all symbols before
};

struct AliasEncoder {
  const RansSymbol* symbols;  // 64, those with no frequency all zero
  const uint16_t* slot_of;    // 4,096: start + rank -> slot; one more can be read
};

// Slots are start + rank.
struct RansDecoder {
  unsigned scale_bits;    // 12..16
  const uint32_t* slots;  // by slot: frequency | rank << 16
  const void* words;      // by slot: the word, in the lane of its width; 3 bytes more can be read
};

struct RansEncoder {
  unsigned scale_bits;
  const RansSymbol* symbols;
};

// A prefix code: codes are read lowest bit first.
struct HuffmanDecoder {
  static constexpr unsigned kSymbolShift = 6;
  static constexpr unsigned kNarrowWidth = 16 - kSymbolShift;  // of symbols for which 16 bits are enough

  unsigned table_bits;   // the longest code, 1..12
  const void* entries;   // by the next table_bits bits: length | symbol << 6, in 16 or 32 bits
  unsigned entry_bytes;  // 2 or 4
};
// One of the streams that are decoded side by side.
struct HuffmanStream {
  const uint8_t* data;
  size_t bytes;
  size_t bit;    // where the next code starts
  size_t at;     // where the next symbol goes in the output
  size_t count;  // symbols to come
};

// A field of `bits` bits from `shift` on that move_field() moves, up or back.
struct FieldMove {
  unsigned shift;
  unsigned bits;
  bool back;
};

// Streams that deal() takes words from, whole lanes each: the next word, and where they end.
struct DealHands {
  static constexpr size_t kHands = 4;
  std::array<const uint8_t*, kHands> next, end;
};

constexpr unsigned kTopLevel = 63;

// Levels beside the words to be classed, how often each counts, what all have in common, and where classes begin.
struct LevelSums {
  static constexpr size_t kMaxTerms = 4;
  size_t terms;
  const uint8_t* levels[kMaxTerms];
  uint16_t weights[kMaxTerms];
  uint16_t always;
  uint16_t begins[DealHands::kHands - 1];
};

// Words whose classes follow from the levels of words at least kNearest before them.
struct LevelJoin {
  static constexpr size_t kNearest = 32;
  LevelSums sums;  // of the words, at most 1,008; some of their levels are those of words joined before
  uint8_t* own;    // where the levels of the words go, as levels() gives them
  unsigned shift;
  uint64_t mask, low;
};

enum class Combine : uint8_t;  // combine.h

// What scale_levels rounds to.
enum class ScaledFloat : uint8_t { f32, bf16, f16 };
constexpr size_t kScaledLevels = 512;
constexpr int kZeroLevel = 256, kNegativeZeroLevel = 1;  // of integers

constexpr size_t kSymbolSlack = 64;
constexpr unsigned kTermSumBits = 20;  // of a term, the number of words above

struct Kernels {
  std::string_view name;     // "scalar", "avx2", "avx512", "neon"
  std::string_view flavour;  // what tells it from the table of that name before it; empty for the first
  std::string full_name() const {
    return flavour.empty() ? std::string(name) : std::string(name) + "-" + std::string(flavour);
  }
  bool wants_slots;  // alias_decode and merge_alias need AliasDecoder::slots

  // The bitwise or of all words.
  uint64_t (*any_bits)(ConstWords in);
  // in.count fields of b bits, lowest bit first, little-endian, padded with zeros to (count * b + 7) / 8 bytes;
  // 1 <= b <= in.width. Words have no bits above b.
  void (*pack)(ConstWords in, unsigned b, uint8_t* out);
  // The inverse; `in` has exactly those bytes. Padding is not looked at.
  void (*unpack)(const uint8_t* in, unsigned b, Words out);

  // A field of each word: out[i] = in[i] >> shift, cut to out.width, which is at most in.width.
  void (*take_field)(ConstWords in, unsigned shift, Words out);
  // pack() of a field of each word: b bits from `shift` on, shift + b <= in.width.
  void (*pack_field)(ConstWords in, unsigned shift, unsigned b, uint8_t* out);
  // What a table of 2^b bytes has for a field of b <= 16 bits; three bytes beyond the table can be read.
  void (*look_up)(ConstWords in, unsigned shift, unsigned b, const uint8_t* table, uint8_t* out);

  // Adds floor((steps[i] + base) / 4) to the field of word i (takes it off where `back`), modulo 2^bits; the other bits
  // stay. steps[i] + base fits 16 bits; shift + bits <= words.width.
  void (*move_field)(Words words, const FieldMove& field, const int16_t* steps, int16_t base);

  // A field in quarters of its unit: it and the two bits below it, which are zero where there are none; bits <= 12.
  void (*quarters)(ConstWords in, unsigned shift, unsigned bits, uint16_t* out);
  // What a word of so many quarters adds to the sums of its places: nothing below 4, else 1 << kTermSumBits and its
  // distance from the middle, cut off at `cut` either way, plus `cut`. Quarters are below 2^14.
  void (*quarter_terms)(const uint16_t* in, size_t count, int16_t middle, int16_t cut, uint32_t* out);
  void (*add_terms)(uint32_t* sums, const uint32_t* terms, size_t count);
  uint32_t (*sum_terms)(const uint32_t* terms, size_t count);
  void (*add_levels)(uint16_t* sums, const uint8_t* levels, uint16_t weight, size_t count);

  // Word i is the next one of stream classes[i], which is below kHands; at most 65,535 words, of which each stream has
  // enough. Streams and words are aligned.
  void (*deal)(const uint8_t* classes, DealHands& hands, Words out);
  // The inverse: the next word of stream classes[i] is in[i]. At most 65,535 words; writes no more than there are.
  void (*split)(const uint8_t* classes, ConstWords in, const std::array<uint8_t*, DealHands::kHands>& out);

  // How many of three fields, ascending, are at most the field (in[i] >> shift) & mask of each word; aligned words.
  void (*classify)(ConstWords in, unsigned shift, uint64_t mask, const uint32_t* begins, uint8_t* out);
  // By how much the field (in[i] >> shift) & mask of each word is above `low`, 0 where it is not, at most kTopLevel;
  // aligned words.
  void (*levels)(ConstWords in, unsigned shift, uint64_t mask, uint64_t low, uint8_t* out);
  // How many of begins, ascending, are at most `always` plus the levels[k][i] times weights[k], which fits 16 bits.
  void (*sum_classes)(const LevelSums& sums, size_t count, uint8_t* out);
  // Does for whole streams of words of 1, 2 or 4 bytes (by log2 of that) what sum_classes, deal and levels do in turn
  // for stretches of kNearest words: word i is the next one of the stream of its class. False where a stream has fewer
  // words than its class. Null: going in turn is no slower.
  bool (*join_levels[3])(const LevelJoin& join, const DealHands& hands, uint8_t* out, size_t count);
  // How often each of 0 .. kHands - 1 occurs among so many bytes, all below kHands.
  void (*count_classes)(const uint8_t* classes, size_t count, size_t* counts);

  // Word i is levels[places[i]] * scales[i], rounded to F32, then to the type (by ScaledFloat), to the nearest with
  // ties to even. Of kScaledLevels levels, whatever the places. Products are zero or normal numbers of F32. Aligned
  // words.
  void (*scale_levels[3])(const uint16_t* places, const float* levels, const float* scales, void* out, size_t count);
  // The same with the integers places[i] - kZeroLevel for levels, and -0 at kNegativeZeroLevel; places below
  // kScaledLevels.
  void (*scale_integers[3])(const uint16_t* places, const float* scales, void* out, size_t count);

  // combine() of combine.h.
  void (*combine)(Combine f, bool folded, ConstWords p, ConstWords q, Words out);

  // Decodes rounds of cursor.lanes symbols each, symbol by symbol in lane order, for as long as at least `lanes` words
  // are left before a round (so that nothing needs checking inside it) and at most `rounds`; gives the rounds done.
  size_t (*alias_decode)(const AliasDecoder& table, RansCursor& cursor, uint8_t* out, size_t rounds);
  // What alias_decode does, of several payloads of 4 or of 16 lanes.
  AliasSeveral alias_fours, alias_sixteens;
  // The same for whole words of 1, 2 or 4 bytes (by log2 of that), also at unaligned places: values[symbol] or-ed with
  // the fields from merge.first on. `counted` grows by the occurrences of merge.counted. May stop earlier than
  // alias_decode would, and does so at once where going by way of symbols is no slower.
  size_t (*merge_alias[3])(const AliasMerge& merge, RansCursor& cursor, uint8_t* out, size_t rounds, size_t& counted);
  // The words of merge_alias from symbols that were decoded already, all below 64; kSymbolSlack bytes more can be read.
  void (*merge_symbols[3])(const AliasMerge& merge, const uint8_t* symbols, uint8_t* out, size_t count,
                           size_t& counted);
  // Words of 1, 2 or 4 bytes (by log2 of that), also at unaligned places, from their fields.
  void (*merge_fields[3])(const FieldMerge& merge, uint8_t* out, size_t count);
  // As alias_decode, over words of any width; out.count = rounds * lanes.
  size_t (*rans_decode)(const RansDecoder& table, RansCursor& cursor, Words out, size_t rounds);

  // Encodes in[count - 1] down to in[0], symbol i in lane i % lanes, from the states given. Writes the 16-bit words
  // below `words_end` (at most count of them), first to be read lowest, and gives the lowest; nullptr when a symbol
  // has no frequency (what was written is then meaningless).
  uint16_t* (*alias_encode)(const AliasEncoder& table, unsigned lanes, uint32_t* states, const uint8_t* in,
                            size_t count, uint16_t* words_end);
  // The same by symbol index. Every index has a frequency.
  uint16_t* (*rans_encode)(const RansEncoder& table, unsigned lanes, uint32_t* states, const uint16_t* in, size_t count,
                           uint16_t* words_end);

  // Decodes symbols of all streams into `out`, stopping short of the end of each stream's bytes, and moves bit, at and
  // count on; the caller decodes the rest, looking at every step. How far it goes is left to the kernel.
  void (*huffman_decode)(const HuffmanDecoder& table, std::span<HuffmanStream> streams, Words out);
};

inline FieldMerge FieldMerge::after(size_t words) const {
  FieldMerge rest = *this;
  for (size_t k = 0; k < packed_count; ++k) {
    const size_t bytes = words / 8 * packed[k].b;
    rest.packed[k].data += bytes;
    rest.packed[k].bytes -= bytes;
  }
  for (size_t k = 0; k < lane_count; ++k)
    rest.lanes[k].words = lanes[k].words.part(words, lanes[k].words.count - words);
  return rest;
}

// The table in use: kernels_for(BREVIS_CPU), settled by the first call.
const Kernels& kernels();
// The table of that name, the fastest for an empty name. Where this CPU or build cannot serve it the nearest lesser
// one, for unknown names the fastest, and a warning is logged.
const Kernels& kernels_for(std::string_view wish);
// Every table that this CPU can run, scalar first, of one name the best one last: for tests and benchmarks.
std::span<const Kernels> all_kernels();
// For tests and benchmarks: kernels() gives this one from now on.
void use_kernels(const Kernels& table);

// What kernels.cc puts together; only it and the variants need these. Each fills what its file has.
void fill_scalar_words(Kernels& table);
void fill_scalar_rans(Kernels& table);
void fill_scalar_merge(Kernels& table);
void fill_scalar_huffman(Kernels& table);
void fill_scalar_offset(Kernels& table);
void fill_scalar_fit(Kernels& table);
void fill_scalar_deal(Kernels& table);
void fill_scalar_classes(Kernels& table);
void fill_scalar_scale(Kernels& table);
void fill_scalar_combine(Kernels& table);
bool cpu_has_avx2();
void fill_avx2(Kernels& table);
void fill_avx2_words(Kernels& table);
void fill_avx2_offset(Kernels& table);
void fill_avx2_fit(Kernels& table);
void fill_avx2_several(Kernels& table);
void fill_avx2_join(Kernels& table);
void fill_avx2_classes(Kernels& table);
void fill_avx2_scale(Kernels& table);
void fill_avx2_combine(Kernels& table);
void fill_avx2_rans(Kernels& table);
void fill_avx2_huffman(Kernels& table);
void fill_avx2_encode(Kernels& table);
bool cpu_has_avx512();
void fill_avx512(Kernels& table);
void fill_avx512_words(Kernels& table);
void fill_avx512_offset(Kernels& table);
void fill_avx512_offset_rows(Kernels& table);
void fill_avx512_fit(Kernels& table);
void fill_avx512_deal(Kernels& table);
void fill_avx512_several(Kernels& table);
void fill_avx512_join(Kernels& table);
bool cpu_permutes_pairs();
void fill_avx512_pairs(Kernels& table);
void fill_avx512_pairs_several(Kernels& table);
void fill_avx512_classes(Kernels& table);
void fill_avx512_scale(Kernels& table);
void fill_avx512_combine(Kernels& table);
void fill_avx512_rans(Kernels& table);
void fill_avx512_symbols(Kernels& table);
void fill_neon(Kernels& table);

}  // namespace brevis::bits
