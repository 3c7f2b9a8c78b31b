// SPDX-License-Identifier: Apache-2.0
//
// huffman: a canonical prefix code of at most 12 bits, the words cut into eight streams that are decoded side by side.
// It loses to alias what whole bits lose, and wins where there are no wide vectors to decode alias with.
//
// Code lengths come from package-merge, which finds the best code under a length limit: think of each symbol as a coin
// of value 2^-l for each length l up to the limit, costing its count; a code is a set of coins of sum n - 1, the length
// of a symbol is how many of its coins were taken. From the smallest value up, coins are paired into packages that
// compete with the coins of the next value.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>

#include "base/coding.h"
#include "bits/bit_io.h"
#include "bits/kernels.h"
#include "codec/codec.h"

namespace brevis::codec {
namespace {

constexpr unsigned kMaxWidth = 12, kMaxLength = 12;
constexpr uint32_t kFull = 1u << kMaxLength;  // sum of 2^(12 - length) over a complete code
constexpr size_t kStreams = 8;

// Eight streams cost about 20 bytes.
constexpr size_t streams_for(size_t count) { return count >= 16384 ? kStreams : 1; }

// Lengths of the best code for these counts (at least 2, at most 4,096 of them, all above 0).
std::vector<uint8_t> code_lengths(const std::vector<uint64_t>& counts) {
  const size_t n = counts.size();
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return counts[a] < counts[b]; });
  // By value of the coins, smallest first: which of the merged list are coins (the others are packages).
  std::array<std::vector<bool>, kMaxLength> is_coin;
  std::vector<uint64_t> packages, merged;
  for (auto& level : is_coin) {
    merged.clear();
    size_t coin = 0, package = 0;
    while (coin < n || package < packages.size()) {
      const bool take_coin = coin < n && (package == packages.size() || counts[order[coin]] <= packages[package]);
      merged.push_back(take_coin ? counts[order[coin++]] : packages[package++]);
      level.push_back(take_coin);
    }
    packages.clear();
    for (size_t i = 0; i + 1 < merged.size(); i += 2) packages.push_back(merged[i] + merged[i + 1]);
  }
  std::vector<uint8_t> lengths(n, 0);
  size_t take = 2 * n - 2;
  for (size_t level = kMaxLength; level-- > 0;) {
    size_t coins = 0;
    for (size_t i = 0; i < take; ++i) coins += is_coin[level][i];
    for (size_t i = 0; i < coins; ++i) ++lengths[order[i]];
    take = 2 * (take - coins);
  }
  return lengths;
}

struct Code {
  uint16_t bits;  // first bit lowest
  uint16_t length;
};

class HuffmanTable final : public Table {
 public:
  // lengths by symbol, 0 for those without a code; a complete code.
  explicit HuffmanTable(std::vector<uint8_t> lengths) : codes_(lengths.size()) {
    // Codes ascend with length, then with symbol, their first bit the highest.
    uint32_t next = 0;
    for (unsigned length = 1; length <= kMaxLength; ++length, next <<= 1)
      for (size_t s = 0; s < lengths.size(); ++s) {
        if (lengths[s] != length) continue;
        codes_[s] = {reversed(next++, length), static_cast<uint16_t>(length)};
        longest_ = length;
      }
  }

  const Code* codes() const { return codes_.data(); }
  size_t symbols() const { return codes_.size(); }
  unsigned length(uint64_t symbol) const { return symbol < codes_.size() ? codes_[symbol].length : 0; }

  bits::HuffmanDecoder decoder() const {
    std::call_once(entries_once_, [this] { fill_entries(); });
    return {longest_, entries_.get(), entry_bytes()};
  }

 private:
  static uint16_t reversed(uint32_t code, unsigned length) {
    uint32_t result = 0;
    for (unsigned i = 0; i < length; ++i) result |= (code >> i & 1) << (length - 1 - i);
    return static_cast<uint16_t>(result);
  }

  unsigned entry_bytes() const { return codes_.size() <= size_t{1} << bits::HuffmanDecoder::kNarrowWidth ? 2 : 4; }

