// SPDX-License-Identifier: Apache-2.0
//
// alias: rANS over at most 64 symbols whose slots are laid out by Walker's alias method. The usual table from slot to
// symbol has 4,096 entries and lives in memory. Here the 4,096 slots are cut into N equal buckets and each bucket
// belongs to at most two symbols, one up to a threshold and one from there on: N entries say all, few enough to
// live in vector registers, so that a vector decoder looks symbols up by permutes instead of gathers.
// That the slots of a symbol are scattered costs rANS nothing: it needs a numbering of each symbol's slots (the rank),
// not that they touch.
//
// Scalar kernels of many lanes spread the buckets out to all slots again, since they prefer one load to three.
#include <array>
#include <memory>
#include <mutex>
#include <string>

#include "bits/bit_io.h"
#include "bits/kernels.h"
#include "bits/log2.h"
#include "codec/alias.h"
#include "codec/frequencies.h"
#include "codec/lanes.h"

namespace brevis::codec {
namespace {

constexpr unsigned kScaleBits = bits::AliasDecoder::kScaleBits;
constexpr uint32_t kScale = 1u << kScaleBits;
constexpr unsigned kMaxWidth = 6, kMaxSymbols = 64;

constexpr unsigned log_buckets_for(unsigned width) { return width <= 4 ? 4 : width; }

using Frequencies = std::array<uint32_t, kMaxSymbols>;

class AliasTable final : public Table {
 public:
  AliasTable(const Frequencies& frequencies, unsigned log_buckets)
      : frequencies_(frequencies), log_buckets_(log_buckets) {
    share_buckets();
    number_slots();
    fill_planes();
  }

  uint32_t frequency(uint64_t symbol) const { return symbol < kMaxSymbols ? frequencies_[symbol] : 0; }

  bits::AliasDecoder decoder() const {
    if (!bits::kernels().wants_slots) return {log_buckets_, nullptr, &planes_};
    std::call_once(slots_once_, [this] { fill_slots(); });
    return {log_buckets_, slots_.get(), &planes_};
  }

  bits::AliasEncoder encoder() const {
    std::call_once(encoder_once_, [this] { fill_encoder(); });
    return {encoder_->symbols.data(), encoder_->slot_of.data()};
  }

 private:
  struct Encoder {
    std::array<bits::RansSymbol, kMaxSymbols> symbols{};
    std::array<uint16_t, kScale + 1> slot_of;  // kernels may read the one more
  };

  unsigned buckets() const { return 1u << log_buckets_; }
  unsigned bucket_slots() const { return kScale >> log_buckets_; }

  // Walker's method: a symbol with less than a bucket's slots takes what it needs of its own bucket and leaves the rest
  // to a symbol that has more than its own bucket holds. The order, which the format fixes: both kinds are stacks,
  // filled by ascending symbol, and the tops meet.
  void share_buckets() {
    const unsigned n = buckets(), size = bucket_slots();
    std::array<uint32_t, kMaxSymbols> left = frequencies_;
    std::array<uint8_t, kMaxSymbols> small, large;
    unsigned smalls = 0, larges = 0;
    for (unsigned s = 0; s < n; ++s) {
      symbol_[0][s] = symbol_[1][s] = static_cast<uint8_t>(s);
      threshold_[s] = static_cast<uint16_t>((s + 1) * size);
      if (left[s] < size)
        small[smalls++] = static_cast<uint8_t>(s);
      else
        large[larges++] = static_cast<uint8_t>(s);
    }
    while (smalls != 0) {  // then there is a large one too: on average a symbol has exactly a bucket
      const uint8_t s = small[--smalls], l = large[larges - 1];
      threshold_[s] = static_cast<uint16_t>(s * size + left[s]);
      symbol_[1][s] = l;
      left[l] -= size - left[s];
      if (left[l] < size) {
        --larges;
        small[smalls++] = l;
      }
    }
  }

  // Ranks count a symbol's slots upwards.
  void number_slots() {
    std::array<uint32_t, kMaxSymbols> used{};
    for (unsigned b = 0; b < buckets(); ++b) {
      const uint32_t from[3] = {b * bucket_slots(), threshold_[b], (b + 1) * bucket_slots()};
      for (unsigned side = 0; side < 2; ++side) {
        const unsigned s = symbol_[side][b];
        offset_[side][b] = static_cast<uint16_t>((from[side] - used[s]) % kScale);
        used[s] += from[side + 1] - from[side];
      }
    }
  }

  void fill_planes() {
    for (unsigned at = 0; at < 64; ++at) {
      const unsigned b = at >> (6 - log_buckets_);
      planes_.threshold[at] = static_cast<uint8_t>(threshold_[b]);
      for (unsigned side = 0; side < 2; ++side) {
        const uint32_t symbol = symbol_[side][b];
        planes_.entry[side][at] = offset_[side][b] | symbol << 12 | frequencies_[symbol] << 20;
        planes_.symbol[side][at] = static_cast<uint8_t>(symbol);
        for (unsigned byte = 0; byte < 2; ++byte)
          planes_.offset[side][byte][at] = static_cast<uint8_t>(offset_[side][b] >> 8 * byte);
      }
      for (unsigned byte = 0; byte < 2; ++byte)
        planes_.frequency[byte][at] = static_cast<uint8_t>(frequencies_[at] << 4 >> 8 * byte);
    }
  }

  template <class F>
  void for_each_slot(F&& f) const {
    for (uint32_t slot = 0; slot < kScale; ++slot) {
      const uint32_t b = slot / bucket_slots(), side = slot >= threshold_[b];
      f(slot, symbol_[side][b], (slot - offset_[side][b]) % kScale);
    }
  }

