// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "support/weights.h"
#include "synth/stats.h"

using namespace brevis;

namespace {

bits::ConstWords view(const ByteVector& bytes, unsigned width) {
  return {bytes.data(), bytes.size() / (width / 8), static_cast<uint8_t>(width)};
}

synth::StreamStats in_parts(const ByteVector& bytes, unsigned width, size_t words_a_part) {
  synth::StreamStats sum;
  const auto all = view(bytes, width);
  for (size_t first = 0; first < all.count; first += words_a_part)
    synth::append(sum, synth::gather(all.part(first, std::min(words_a_part, all.count - first))));
  return sum;
}

}  // namespace

TEST_CASE("statistics joined from parts equal those of the whole") {
  for (const unsigned width : {8u, 16u, 32u, 64u}) {
    for (const size_t part : {size_t{1}, size_t{7}, size_t{64}}) {
      for (const auto& bytes : {test::random_bytes(width * 40, 3), test::ramp_words(width, 300, 5, 3),
                                test::constant_words(width, 300, 17)}) {
        const auto whole = synth::gather(view(bytes, width));
        const auto parts = in_parts(bytes, width, part);
        CHECK(parts.words == whole.words);
        CHECK(parts.top.counts == whole.top.counts);
        CHECK(parts.or_mask == whole.or_mask);
        CHECK(parts.ramp == whole.ramp);
        CHECK(parts.constant() == whole.constant());
        CHECK(parts.step == whole.step);
        CHECK(parts.cast_image == whole.cast_image);
      }
    }
  }
}

TEST_CASE("a ramp and a constant are told from what breaks in the last word") {
  auto bytes = test::ramp_words(32, 1000, 10, 2);
  CHECK(in_parts(bytes, 32, 64).ramp);
  bytes[4 * 999] ^= 1;
  CHECK_FALSE(in_parts(bytes, 32, 64).ramp);
  bytes = test::constant_words(16, 1000, 0x3f80);
  CHECK(in_parts(bytes, 16, 64).constant());
  bytes[2 * 999] ^= 1;
  CHECK_FALSE(in_parts(bytes, 16, 64).constant());
}

TEST_CASE("F32 that was BF16 is known, and one stray bit unmakes it") {
  auto bytes = test::upcast_words(5000, 9);
  auto has_cast = [](const synth::StreamStats& stats) {
    return std::find(stats.cast_image.begin(), stats.cast_image.end(), true) != stats.cast_image.end();
  };
  CHECK(has_cast(in_parts(bytes, 32, 512)));
  bytes[4 * 4321] |= 1;
  CHECK_FALSE(has_cast(in_parts(bytes, 32, 512)));
}

TEST_CASE("a field's histogram is the marginal of the top bits") {
  const ByteVector bytes{0x80, 0x3f, 0x80, 0xbf, 0x00, 0x40};  // BF16 1, -1, 2
  const auto stats = synth::gather(view(bytes, 16));
  using Counts = std::vector<std::pair<uint64_t, uint64_t>>;
  CHECK(stats.field(0, 1).counts == Counts{{0, 2}, {1, 1}});
  CHECK(stats.field(1, 8).counts == Counts{{127, 2}, {128, 1}});
  CHECK(stats.field(9, 7).counts == Counts{{0, 3}});
}

TEST_CASE("statistics gathered piece by piece equal those of the whole, or of its top bits") {
  for (const unsigned width : {8u, 16u, 32u, 64u}) {
    for (const auto& bytes : {test::random_bytes(width * 400, 3), test::constant_words(width, 300, 17),
                              test::constant_words(width, 1, 3), test::upcast_words(5000, 9)}) {
      const auto words = view(bytes, width);
      const auto whole = synth::gather(words);
      for (const unsigned counted : {0u, 5u, 8u, 13u}) {
        if (counted >= width) continue;
        synth::Gathering gathering(width, counted);
        for (size_t first = 0; first < words.count; first += 77)
          gathering.add(words.part(first, std::min<size_t>(77, words.count - first)));
        gathering.add(words.part(0, 0));
        const synth::StreamStats stats = gathering.take();
        CHECK(stats.words == whole.words);
        CHECK(stats.constant() == whole.constant());
        CHECK(stats.first == whole.first);
        const bool same = stats.top.counts == (counted == 0 ? whole.top : whole.field(0, counted)).counts;
        CHECK(same);
        CHECK(stats.top_bits() + stats.low_bits() == width);
        if (counted != 0) continue;
        CHECK(stats.low == whole.low);
        CHECK(stats.or_mask == whole.or_mask);
        CHECK(stats.cast_image == whole.cast_image);
      }
    }
  }
}
