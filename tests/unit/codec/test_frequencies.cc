// SPDX-License-Identifier: Apache-2.0
#include "codec/frequencies.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "support/words.h"

using namespace brevis;

namespace {

double cost(const std::vector<uint64_t>& counts, const std::vector<uint32_t>& frequencies, unsigned scale_bits) {
  double bits = 0;
  for (size_t i = 0; i < counts.size(); ++i)
    bits += static_cast<double>(counts[i]) * (scale_bits - std::log2(static_cast<double>(frequencies[i])));
  return bits;
}

}  // namespace

TEST_CASE("frequencies: sum to the scale, none is zero") {
  test::Random random(4);
  for (unsigned scale_bits : {6, 12, 16})
    for (size_t n : {1, 2, 3, 17, 63, 64}) {
      std::vector<uint64_t> counts(n);
      for (auto& count : counts) count = 1 + (random.next() >> random.below(60) >> 6);
      const auto frequencies = codec::normalise(counts, scale_bits);
      CHECK(std::accumulate(frequencies.begin(), frequencies.end(), 0u) == 1u << scale_bits);
      CHECK(*std::min_element(frequencies.begin(), frequencies.end()) >= 1);
    }
  CHECK(codec::normalise(std::vector<uint64_t>{1, uint64_t{1} << 62}, 12) == std::vector<uint32_t>{1, 4095});
  CHECK(codec::normalise(std::vector<uint64_t>(65536, 3), 16) == std::vector<uint32_t>(65536, 1));
  CHECK(codec::normalise(std::vector<uint64_t>{5, 5, 5}, 12) == std::vector<uint32_t>{1366, 1365, 1365});
}

TEST_CASE("frequencies: no other division of a small scale costs less") {
  test::Random random(5);
  for (int round = 0; round < 60; ++round) {
    std::vector<uint64_t> counts(2 + random.below(3));
    for (auto& count : counts) count = 1 + (random.next() >> (40 + random.below(24)));
    const double ours = cost(counts, codec::normalise(counts, 5), 5);
    std::vector<uint32_t> tried(counts.size());
    const std::function<void(size_t, uint32_t)> try_all = [&](size_t i, uint32_t left) {
      if (i + 1 == tried.size()) {
        tried[i] = left;
        REQUIRE(ours <= cost(counts, tried, 5) * (1 + 1e-6));
        return;
      }
      for (tried[i] = 1; tried[i] + (tried.size() - 1 - i) <= left; ++tried[i]) try_all(i + 1, left - tried[i]);
    };
    try_all(0, 32);
  }
}

TEST_CASE("frequencies: no unit moved from one word to another saves anything") {
  test::Random random(6);
  std::vector<uint64_t> counts(60);
  for (auto& count : counts) count = 1 + (random.next() >> (30 + random.below(30)));
  auto frequencies = codec::normalise(counts, 12);
  const double ours = cost(counts, frequencies, 12);
  for (auto& from : frequencies)
    for (auto& to : frequencies) {
      if (&from == &to || from == 1) continue;
      --from, ++to;
      REQUIRE(cost(counts, frequencies, 12) >= ours * (1 - 1e-7));
      ++from, --to;
    }
}

TEST_CASE("frequencies: units come to the same words as if each were given to whoever gains most") {
  // As the source says it: 2^31 * ln(1 + 1/f) by four terms of the series, the lower word among equals.
  const auto gain = [](uint64_t f) {
    const uint64_t y = (uint64_t{1} << 32) / (2 * f + 1), square = y * y >> 32;
    const uint64_t y3 = y * square >> 32, y5 = y3 * square >> 32, y7 = y5 * square >> 32;
    return y + y3 / 3 + y5 / 5 + y7 / 7;
  };
  for (uint64_t f = 1; f < 65536; ++f) REQUIRE(gain(f) >= gain(f + 1));
  test::Random random(7);
  for (int round = 0; round < 40; ++round) {
    const unsigned scale_bits = 8 + static_cast<unsigned>(random.below(9));
    const size_t n = 2 + random.below(std::min<uint64_t>(3000, (uint64_t{1} << scale_bits) - 2));
    std::vector<uint64_t> counts(n);
    const unsigned skew = static_cast<unsigned>(random.below(24));
    for (auto& count : counts) count = 1 + (random.next() >> (40 + random.below(skew + 1)));
    std::vector<uint32_t> expected(n, 1);
    std::set<std::pair<uint64_t, uint64_t>> bids;  // gain from above, word
    for (size_t i = 0; i < n; ++i) bids.emplace(UINT64_MAX - counts[i] * gain(1), i);
    for (uint64_t given = n; given < uint64_t{1} << scale_bits; ++given) {
      const uint64_t word = bids.begin()->second;
      bids.erase(bids.begin());
      bids.emplace(UINT64_MAX - counts[word] * gain(++expected[word]), word);
    }
    CAPTURE(n);
    CAPTURE(scale_bits);
    CHECK(codec::normalise(counts, scale_bits) == expected);
  }
}
