// SPDX-License-Identifier: Apache-2.0
#include "dsl/ops/context.h"

#include <doctest/doctest.h>

#include "support/words.h"

namespace brevis::dsl {

TEST_CASE("context: levels of short fields are those of any") {
  test::Random random(8);
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
    for (int i = 0; i < 20000; ++i) all &= same(random.next() & bits::low_mask(width));
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
