// SPDX-License-Identifier: Apache-2.0
//
// rans: interleaved rANS over any words of which at most 65,536 are different. The table lists the words and their
// frequencies; decoding looks slots up in memory, whose size (2^scale bits) is kept as small as the loss allows.
#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <string>

#include "bits/bit_io.h"
#include "bits/kernels.h"
#include "bits/log2.h"
#include "codec/codec.h"
#include "codec/frequencies.h"
#include "codec/lanes.h"

namespace brevis::codec {
namespace {

constexpr unsigned kMinScaleBits = 12, kMaxScaleBits = 16;
constexpr size_t kMaxWords = size_t{1} << 16;

// Distinct words, ascending, and their frequencies of sum 2^scale_bits.
struct Alphabet {
  unsigned scale_bits;
  std::vector<uint64_t> words;
  std::vector<uint32_t> frequencies;
};

// From a word to its place in the alphabet: a direct table for words of up to 16 bits, otherwise open addressing, at
// most half full.
class WordIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Keeps a reference to `words`.
  WordIndex(const std::vector<uint64_t>& words, unsigned width)
      : words_(words),
        shift_(63 - static_cast<unsigned>(std::bit_width(words.size()))),
        direct_(width <= 16),
        places_(size_t{1} << (direct_ ? width : 64 - shift_), kNone) {
    for (uint32_t i = 0; i < words.size(); ++i) places_[direct_ ? words[i] : cell_of(words[i])] = i;
  }

  // Places of all words; false when one is not in the alphabet.
  template <class T>
  bool find(std::span<const T> words, uint16_t* places) const {
    if (!direct_) {
      for (const T word : words) {
        const uint32_t place = places_[cell_of(word)];
        if (place == kNone) return false;
        *places++ = static_cast<uint16_t>(place);
      }
      return true;
    }
    uint32_t highest = 0;
    for (const T word : words) {
      const uint32_t place = places_[word];
      highest = std::max(highest, place);
      *places++ = static_cast<uint16_t>(place);
    }
    return highest != kNone;
  }

 private:
  size_t cell_of(uint64_t word) const {
    size_t at = word * 0x9e3779b97f4a7c15 >> shift_;
    while (places_[at] != kNone && words_[places_[at]] != word) at = (at + 1) & (places_.size() - 1);
    return at;
  }

  const std::vector<uint64_t>& words_;
  unsigned shift_;
  bool direct_;
  std::vector<uint32_t> places_;
};

class RansTable final : public Table {
 public:
  RansTable(Alphabet alphabet, unsigned width) : alphabet_(std::move(alphabet)), width_(width) {}

  unsigned scale_bits() const { return alphabet_.scale_bits; }

  // 0 for words that are not in the table.
  uint32_t frequency(uint64_t word) const {
    const auto at = std::lower_bound(alphabet_.words.begin(), alphabet_.words.end(), word);
    if (at == alphabet_.words.end() || *at != word) return 0;
    return alphabet_.frequencies[static_cast<size_t>(at - alphabet_.words.begin())];
  }

  bits::RansDecoder decoder() const {
    std::call_once(decoder_once_, [this] { fill_decoder(); });
    return {alphabet_.scale_bits, slots_.data(), slot_words_.view().data};
  }

  // Places in the alphabet of the stream's words; false when one is missing.
  bool places_of(bits::ConstWords in, uint16_t* places) const {
    std::call_once(encoder_once_, [this] { fill_encoder(); });
    return bits::visit_lane(in.width, [&]<class T>(T) { return index_->find<T>(in.as<T>(), places); });
  }

  // After places_of.
  bits::RansEncoder encoder() const { return {alphabet_.scale_bits, symbols_.data()}; }

