// SPDX-License-Identifier: Apache-2.0
//
// What a frequency f gains by one more is count * ln(1 + 1/f), which falls as f grows. So giving the units of the scale
// one by one to whoever gains most ends at the best of all divisions. Most units need no comparing. Let l be the last
// gain taken: then count / (f + 1) < l for every symbol at the end, and l < count / (f - 1) for those that took any.
// Summing the second over all symbols: l < total / spare, with spare the units left after one each. With the first:
// f + 1 > count * spare / total. So the best division gives each symbol at least the whole part of that share.
#include "codec/frequencies.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <numeric>
#include <utility>

#include "bits/log2.h"

namespace brevis::codec {
namespace {

// ln(1 + 1/f) in units of 2^-31: 2 * (y + y^3/3 + y^5/5 + y^7/7) with y = 1 / (2f + 1).
uint64_t gain_of_one_more(uint64_t f) {
  const uint64_t y = (uint64_t{1} << 32) / (2 * f + 1), square = y * y >> 32;
  const uint64_t y3 = y * square >> 32, y5 = y3 * square >> 32, y7 = y5 * square >> 32;
  return y + y3 / 3 + y5 / 5 + y7 / 7;
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

  using Bid = std::pair<uint64_t, uint64_t>;  // gain, then the lower index first
  std::vector<Bid> bids(counts.size());
  auto bid = [&](uint64_t i) { return Bid{weights[i] * gain_of_one_more(frequencies[i]), ~i}; };
  for (size_t i = 0; i < counts.size(); ++i) bids[i] = bid(i);
  std::make_heap(bids.begin(), bids.end());
  for (; given < scale; ++given) {
    std::pop_heap(bids.begin(), bids.end());
    const uint64_t winner = ~bids.back().second;
    ++frequencies[winner];
    bids.back() = bid(winner);
    std::push_heap(bids.begin(), bids.end());
  }
  return frequencies;
}

uint64_t cost_of(uint32_t frequency, unsigned scale_bits) {
  return (uint64_t{scale_bits} << bits::kLog2Bits) - bits::log2_fixed(frequency);
}

}  // namespace brevis::codec