  void fill_entries() const {
    entries_ = std::make_unique_for_overwrite<uint8_t[]>(entry_bytes() << longest_);  // a complete code fills it
    if (entry_bytes() == 2)
      fill_entries(reinterpret_cast<uint16_t*>(entries_.get()));
    else
      fill_entries(reinterpret_cast<uint32_t*>(entries_.get()));
  }
  template <class Entry>
  void fill_entries(Entry* entries) const {
    const size_t size = size_t{1} << longest_;
    for (size_t s = 0; s < codes_.size(); ++s) {
      const auto [bits, length] = codes_[s];
      if (length == 0) continue;
      const auto entry = static_cast<Entry>(s << bits::HuffmanDecoder::kSymbolShift | length);
      for (size_t at = bits; at < size; at += size_t{1} << length) entries[at] = entry;
    }
  }

  std::vector<Code> codes_;
  unsigned longest_ = 0;
  mutable std::once_flag entries_once_;  // made when first needed: packing does without
  mutable std::unique_ptr<uint8_t[]> entries_;
};

const HuffmanTable& own(const Table* table) { return *static_cast<const HuffmanTable*>(table); }

bool accepts(unsigned width) { return width >= 1 && width <= kMaxWidth; }

Result<TablePtr> load(ByteSpan stored, unsigned width) {
  auto corrupt = [](const std::string& why) { return make_error(Errc::corrupt, "huffman table: " + why); };
  if (!accepts(width)) return corrupt("words of " + std::to_string(width) + " bits");
  std::vector<uint8_t> lengths(size_t{1} << width, 0);
  bits::BitReader reader(stored);
  bits::StepReader gaps, steps;
  uint64_t next = 0;
  uint32_t sum = 0;
  while (sum < kFull) {
    if (next == lengths.size()) return corrupt("its code is not complete");
    const uint64_t symbol = next + gaps.get(reader, lengths.size() - 1 - next);
    const unsigned length = steps.get_size(reader, kMaxLength);
    if (!reader.ok() || length == 0) return corrupt("impossible after symbol " + std::to_string(next));
    lengths[symbol] = static_cast<uint8_t>(length);
    sum += kFull >> length;
    next = symbol + 1;
  }
  if (sum != kFull) return corrupt("more codes than there can be");
  if (!reader.finished()) return corrupt("it does not end where its code is complete");
  return TablePtr(std::make_shared<HuffmanTable>(std::move(lengths)));
}

Result<ByteVector> train(const Histogram& histogram) {
  if (!accepts(histogram.width) || histogram.counts.size() < 2 ||
      histogram.counts.back().first > bits::low_mask(histogram.width))
    return make_error(Errc::not_found, "huffman needs 2 or more different words of at most 12 bits");
  // Sums of counts below 2^58 leave room for twelve levels of packages.
  const int shift = std::max(0, static_cast<int>(std::bit_width(histogram.total())) - 58);
  std::vector<uint64_t> counts;
  for (const auto& [word, count] : histogram.counts) counts.push_back(std::max<uint64_t>(1, count >> shift));
  const std::vector<uint8_t> lengths = code_lengths(counts);
  ByteVector stored;
  bits::BitWriter writer(stored);
  bits::StepWriter gaps, steps;
  uint64_t next = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const uint64_t symbol = histogram.counts[i].first;
    gaps.put(writer, symbol - next);
    steps.put_size(writer, lengths[i]);
    next = symbol + 1;
  }
  writer.finish();
  return stored;
}

Error corrupt_payload(const std::string& why) { return make_error(Errc::corrupt, "huffman payload: " + why); }

// Words first .. first + count - 1 of a payload's stream number `number`.
constexpr Range part_of(size_t number, size_t streams, size_t count) {
  const size_t each = (count + streams - 1) / streams, first = std::min(number * each, count);
  return {first, std::min(each, count - first)};
}

// What the kernel left of a stream, and whether the stream ends with it.
template <class T, class Entry>
Status finish(unsigned table_bits, const Entry* entries, bits::HuffmanStream stream, T* out) {
  const size_t end = 8 * stream.bytes, mask = (size_t{1} << table_bits) - 1;
  for (; stream.count != 0; --stream.count) {
    const size_t byte = stream.bit / 8;
    uint32_t window = 0;
    for (size_t i = byte; i < std::min(byte + 3, stream.bytes); ++i)
      window |= uint32_t{stream.data[i]} << 8 * (i - byte);
    const size_t entry = entries[window >> stream.bit % 8 & mask];
    out[stream.at++] = static_cast<T>(entry >> bits::HuffmanDecoder::kSymbolShift);
    stream.bit += entry % 64;
    if (stream.bit > end) return corrupt_payload("a stream ends inside a code");
  }
  if (end - stream.bit >= 8) return corrupt_payload("bytes are left over in a stream");
  if (end != stream.bit && stream.data[stream.bytes - 1] >> (stream.bit % 8) != 0)
    return corrupt_payload("a stream's padding is not zero");
  return {};
}

