// SPDX-License-Identifier: Apache-2.0
//
// The four functions against what the format says of them; a round trip alone would not notice two that changed places.
#include "bits/combine.h"

#include <doctest/doctest.h>

#include <vector>

using namespace brevis;
using namespace brevis::bits;

namespace {

uint16_t one(Combine f, unsigned width, uint16_t p, uint16_t q) {
  // Enough words for every loop and its remainder.
  std::vector<uint16_t> ps(67, p), qs(67, q), out(67, 0x5a5a);
  const auto bytes = [](std::vector<uint16_t>& words) { return reinterpret_cast<uint8_t*>(words.data()); };
  combine(f, {bytes(ps), ps.size(), static_cast<uint8_t>(width)}, {bytes(qs), qs.size(), static_cast<uint8_t>(width)},
          {bytes(out), out.size(), static_cast<uint8_t>(width)});
  for (const uint16_t word : out) CHECK(word == out[0]);
  return out[0];
}

}  // namespace

TEST_CASE("combine: each function is the one of its name") {
  CHECK(one(Combine::exclusive_or, 16, 0x0ff0, 0x00ff) == 0x0f0f);
  CHECK(one(Combine::add, 16, 3, 0xfffe) == 1);
  CHECK(one(Combine::subtract, 16, 3, 0xfffe) == 5);
  CHECK(one(Combine::add, 10, 0x3ff, 2) == 1);  // modulo 2^10
  CHECK(one(Combine::subtract, 10, 1, 2) == 0x3ff);
}

TEST_CASE("combine: order counts through the floats, from the negative ones over both zeros to the positive ones") {
  CHECK(one(Combine::order, 16, 1, 0x3f80) == 0x3f81);       // away from zero
  CHECK(one(Combine::order, 16, 1, 0xbf80) == 0xbf7f);       // a negative one: towards zero
  CHECK(one(Combine::order, 16, 1, 0x8000) == 0x0000);       // from -0 to +0
  CHECK(one(Combine::order, 16, 0xffff, 0x0000) == 0x8000);  // and back
  CHECK(one(Combine::order, 16, 1, 0x7fff) == 0xffff);       // around
  CHECK(one(Combine::order, 10, 1, 0x200) == 0x000);
}