 private:
  void fill_decoder() const {
    const size_t scale = size_t{1} << alphabet_.scale_bits;
    slots_.resize(scale);
    slot_words_ = bits::OwnedWords(width_, scale + 3);  // kernels may read beyond
    const bits::Words words = slot_words_.words();
    size_t slot = 0;
    for (size_t i = 0; i < alphabet_.words.size(); ++i)
      for (uint32_t rank = 0; rank < alphabet_.frequencies[i]; ++rank, ++slot) {
        slots_[slot] = alphabet_.frequencies[i] | rank << 16;
        words.set(slot, alphabet_.words[i]);
      }
  }

  void fill_encoder() const {
    index_ = std::make_unique<WordIndex>(alphabet_.words, width_);
    uint32_t start = 0;
    for (const uint32_t frequency : alphabet_.frequencies) {
      symbols_.push_back(rans_symbol(frequency, start, alphabet_.scale_bits));
      start += frequency;
    }
  }

  Alphabet alphabet_;
  unsigned width_;
  // What one side alone needs is made when it is first needed.
  mutable std::once_flag decoder_once_, encoder_once_;
  mutable std::vector<uint32_t> slots_;
  mutable bits::OwnedWords slot_words_;
  mutable std::unique_ptr<WordIndex> index_;
  mutable std::vector<bits::RansSymbol> symbols_;
};

const RansTable& own(const Table* table) { return *static_cast<const RansTable*>(table); }

bool accepts(unsigned width) { return width >= 1 && width <= 64; }

Result<TablePtr> load(ByteSpan stored, unsigned width) {
  auto corrupt = [](const std::string& why) { return make_error(Errc::corrupt, "rans table: " + why); };
  if (!accepts(width)) return corrupt("words of " + std::to_string(width) + " bits");
  if (stored.empty()) return corrupt("it is empty");
  Alphabet alphabet{stored[0], {}, {}};
  if (alphabet.scale_bits < kMinScaleBits || alphabet.scale_bits > kMaxScaleBits)
    return corrupt(std::to_string(stored[0]) + " scale bits, not 12 to 16");
  const uint32_t scale = 1u << alphabet.scale_bits;
  bits::BitReader reader(stored.subspan(1));
  bits::StepReader gaps, steps;
  uint64_t next = 0;     // the least word that may come
  bool any_left = true;  // whether there is one
  uint32_t sum = 0;
  while (sum < scale) {
    if (!any_left) return corrupt("words beyond the last of " + std::to_string(width) + " bits");
    const uint64_t word = next + gaps.get(reader, bits::low_mask(width) - next);
    const uint64_t frequency = steps.get(reader, std::min(scale - sum, scale - 1));
    if (!reader.ok() || frequency == 0)
      return corrupt("impossible at word number " + std::to_string(alphabet.words.size()));
    alphabet.words.push_back(word);
    alphabet.frequencies.push_back(static_cast<uint32_t>(frequency));
    sum += static_cast<uint32_t>(frequency);
    any_left = word != bits::low_mask(width);
    next = word + 1;
  }
  if (!reader.finished()) return corrupt("it does not end where its frequencies do");
  return TablePtr(std::make_shared<RansTable>(std::move(alphabet), width));
}

ByteVector store(const Alphabet& alphabet) {
  ByteVector stored = {static_cast<uint8_t>(alphabet.scale_bits)};
  bits::BitWriter writer(stored);
  bits::StepWriter gaps, steps;
  uint64_t next = 0;
  for (size_t i = 0; i < alphabet.words.size(); ++i) {
    gaps.put(writer, alphabet.words[i] - next);
    steps.put(writer, alphabet.frequencies[i]);
    next = alphabet.words[i] + 1;
  }
  writer.finish();
  return stored;
}

// The least scale whose table and payload together are within 1/1024 of the best one's.
Result<ByteVector> train(const Histogram& histogram) {
  if (!accepts(histogram.width) || histogram.counts.size() < 2 || histogram.counts.size() > kMaxWords)
    return make_error(Errc::not_found, "rans needs 2 to 65536 different words");
  Alphabet alphabet;
  std::vector<uint64_t> counts;
  for (const auto& [word, count] : histogram.counts) {
    alphabet.words.push_back(word);
    counts.push_back(count);
  }
  std::array<ByteVector, kMaxScaleBits + 1> stored;
  std::array<uint64_t, kMaxScaleBits + 1> bytes;
  bytes.fill(UINT64_MAX);
  for (unsigned scale_bits = kMinScaleBits; scale_bits <= kMaxScaleBits; ++scale_bits) {
    if (counts.size() > size_t{1} << scale_bits) continue;
    alphabet.scale_bits = scale_bits;
    alphabet.frequencies = normalise(counts, scale_bits);
    stored[scale_bits] = store(alphabet);
    uint64_t cost = 0;
    for (size_t i = 0; i < counts.size(); ++i) cost += counts[i] * cost_of(alphabet.frequencies[i], scale_bits);
    bytes[scale_bits] = stored[scale_bits].size() + (cost >> (bits::kLog2Bits + 3));
  }
  const uint64_t least = *std::min_element(bytes.begin(), bytes.end());
  for (unsigned scale_bits = kMinScaleBits;; ++scale_bits)
    if (bytes[scale_bits] <= least + least / 1024) return std::move(stored[scale_bits]);
}

Status decode(const Table* table, ByteSpan payload, bits::Words out) {
  if (out.count == 0) return payload.empty() ? Status{} : make_error(Errc::corrupt, "rans payload: bytes but no words");
  LaneReader reader;
  BREVIS_TRY(reader.open(payload, out.count));
  const bits::RansDecoder decoder = own(table).decoder();
  const auto kernel = bits::kernels().rans_decode;
  const size_t lanes = reader.cursor().lanes;
  const auto rest_after = [&](size_t done) { return out.part(done, (out.count - done) / lanes * lanes); };
  size_t done = lanes * kernel(decoder, reader.cursor(), rest_after(0), out.count / lanes);
  reader.pad();
  done += lanes * kernel(decoder, reader.cursor(), rest_after(done), (out.count - done) / lanes);
  const uint32_t mask = (1u << decoder.scale_bits) - 1;
  return bits::visit_lane(out.width, [&]<class T>(T) {
    return reader.finish(done, out.count, [&](size_t i, uint32_t& state) {
      const uint32_t slot = state & mask, entry = decoder.slots[slot];
      state = (entry & 0xffff) * (state >> decoder.scale_bits) + (entry >> 16);
      out.as<T>()[i] = static_cast<const T*>(decoder.words)[slot];
    });
  });
}

Status encode(const Table* table, bits::ConstWords in, ByteVector& out) {
  if (in.count == 0) return {};
  const auto places = std::make_unique_for_overwrite<uint16_t[]>(in.count);
  if (!own(table).places_of(in, places.get()))
    return make_error(Errc::invalid_argument, "the rans table lacks a word of the stream");
  const bits::RansEncoder encoder = own(table).encoder();
  write_lanes(in.count, out, [&](unsigned lanes, uint32_t* states, uint16_t* words_end) {
    return bits::kernels().rans_encode(encoder, lanes, states, places.get(), in.count, words_end);
  });
  return {};
}

uint64_t estimate(const Table* table, const Histogram& histogram) {
  uint64_t cost = 0;
  for (const auto& [word, count] : histogram.counts) {
    const uint32_t frequency = own(table).frequency(word);
    if (frequency == 0) return UINT64_MAX;
    cost += count * cost_of(frequency, own(table).scale_bits());
  }
  return cost >> (bits::kLog2Bits - 8);
}

}  // namespace

const CodecSpec rans_codec = {.id = CodecId::rans,
                              .name = "rans",
                              .since = 1,
                              .needs_table = true,
                              .accepts = accepts,
                              .load = load,
                              .decode = decode,
                              .train = train,
                              .encode = encode,
                              .estimate = estimate};

}  // namespace brevis::codec
