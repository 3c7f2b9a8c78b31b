// SPDX-License-Identifier: Apache-2.0
#include "synth/prior.h"

#include <algorithm>
#include <bit>

#include "bits/log2.h"
#include "synth/complete.h"

namespace brevis::synth {
namespace {

constexpr size_t kLookWords = 2048;  // of the first window: enough for features in eighths
constexpr uint64_t kSmoothing = 2;   // pseudo-counts that a level takes from the one below
constexpr uint64_t kOne = uint64_t{1} << 24;
constexpr uint32_t kUniformShare = 1000;
constexpr uint32_t kRootShare = 512;  // the root is expected to be worth a look under every production

uint8_t log2_in_steps(uint64_t value, unsigned step) { return static_cast<uint8_t>(std::bit_width(value) / step); }

// Spread of words' magnitudes as small integers: the sum of bit lengths, cheap and monotone in what differences cost.
uint64_t lengths_of(bits::ConstWords words, size_t stride) {
  const uint64_t mask = bits::low_mask(words.width);
  uint64_t sum = 0;
  for (size_t i = stride; i < words.count; ++i) {
    const uint64_t up = (words.at(i) - words.at(i - stride)) & mask, down = (0 - up) & mask;
    sum += static_cast<uint64_t>(std::bit_width(std::min(up, down)));
  }
  return words.count > stride ? sum * 256 / (words.count - stride) : UINT64_MAX;
}

// Differences to the word `stride` before against differences to a word far away (the mean spread).
uint8_t compare(bits::ConstWords words, size_t stride, uint64_t far) {
  const uint64_t near = lengths_of(words, stride);
  if (near == UINT64_MAX || far == UINT64_MAX) return 3;
  if (near + far / 8 < far) return 2;
  return near > far + far / 8 ? 0 : 1;
}

}  // namespace

Context context_of(TargetPool& pool, uint32_t target, uint8_t parent, uint8_t slot, uint8_t depth) {
  const dsl::Target look = pool.target(target);
  Context out;
  out.parent = parent;
  out.slot = slot;
  out.depth = depth;
  out.dtype = static_cast<uint8_t>(look.dtype);
  out.width = static_cast<uint8_t>(look.width);
  out.size = log2_in_steps(look.words, 4);
  const uint64_t sampled = pool.sampled(target);
  if (sampled == 0) return out;
  out.entropy = static_cast<uint8_t>(entropy_cost(*look.histogram) / sampled / (32 * uint64_t{look.width}));
  out.distinct = log2_in_steps(look.histogram->counts.size(), 2);
  const auto& lowest = look.histogram->counts.front();
  const uint64_t zeros = lowest.first == 0 ? lowest.second : 0;
  out.zeros = zeros == 0 ? 0 : zeros * 10 < sampled ? 1 : zeros * 10 < sampled * 9 ? 2 : 3;
  bits::ConstWords words = look.windows.front().words;
  words = words.part(0, std::min(words.count, 2 * kLookWords));
  const uint64_t far = lengths_of(words, std::max<size_t>(1, words.count / 2 - 1));
  out.delta = compare(words, 1, far);
  const uint64_t row = look.shape.size() < 2 ? 0 : look.shape.back();
  out.column = row == 0 || row >= words.count / 2 ? 3 : compare(words, row, far);
  return out;
}

Prior::Key Prior::key_of(const Context& c, size_t level) {
  switch (level) {
    case 0:
      return {0,      c.parent,  c.slot,  c.depth,    c.dtype, c.width,
              c.size, c.entropy, c.zeros, c.distinct, c.delta, c.column};
    case 1: return {1, c.parent, c.slot, c.dtype, c.width, c.entropy, c.zeros, c.distinct, 0, 0, 0, 0};
    case 2: return {2, c.parent, c.slot, c.width, c.distinct, 0, 0, 0, 0, 0, 0, 0};
    default: return {3, c.parent, c.width, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  }
}

namespace {

Prior::Symbol symbol_of(const Production& production) {
  Prior::Symbol out;
  out.reserve(production.params.size() + 1);
  out.push_back(static_cast<uint64_t>(production.op));
  for (const uint64_t param : production.params) out.push_back(param);
  return out;
}

uint32_t surprise(uint64_t share, uint64_t total) {
  constexpr unsigned kShift = bits::kLog2Bits - 10;
  const uint64_t all = bits::log2_fixed(total), one = bits::log2_fixed(std::max<uint64_t>(share, 1));
  return static_cast<uint32_t>(all > one ? (all - one) >> kShift : 0);
}

}  // namespace

// Each level mixes its own counts with what the coarser one says; the coarsest with even odds.
std::vector<uint32_t> Prior::costs(const Context& context, std::span<const Production> productions) const {
  const size_t n = productions.size() + 1;
  std::vector<uint64_t> odds(n, kOne / n);
  if (!counts_.empty()) {
    std::vector<Symbol> symbols(1);
    for (const Production& production : productions) symbols.push_back(symbol_of(production));
    for (size_t level = kLevels; level-- > 0;) {
      const auto found = counts_.find(key_of(context, level));
      if (found == counts_.end()) continue;
      uint64_t total = kSmoothing;
      std::vector<uint64_t> own(n);
      for (size_t i = 0; i < n; ++i) {
        const auto count = found->second.counts.find(symbols[i]);
        own[i] = count == found->second.counts.end() ? 0 : count->second;
        total += own[i];
      }
      for (size_t i = 0; i < n; ++i) odds[i] = (own[i] * kOne + kSmoothing * odds[i]) / total;
    }
  }
  std::vector<uint32_t> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = surprise(odds[i], kOne);
  return out;
}

uint32_t Prior::even(size_t choices) { return surprise(kOne / choices, kOne); }

uint32_t Prior::expected(const Context& context) const {
  for (size_t level = 0; level < kLevels; ++level) {
    const auto found = counts_.find(key_of(context, level));
    if (found != counts_.end() && found->second.total != 0)
      return static_cast<uint32_t>(std::min<uint64_t>(found->second.share / found->second.total, kWhole));
  }
  return context.depth == 0 ? kRootShare : kUniformShare;
}

void Prior::learn(const Context& context, const Production* production, uint64_t cost, uint64_t literal_cost) {
  const Symbol symbol = production == nullptr ? Symbol{} : symbol_of(*production);
  const uint64_t share =
      literal_cost == 0
          ? kWhole
          : static_cast<uint64_t>(static_cast<unsigned __int128>(std::min(cost, literal_cost)) * kWhole / literal_cost);
  for (size_t level = 0; level < kLevels; ++level) {
    Node& node = counts_[key_of(context, level)];
    node.total += 1;
    node.share += share;
    node.counts[symbol] += 1;
  }
}

void Prior::add(const Prior& other) {
  for (const auto& [key, node] : other.counts_) {
    Node& mine = counts_[key];
    mine.total += node.total;
    mine.share += node.share;
    for (const auto& [symbol, count] : node.counts) mine.counts[symbol] += count;
  }
}

}  // namespace brevis::synth
