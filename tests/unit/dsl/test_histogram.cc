// SPDX-License-Identifier: Apache-2.0
#include "dsl/histogram.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

#include "dsl/ops/context.h"

namespace brevis::dsl {
namespace {

using Counted = std::vector<std::pair<uint64_t, uint64_t>>;

}  // namespace

TEST_CASE("histogram: words counted in parts, one by one and again after a look, at every kind of width") {
  std::mt19937_64 random(7);
  for (const unsigned width : {1u, 5u, 8u, 9u, 12u, 16u, 17u, 24u, 32u, 40u, 64u}) {
    CAPTURE(width);
    Counter counter(width);
    std::map<uint64_t, uint64_t> expected;
    const auto a_word = [&] {
      // Some near the bottom, some anywhere, so that blocks are left out and words recur.
      const uint64_t word = random() % 3 == 0 ? random() : random() % 700;
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
        const uint64_t word = a_word(), count = 1 + random() % 5;
        counter.add(word, count);
        expected[word] += count;
      }
      if (part != 5000) CHECK(counter.histogram().counts == Counted(expected.begin(), expected.end()));
    }
  }
}

TEST_CASE("context: levels of short fields are those of any") {
  std::mt19937_64 random(8);
  for (unsigned width = 1; width <= 32; ++width) {
    CAPTURE(width);
    const auto same = [&](uint64_t field) {
      return raw_level_of_short(static_cast<uint32_t>(field), width) == raw_level(LevelOf::size, field, width);
    };
    bool all = true;
    for (uint64_t field = 0; field < std::min(uint64_t{1} << width, uint64_t{1} << 16); ++field) all &= same(field);
    for (unsigned bit = 0; bit < width; ++bit)
      for (const uint64_t field : {uint64_t{1} << bit, (uint64_t{1} << bit) - 1, 0 - (uint64_t{1} << bit)})
        all &= same(field & bits::low_mask(width));
    for (int i = 0; i < 20000; ++i) all &= same(random() & bits::low_mask(width));
    CHECK(all);
  }
  // By definition: twice the bits of the size, and whether the second one is set.
  CHECK(raw_level(LevelOf::size, 0, 8) == 0);
  CHECK(raw_level(LevelOf::size, 1, 8) == 1);
  CHECK(raw_level(LevelOf::size, 0xff, 8) == 1);
  CHECK(raw_level(LevelOf::size, 2, 8) == 3);
  CHECK(raw_level(LevelOf::size, 3, 8) == 4);
  CHECK(raw_level(LevelOf::size, 0xfd, 8) == 4);
  CHECK(raw_level(LevelOf::size, 0x80, 8) == 15);
}

}  // namespace brevis::dsl
