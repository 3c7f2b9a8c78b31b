// SPDX-License-Identifier: Apache-2.0
#include "synth/table_price.h"

#include <algorithm>
#include <array>
#include <bit>

#include "bits/log2.h"

namespace brevis::synth {
namespace {

using codec::CodecId;
using codec::Histogram;

constexpr uint64_t kBit = 256;
constexpr unsigned kAliasWidth = 6, kAliasScale = 12;
constexpr unsigned kHuffmanWidth = 12, kHuffmanLength = 12;
constexpr unsigned kRansLeastScale = 12, kRansMostScale = 16;

// Bits of a sequence of sizes, each written as the step from the one before, in unary after folding.
class Steps {
 public:
  void size(unsigned n) {
    bits_ += 1 + (n > last_ ? 2 * (n - last_) - 1 : 2 * (last_ - n));
    last_ = n;
  }
  void value(uint64_t v) {
    const auto n = static_cast<unsigned>(std::bit_width(v));
    size(n);
    bits_ += n > 1 ? n - 1 : 0;
  }
  uint64_t bits() const { return bits_; }

 private:
  unsigned last_ = 0;
  uint64_t bits_ = 0;
};

constexpr uint64_t whole_bytes(uint64_t bits) { return (bits + 7) / 8 * 8 * kBit; }

// Shares of a scale by rounding; their sum is near to it.
class Shares {
 public:
  Shares(const Histogram& histogram, unsigned scale_bits) : total_(histogram.total()) {
    // A total below 2^40 leaves room for every product.
    shift_ = static_cast<unsigned>(std::max(0, static_cast<int>(std::bit_width(total_)) - 40));
    // Symbols that would get less than one take it from the others.
    const uint64_t scale = uint64_t{1} << scale_bits, least = total_ >> scale_bits;
    uint64_t rare = 0, rare_count = 0;
    for (const auto& [word, count] : histogram.counts)
      if (count <= least) ++rare, rare_count += count;
    spare_ = scale > rare ? scale - rare : 1;
    weight_ = std::max<uint64_t>(1, (total_ - rare_count) >> shift_);
    factor_ = (spare_ << 32) / weight_;
  }
  uint64_t of(uint64_t count) const {
    const auto share =
        static_cast<uint64_t>((static_cast<unsigned __int128>(count >> shift_) * factor_ + (1u << 31)) >> 32);
    return std::max<uint64_t>(1, share);
  }

 private:
  uint64_t total_, spare_ = 0, weight_ = 0, factor_ = 0;
  unsigned shift_ = 0;
};

// Payload of words whose codes take log2(sum of shares / share).
class Payload {
 public:
  void add(uint64_t count, uint64_t share) {
    cost_ += static_cast<unsigned __int128>(count) * bits::log2_near(share);
    words_ += count;
    shares_ += share;
  }
  uint64_t cost() const {
    const auto all = static_cast<unsigned __int128>(words_) * bits::log2_near(std::max<uint64_t>(1, shares_));
    return all < cost_ ? 0 : static_cast<uint64_t>((all - cost_) >> (bits::kLog2Bits - 8));
  }

 private:
  unsigned __int128 cost_ = 0;
  uint64_t words_ = 0, shares_ = 0;
};

std::optional<TablePrice> alias(const Histogram& histogram) {
  if (histogram.width > kAliasWidth || histogram.counts.size() < 2) return std::nullopt;
  const Shares shares(histogram, kAliasScale);
  Steps steps;
  Payload payload;
  uint64_t next = 0;
  for (const auto& [word, count] : histogram.counts) {
    for (; next < word; ++next) steps.value(0);
    const uint64_t share = shares.of(count);
    steps.value(share);
    payload.add(count, share);
    ++next;
  }
  return TablePrice{payload.cost(), whole_bytes(steps.bits())};
}

std::optional<TablePrice> rans_at(const Histogram& histogram, unsigned scale_bits) {
  const Shares shares(histogram, scale_bits);
  Steps gaps, steps;
  Payload payload;
  uint64_t next = 0;
  for (const auto& [word, count] : histogram.counts) {
    const uint64_t share = shares.of(count);
    gaps.value(word - next);
    steps.value(share);
    payload.add(count, share);
    next = word + 1;
  }
  return TablePrice{payload.cost(), 8 * kBit + whole_bytes(gaps.bits() + steps.bits())};
}

// The codec takes the least scale that costs next to nothing over the best, which is seldom far from the least there
// is.
std::optional<TablePrice> rans(const Histogram& histogram) {
  const size_t distinct = histogram.counts.size();
  if (distinct < 2 || distinct > size_t{1} << kRansMostScale) return std::nullopt;
  const unsigned least = std::max(kRansLeastScale, static_cast<unsigned>(std::bit_width(distinct - 1)));
  auto price = rans_at(histogram, least);
  if (least < kRansMostScale) {
    const auto finer = rans_at(histogram, least + 1);
    if (finer->payload + finer->table < price->payload + price->table) price = finer;
  }
  return price;
}

// The total length of a prefix code without limit: the sum of all nodes' weights as the two lightest are joined again
// and again. Leaves in order and joined nodes, which come in order by themselves, are two queues.
std::optional<TablePrice> huffman(const Histogram& histogram) {
  const size_t n = histogram.counts.size();
  if (histogram.width > kHuffmanWidth || n < 2) return std::nullopt;
  std::vector<uint64_t> leaves, joined;
  leaves.reserve(n);
  joined.reserve(n);
  Steps gaps, sizes;
  uint64_t next = 0;
  const uint32_t log_total = bits::log2_near(histogram.total());
  for (const auto& [word, count] : histogram.counts) {
    leaves.push_back(count);
    gaps.value(word - next);
    const uint32_t length = (log_total - bits::log2_near(count) + (1u << (bits::kLog2Bits - 1))) >> bits::kLog2Bits;
    sizes.size(std::clamp(length, 1u, kHuffmanLength));
    next = word + 1;
  }
  std::sort(leaves.begin(), leaves.end());
  uint64_t cost = 0;
  size_t leaf = 0, node = 0;
  const auto lightest = [&] {
    const bool take_leaf = leaf < n && (node == joined.size() || leaves[leaf] <= joined[node]);
    return take_leaf ? leaves[leaf++] : joined[node++];
  };
  for (size_t i = 1; i < n; ++i) {
    const uint64_t a = lightest(), b = lightest();
    joined.push_back(a + b);
    cost += a + b;
  }
  return TablePrice{cost * kBit, whole_bytes(gaps.bits() + sizes.bits())};
}

}  // namespace

std::optional<TablePrice> price_table(const codec::CodecSpec& spec, const Histogram& histogram) {
  switch (spec.id) {
    case CodecId::alias: return alias(histogram);
    case CodecId::rans: return rans(histogram);
    case CodecId::huffman: return huffman(histogram);
    default: break;
  }
  const auto stored = spec.train(histogram);
  if (!stored) return std::nullopt;
  const auto loaded = spec.load(*stored, histogram.width);
  if (!loaded) return std::nullopt;
  const uint64_t payload = spec.estimate(loaded->get(), histogram);
  if (payload == UINT64_MAX) return std::nullopt;
  return TablePrice{payload, stored->size() * 8 * kBit};
}

}  // namespace brevis::synth
