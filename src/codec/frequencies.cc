// SPDX-License-Identifier: Apache-2.0
//
// What a frequency f gains by one more is count * ln(1 + 1/f), which falls as f grows. So giving the units of the scale
// one by one to whoever gains most ends at the best of all divisions. Most units need no comparing. Let l be the last
// gain taken: then count / (f + 1) < l for every symbol at the end, and l < count / (f - 1) for those that took any.
// Summing the second over all symbols: l < total / spare, with spare the units left after one each. With the first:
// f + 1 > count * spare / total. So the best division gives each symbol at least the whole part of that share.
//
// Nor need most of the others be given one by one: those of more than some gain go before all others, in any order.
// With count * ln(1 + 1/f) near count / (f + 1/2), a least gain that leaves few to be given is found in a few rounds.
#include "codec/frequencies.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <numeric>

#include "bits/log2.h"

namespace brevis::codec {
namespace {

// ln(1 + 1/f) in units of 2^-31: 2 * (y + y^3/3 + y^5/5 + y^7/7) with y = 1 / (2f + 1).
constexpr uint64_t gain_by_series(uint64_t f) {
  const uint64_t y = (uint64_t{1} << 32) / (2 * f + 1), square = y * y >> 32;
  const uint64_t y3 = y * square >> 32, y5 = y3 * square >> 32, y7 = y5 * square >> 32;
  return y + y3 / 3 + y5 / 5 + y7 / 7;
}

constexpr size_t kGains = 4097;

constinit const std::array<uint32_t, kGains> gain_table = [] {
  std::array<uint32_t, kGains> gains{};
  for (size_t f = 1; f < kGains; ++f) gains[f] = static_cast<uint32_t>(gain_by_series(f));
  return gains;
}();

uint64_t gain_of_one_more(uint64_t f) { return f < kGains ? gain_table[f] : gain_by_series(f); }

struct Bid {
  uint64_t gain;
  uint64_t symbol;
  // The lower symbol wins among equals.
  bool operator<(const Bid& other) const { return gain != other.gain ? gain < other.gain : symbol > other.symbol; }
};

// Restores a heap whose top alone may be too small.
void sift_down(std::span<Bid> heap) {
  const Bid sinking = heap[0];
  size_t at = 0;
  for (size_t child = 1; child < heap.size(); child = 2 * at + 1) {
    if (child + 1 < heap.size() && heap[child] < heap[child + 1]) ++child;
    if (!(sinking < heap[child])) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = sinking;
}

constexpr double kGainOne = 2147483648.0;  // gains are in units of its inverse

// Frequencies with all units from `start` on that gain `least` or more.
std::vector<uint32_t> raised(std::span<const uint64_t> weights, const std::vector<uint32_t>& start, uint64_t least,
                             uint64_t& given) {
  std::vector<uint32_t> out(start.size());
  const double share = kGainOne / static_cast<double>(least);
  given = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    // About right, and then exactly.
    uint64_t f = std::max<uint64_t>(start[i], static_cast<uint64_t>(static_cast<double>(weights[i]) * share + 0.5));
    while (f > start[i] && weights[i] * gain_of_one_more(f - 1) < least) --f;
    while (weights[i] * gain_of_one_more(f) >= least) ++f;
    out[i] = static_cast<uint32_t>(f);
    given += f;
  }
  return out;
}

// Most units of `scale` that are not given by `frequencies` yet, as giving them one by one would.
void give_most(std::span<const uint64_t> weights, uint64_t weight, uint64_t scale, std::vector<uint32_t>& frequencies,
               uint64_t& given) {
  constexpr unsigned kRounds = 6;
  constexpr uint64_t kFewOf = 32;  // of the symbols: so few are given one by one
  double share = static_cast<double>(scale) / static_cast<double>(weight);
  for (unsigned round = 0; round < kRounds && scale - given > frequencies.size() / kFewOf; ++round) {
    uint64_t sum = 0;
    const auto least = std::max<uint64_t>(1, static_cast<uint64_t>(kGainOne / share));
    std::vector<uint32_t> tried = raised(weights, frequencies, least, sum);
    if (sum <= scale) {
      frequencies = std::move(tried);
      given = sum;
    }
    // The rarest have one unit whatever the share.
    uint64_t fixed = 0;
    for (const uint32_t f : sum <= scale ? frequencies : tried) fixed += f == 1;
    if (sum <= fixed || scale <= fixed) break;
    share *= static_cast<double>(scale - fixed) / static_cast<double>(sum - fixed);
    if (sum > scale) share *= 1 - 1.0 / 1024;
  }
}

}  // namespace

std::vector<uint32_t> normalise(std::span<const uint64_t> counts, unsigned scale_bits) {
  const uint64_t scale = uint64_t{1} << scale_bits;
  assert(!counts.empty() && counts.size() <= scale && scale_bits <= 16);
  // Counts below 2^31 in sum leave room for every product.
  const uint64_t total = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  const int shift = std::max(0, static_cast<int>(std::bit_width(total)) - 31);
  std::vector<uint64_t> weights(counts.size());
  for (size_t i = 0; i < counts.size(); ++i) weights[i] = std::max<uint64_t>(1, counts[i] >> shift);
  const uint64_t weight = std::accumulate(weights.begin(), weights.end(), uint64_t{0});

  const uint64_t spare = scale - counts.size();
  std::vector<uint32_t> frequencies(counts.size());
  uint64_t given = 0;
  for (size_t i = 0; i < counts.size(); ++i)
    given += frequencies[i] = static_cast<uint32_t>(std::max<uint64_t>(1, weights[i] * spare / weight));

  give_most(weights, weight, scale, frequencies, given);

  std::vector<Bid> bids(counts.size());
  for (size_t i = 0; i < counts.size(); ++i) bids[i] = {weights[i] * gain_of_one_more(frequencies[i]), i};
  std::make_heap(bids.begin(), bids.end());
  for (; given < scale; ++given) {
    Bid& best = bids.front();
    best.gain = weights[best.symbol] * gain_of_one_more(++frequencies[best.symbol]);
    sift_down(bids);
  }
  return frequencies;
}

uint64_t cost_of(uint32_t frequency, unsigned scale_bits) {
  constexpr uint32_t kKnown = bits::log2_table.size();
  const uint32_t log = frequency < kKnown ? bits::log2_table[frequency] : bits::log2_fixed(frequency);
  return (uint64_t{scale_bits} << bits::kLog2Bits) - log;
}

}  // namespace brevis::codec
