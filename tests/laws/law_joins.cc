// SPDX-License-Identifier: Apache-2.0
//
// Kernels that find classes, words and levels at once (operator `context`) do what the definition says word by word.
#include <doctest/doctest.h>

#include <algorithm>

#include "laws/kernel_streams.h"

using namespace brevis;
using namespace brevis::test;

TEST_CASE("kernels: join_levels gives each place the next word of the class of the levels before it") {
  Random random(15);
  for (unsigned trial = 0; trial < 3000; ++trial) {
    const unsigned widths[] = {16, 16, 16, 1 + static_cast<unsigned>(random.below(32))};
    const unsigned width = widths[random.below(4)];
    const unsigned b = 1 + static_cast<unsigned>(random.below(width)), lane = bits::lane_bytes(width);
    const auto shift = static_cast<unsigned>(random.below(width - b + 1));
    const size_t n = random.below(trial % 50 == 0 ? 20000 : 700);
    const uint64_t mask = bits::low_mask(b), low = random.next() & mask & random.next();
    const bits::OwnedWords words = test::make_words(test::Shape::uniform, width, n, random.next());
    // Levels, behind those of the words before the first.
    constexpr size_t kBefore = 300;
    ByteVector truth(kBefore + n);
    for (size_t i = 0; i < truth.size(); ++i) {
      const uint64_t field = i < kBefore ? random.next() & mask : words.view().at(i - kBefore) >> shift & mask;
      truth[i] = static_cast<uint8_t>(std::min<uint64_t>(field > low ? field - low : 0, 63));
    }
    size_t strides[bits::LevelSums::kMaxTerms];
    bits::LevelSums sums{random.below(5), {}, {}, 0, {}};
    for (size_t k = 0; k < sums.terms; ++k) {
      strides[k] = bits::LevelJoin::kNearest + random.below(random.below(2) == 0 ? 10 : kBefore - 31);
      sums.weights[k] = static_cast<uint16_t>(1 + random.below(4));
    }
    if (sums.terms < 4) sums.always = static_cast<uint16_t>(random.below(252));
    const uint64_t most = 1 + random.below(random.below(2) == 0 ? 1009 : 100);
    for (uint16_t& begin : sums.begins) begin = static_cast<uint16_t>(random.below(most));
    std::sort(std::begin(sums.begins), std::end(sums.begins));
    std::vector<Exact> streams;
    std::vector<uint8_t> classes(n);
    for (size_t i = 0; i < n; ++i) {
      unsigned sum = sums.always;
      for (size_t k = 0; k < sums.terms; ++k) sum += sums.weights[k] * truth[kBefore + i - strides[k]];
      for (const uint16_t begin : sums.begins) classes[i] = static_cast<uint8_t>(classes[i] + (sum >= begin));
    }
    for (uint8_t c = 0; c < bits::DealHands::kHands; ++c) {
      const auto of_class = static_cast<size_t>(std::count(classes.begin(), classes.end(), c));
      streams.emplace_back(of_class * lane, lane * random.below(9));
      for (size_t i = 0, at = 0; i < n; ++i)
        if (classes[i] == c) std::memcpy(streams[c].data() + at++ * lane, words.view().data + i * lane, lane);
    }
    for (const Kernels& kernels : bits::all_kernels()) {
      if (kernels.join_levels[lane / 2] == nullptr) continue;
      CAPTURE(kernels.full_name());
      Exact own(kBefore + n, random.below(64)), out(n * lane, random.below(64));
      std::memcpy(own.data(), truth.data(), kBefore);
      bits::LevelJoin join{sums, own.data() + kBefore, shift, mask, low};
      for (size_t k = 0; k < sums.terms; ++k) join.sums.levels[k] = own.data() + kBefore - strides[k];
      bits::DealHands hands{};
      for (size_t c = 0; c < streams.size(); ++c) {
        hands.next[c] = streams[c].data();
        hands.end[c] = streams[c].data() + streams[c].size();
      }
      REQUIRE(kernels.join_levels[lane / 2](join, hands, out.data(), n));
      REQUIRE(same(out.data(), words.view().data, n * lane));
      REQUIRE(same(own.data(), truth.data(), truth.size()));
      // A word less in the stream of the last place's class.
      if (n == 0) continue;
      Exact shorter(streams[classes[n - 1]].size() - lane, 0);
      std::memcpy(shorter.data(), streams[classes[n - 1]].data(), shorter.size());
      hands.next[classes[n - 1]] = shorter.data();
      hands.end[classes[n - 1]] = shorter.data() + shorter.size();
      REQUIRE(!kernels.join_levels[lane / 2](join, hands, out.data(), n));
    }
  }
}
