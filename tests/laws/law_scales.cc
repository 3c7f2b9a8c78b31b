// SPDX-License-Identifier: Apache-2.0
//
// Kernels that multiply levels by scales (operator `dequantise`) do what the definition says word by word.
#include <doctest/doctest.h>

#include <algorithm>

#include "laws/kernel_streams.h"
#include "support/scaled_words.h"

using namespace brevis;
using namespace brevis::test;

namespace {

constexpr size_t kPlaces = 512;

// A zero, or one of the exponents around `exponent` and at most 63 from that of 1: with a scale of the same kind the
// product is zero or a normal number. Few digits make ties frequent.
float draw_factor(Random& random, int exponent, unsigned digits) {
  const uint32_t sign = random.below(2) != 0 ? 0x80000000 : 0;
  if (random.below(20) == 0) return std::bit_cast<float>(sign);
  const int near = std::clamp(exponent + static_cast<int>(random.below(13)) - 6, -63, 63);
  const uint32_t drawn = random.below(20) == 0 ? 0xffffffff : static_cast<uint32_t>(random.next());
  const uint32_t fraction = drawn & 0x7fffff & ~((1u << (23 - digits)) - 1);
  return std::bit_cast<float>(sign | static_cast<uint32_t>(near + 127) << 23 | fraction);
}

void compare(Random& random, unsigned type, const std::vector<float>& levels, const std::vector<uint16_t>& places,
             const std::vector<float>& scales, bool integers = false) {
  constexpr size_t kBehind = 32;
  const FloatForm form = kScaledForms[type];
  const size_t n = places.size(), lane = form.width() / 8;
  Exact truth((n + kBehind) * lane, 0, 0xee);
  for (size_t i = 0; i < n; ++i) {
    const uint32_t word = scaled_word(type, levels[places[i]], scales[i]);
    std::memcpy(truth.data() + i * lane, &word, lane);
  }
  for (const Kernels& kernels : bits::all_kernels()) {
    CAPTURE(kernels.full_name());
    Exact out((n + kBehind) * lane, lane * random.below(16), 0xee);
    kernels.scale_levels[type](places.data(), levels.data(), scales.data(), out.data(), n);
    REQUIRE(out == truth);
    if (!integers) continue;
    Exact same(out.size(), lane * random.below(16), 0xee);
    kernels.scale_integers[type](places.data(), scales.data(), same.data(), n);
    REQUIRE(same == truth);
  }
}

}  // namespace

TEST_CASE("kernels: words of the slow definition are those of the CPU's own arithmetic where it has any") {
  Random random(31);
  for (unsigned trial = 0; trial < 20000; ++trial) {
    const auto word = static_cast<uint32_t>(random.next());
    if ((word & 0x7f800000) == 0x7f800000) continue;
    const auto value = std::bit_cast<float>(word);
    REQUIRE(float_value(kScaledForms[0], word) == double{value});
    REQUIRE(nearest_float(kScaledForms[0], double{value}) == word);
    const double exact = static_cast<double>(value) * std::bit_cast<float>(0x3f000000 | (word * 77 & 0xffffff));
    if (std::abs(exact) > 0x1p-126)
      REQUIRE(nearest_float(kScaledForms[0], exact) == std::bit_cast<uint32_t>(static_cast<float>(exact)));
  }
  const FloatForm half = kScaledForms[2], brain = kScaledForms[1];
  CHECK(nearest_float(half, 0x1p-25) == 0);  // halfway, and zero is even
  CHECK(nearest_float(half, -0x1.8p-24) == 0x8002);
  CHECK(nearest_float(half, 0x1.001p-25) == 1);
  CHECK(nearest_float(half, 65519.99) == 0x7bff);
  CHECK(nearest_float(half, -65520) == 0xfc00);
  CHECK(nearest_float(half, 0x1p100) == 0x7c00);
  CHECK(nearest_float(half, 0x1.ffep-15) == 0x400);  // from the subnormal to the normal ones
  CHECK(nearest_float(half, -0.0) == 0x8000);
  CHECK(nearest_float(brain, 0x1.01p0) == 0x3f80);
  CHECK(nearest_float(brain, 0x1.03p0) == 0x3f82);
  CHECK(nearest_float(brain, 0x1.ffp127) == 0x7f80);
}

TEST_CASE("kernels: levels times scales are those of the definition, whatever they are") {
  Random random(32);
  for (unsigned trial = 0; trial < 1500; ++trial) {
    CAPTURE(trial);
    const unsigned type = trial % 3;
    const size_t n = random.below(trial % 50 == 0 ? 9000 : 701);
    const unsigned digits = 1 + static_cast<unsigned>(random.below(trial % 2 == 0 ? 6 : 23));
    // Products around the bounds of the type in one half of the trials.
    const int bounds[] = {0, -126, 127}, halves[] = {-14, -24, 15};
    const int product = random.below(2) == 0 ? static_cast<int>(random.below(127)) - 63
                                             : (type == 2 ? halves : bounds)[random.below(3)];
    std::vector<float> levels(kPlaces), scales(n);
    std::vector<uint16_t> places(n);
    for (float& level : levels) level = draw_factor(random, product / 2, digits);
    for (float& scale : scales) scale = draw_factor(random, product - product / 2, digits);
    for (uint16_t& place : places) place = static_cast<uint16_t>(random.below(kPlaces));
    compare(random, type, levels, places, scales);
  }
}

TEST_CASE("kernels: levels of quantisers times scales from bound to bound are those of the definition") {
  Random random(33);
  for (unsigned kind = 0; kind < 4; ++kind) {
    std::vector<float> levels(kPlaces);
    for (unsigned place = 0; place < kPlaces; ++place) levels[place] = level_at(kind, place);
    for (unsigned trial = 0; trial < 150; ++trial) {
      CAPTURE(kind);
      CAPTURE(trial);
      std::vector<float> scales(random.below(701), draw_factor(random, static_cast<int>(trial) - 75, 23));
      std::vector<uint16_t> places(scales.size());
      for (uint16_t& place : places) place = static_cast<uint16_t>(1 + random.below(kPlaces - 1));  // 0 is no level
      for (size_t i = 0; trial % 2 == 0 && i < scales.size(); ++i)
        scales[i] = draw_factor(random, static_cast<int>(random.below(127)) - 63, 23);
      for (const unsigned type : {0u, 1u, 2u}) compare(random, type, levels, places, scales, kind == 0);
    }
  }
}

TEST_CASE("kernels: levels times scales at every count") {
  Random random(34);
  const std::vector<float> levels = [&] {
    std::vector<float> out(kPlaces);
    for (float& level : out) level = draw_factor(random, 0, 23);
    return out;
  }();
  for (size_t n = 0; n <= 700; ++n) {
    CAPTURE(n);
    std::vector<float> scales(n);
    std::vector<uint16_t> places(n);
    for (float& scale : scales) scale = draw_factor(random, -10, 23);
    for (uint16_t& place : places) place = static_cast<uint16_t>(random.below(kPlaces));
    for (const unsigned type : {0u, 1u, 2u}) compare(random, type, levels, places, scales);
  }
}
