// SPDX-License-Identifier: Apache-2.0
#include "dsl/histogram.h"

#include <doctest/doctest.h>

#include <map>

#include "support/words.h"

namespace brevis::dsl {
namespace {

using Counted = std::vector<std::pair<uint64_t, uint64_t>>;

}  // namespace

TEST_CASE("histogram: words counted in parts, one by one and again after a look, at every kind of width") {
  test::Random random(7);
  for (const unsigned width : {1u, 5u, 8u, 9u, 12u, 16u, 17u, 24u, 32u, 40u, 64u}) {
    CAPTURE(width);
    Counter counter(width);
    std::map<uint64_t, uint64_t> expected;
    const auto a_word = [&] {
      // Some near the bottom, some anywhere, so that blocks are left out and words recur.
      const uint64_t word = random.below(3) == 0 ? random.next() : random.below(700);
      return word & bits::low_mask(width);
    };
    for (const size_t part : {size_t{0}, size_t{1}, size_t{3}, size_t{5000}, size_t{9000}, size_t{2}}) {
      bits::OwnedWords words(width, part);
      for (size_t i = 0; i < part; ++i) {
        const uint64_t word = a_word();
        words.words().set(i, word);
        ++expected[word];
      }
      counter.add(words.view());
      if (part == 3 || part == 9000) {
        const uint64_t word = a_word(), count = 1 + random.below(5);
        counter.add(word, count);
        expected[word] += count;
      }
      if (part != 5000) CHECK(counter.histogram().counts == Counted(expected.begin(), expected.end()));
    }
  }
}

}  // namespace brevis::dsl