Status decode(const Table* table, ByteSpan payload, bits::Words out) {
  if (out.count == 0) return payload.empty() ? Status{} : corrupt_payload("bytes but no words");
  std::array<bits::HuffmanStream, kStreams> all;
  const auto streams = std::span(all).first(streams_for(out.count));
  ByteReader reader(payload);
  for (size_t i = 0; i < streams.size(); ++i) {
    const Range part = part_of(i, streams.size(), out.count);
    streams[i] = {nullptr, 0, 0, part.offset, part.length};
    if (i + 1 == streams.size()) break;
    BREVIS_ASSIGN(streams[i].bytes, reader.varint_up_to(payload.size(), "huffman payload: the length of a stream"));
  }
  for (auto& stream : streams) {
    if (&stream == &streams.back()) stream.bytes = reader.remaining();
    BREVIS_ASSIGN(const ByteSpan bytes, reader.bytes(stream.bytes));
    stream.data = bytes.data();
  }
  const bits::HuffmanDecoder decoder = own(table).decoder();
  bits::kernels().huffman_decode(decoder, streams, out);
  return bits::visit_lane(out.width, [&]<class T>(T) -> Status {
    T* const to = out.as<T>().data();
    for (const auto& stream : streams)
      BREVIS_TRY(decoder.entry_bytes == 2
                     ? finish(decoder.table_bits, static_cast<const uint16_t*>(decoder.entries), stream, to)
                     : finish(decoder.table_bits, static_cast<const uint32_t*>(decoder.entries), stream, to));
    return {};
  });
}

// Appends one stream; false when a word has no code.
template <class T>
bool write_stream(const HuffmanTable& table, std::span<const T> words, ByteVector& out) {
  const Code* const codes = table.codes();
  const size_t symbols = table.symbols(), at = out.size();
  out.resize(at + (words.size() * kMaxLength + 7) / 8 + sizeof(uint64_t));
  uint8_t* to = out.data() + at;
  uint64_t held = 0;
  unsigned filled = 0;
  for (const T word : words) {
    if (word >= symbols || codes[word].length == 0) return false;
    held |= uint64_t{codes[word].bits} << filled;
    filled += codes[word].length;
    std::memcpy(to, &held, sizeof held);
    to += filled / 8;
    held >>= filled / 8 * 8;
    filled %= 8;
  }
  out.resize(static_cast<size_t>(to - out.data()) + (filled != 0));
  return true;
}

Status encode(const Table* table, bits::ConstWords in, ByteVector& out) {
  if (in.count == 0) return {};
  const size_t streams = streams_for(in.count);
  ByteVector body;
  ByteVector head;
  for (size_t i = 0; i < streams; ++i) {
    const Range part = part_of(i, streams, in.count);
    const size_t before = body.size();
    const bool coded = bits::visit_lane(in.width, [&]<class T>(T) {
      return write_stream<T>(own(table), in.as<T>().subspan(part.offset, part.length), body);
    });
    if (!coded) return make_error(Errc::invalid_argument, "the huffman table lacks a word of the stream");
    if (i + 1 != streams) ByteWriter(head).varint(body.size() - before);
  }
  out.insert(out.end(), head.begin(), head.end());
  out.insert(out.end(), body.begin(), body.end());
  return {};
}

uint64_t estimate(const Table* table, const Histogram& histogram) {
  uint64_t bits = 0;
  for (const auto& [word, count] : histogram.counts) {
    const unsigned length = own(table).length(word);
    if (length == 0) return UINT64_MAX;
    bits += count * length;
  }
  return bits * 256;
}

}  // namespace

const CodecSpec huffman_codec = {.id = CodecId::huffman,
                                 .name = "huffman",
                                 .since = 1,
                                 .needs_table = true,
                                 .accepts = accepts,
                                 .load = load,
                                 .decode = decode,
                                 .train = train,
                                 .encode = encode,
                                 .estimate = estimate};

}  // namespace brevis::codec