  void fill_slots() const {
    slots_ = std::make_unique_for_overwrite<uint32_t[]>(kScale);
    for_each_slot([&](uint32_t slot, uint32_t symbol, uint32_t rank) {
      slots_[slot] = frequencies_[symbol] | rank << 12 | symbol << 24;
    });
  }

  void fill_encoder() const {
    encoder_ = std::make_unique<Encoder>();
    uint32_t start = 0;
    for (unsigned s = 0; s < kMaxSymbols; start += frequencies_[s++])
      if (frequencies_[s] != 0) encoder_->symbols[s] = rans_symbol(frequencies_[s], start, kScaleBits);
    for_each_slot([&](uint32_t slot, uint32_t symbol, uint32_t rank) {
      encoder_->slot_of[encoder_->symbols[symbol].start + rank] = static_cast<uint16_t>(slot);
    });
  }

  Frequencies frequencies_;
  unsigned log_buckets_;
  std::array<uint16_t, 64> threshold_{};  // by bucket; the two next by side and bucket
  std::array<std::array<uint16_t, 64>, 2> offset_{};
  std::array<std::array<uint8_t, 64>, 2> symbol_{};
  bits::AliasPlanes planes_;
  // What one side alone needs is made when it is first needed: archives may have many tables.
  mutable std::once_flag slots_once_, encoder_once_;
  mutable std::unique_ptr<uint32_t[]> slots_;
  mutable std::unique_ptr<Encoder> encoder_;
};

const AliasTable& own(const Table* table) { return *static_cast<const AliasTable*>(table); }

bool accepts(unsigned width) { return width >= 1 && width <= kMaxWidth; }

Result<TablePtr> load(ByteSpan stored, unsigned width) {
  auto corrupt = [](const std::string& why) { return make_error(Errc::corrupt, "alias table: " + why); };
  if (!accepts(width)) return corrupt("words of " + std::to_string(width) + " bits");
  bits::BitReader reader(stored);
  bits::StepReader steps;
  Frequencies frequencies{};
  uint32_t sum = 0;
  for (unsigned s = 0; s < 1u << width && sum < kScale; ++s) {
    frequencies[s] = static_cast<uint32_t>(steps.get(reader, kScale - 1));
    sum += frequencies[s];
  }
  if (sum != kScale) return corrupt("its frequencies sum to " + std::to_string(sum) + ", not 4096");
  if (!reader.finished()) return corrupt("it does not end where its frequencies do");
  return TablePtr(std::make_shared<AliasTable>(frequencies, log_buckets_for(width)));
}

Status decode(const Table* table, ByteSpan payload, bits::Words out) {
  if (out.count == 0)
    return payload.empty() ? Status{} : make_error(Errc::corrupt, "alias payload: bytes but no words");
  LaneReader reader;
  BREVIS_TRY(reader.open(payload, out.count));
  return finish_alias(own(table).decoder(), reader, out, 0);
}

Result<ByteVector> train(const Histogram& histogram) {
  if (!accepts(histogram.width) || histogram.counts.size() < 2 ||
      histogram.counts.back().first > bits::low_mask(histogram.width))
    return make_error(Errc::not_found, "alias needs 2 to 64 different words of at most 6 bits");
  std::vector<uint64_t> counts;
  for (const auto& [word, count] : histogram.counts) counts.push_back(count);
  const std::vector<uint32_t> frequencies = normalise(counts, kScaleBits);
  ByteVector stored;
  bits::BitWriter writer(stored);
  bits::StepWriter steps;
  uint64_t next = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    for (; next < histogram.counts[i].first; ++next) steps.put(writer, 0);
    steps.put(writer, frequencies[i]);
    ++next;
  }
  writer.finish();
  return stored;
}

Status encode(const Table* table, bits::ConstWords in, ByteVector& out) {
  if (in.count == 0) return {};
  const bits::AliasEncoder encoder = own(table).encoder();
  const bool coded = write_lanes(in.count, out, [&](unsigned lanes, uint32_t* states, uint16_t* words_end) {
    return bits::kernels().alias_encode(encoder, lanes, states, in.data, in.count, words_end);
  });
  if (!coded) return make_error(Errc::invalid_argument, "the alias table lacks a word of the stream");
  return {};
}

uint64_t estimate(const Table* table, const Histogram& histogram) {
  uint64_t cost = 0;
  for (const auto& [word, count] : histogram.counts) {
    const uint32_t frequency = own(table).frequency(word);
    if (frequency == 0) return UINT64_MAX;
    cost += count * cost_of(frequency, kScaleBits);
  }
  return cost >> (bits::kLog2Bits - 8);
}

}  // namespace

bits::AliasDecoder alias_decoder(const Table* table) { return own(table).decoder(); }

Status finish_alias(const bits::AliasDecoder& decoder, LaneReader& reader, bits::Words out, size_t done) {
  const auto kernel = bits::kernels().alias_decode;
  const size_t lanes = reader.cursor().lanes;
  done += lanes * kernel(decoder, reader.cursor(), out.data + done, (out.count - done) / lanes);
  reader.pad();
  done += lanes * kernel(decoder, reader.cursor(), out.data + done, (out.count - done) / lanes);
  return reader.finish(done, out.count,
                       [&](size_t i, uint32_t& state) { out.data[i] = bits::alias_take(*decoder.planes, state); });
}

const CodecSpec alias_codec = {.id = CodecId::alias,
                               .name = "alias",
                               .since = 1,
                               .needs_table = true,
                               .accepts = accepts,
                               .load = load,
                               .decode = decode,
                               .train = train,
                               .encode = encode,
                               .estimate = estimate};

}  // namespace brevis::codec
