// SPDX-License-Identifier: Apache-2.0
#include "codec/frequencies.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <numeric>

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
