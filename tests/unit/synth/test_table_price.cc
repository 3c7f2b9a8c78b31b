// SPDX-License-Identifier: Apache-2.0
#include "synth/table_price.h"

#include <doctest/doctest.h>

#include "support/weights.h"
#include "synth/complete.h"
#include "synth/stats.h"

using namespace brevis;

namespace {

// What training, loading and estimating say.
std::optional<uint64_t> trained(const codec::CodecSpec& spec, const codec::Histogram& histogram) {
  const auto stored = spec.train(histogram);
  if (!stored) return std::nullopt;
  const auto table = spec.load(*stored, histogram.width);
  REQUIRE(table);
  return spec.estimate(table->get(), histogram) + stored->size() * 8 * 256;
}

codec::Histogram field(Dtype dtype, size_t words, unsigned from_top, unsigned bits) {
  const auto bytes = test::gaussian_words(dtype, words, words + bits);
  return synth::gather({bytes.data(), words, static_cast<uint8_t>(dtype_info(dtype).word_bits())})
      .field(from_top, bits);
}

}  // namespace

TEST_CASE("a table's price is near to what training it tells, and never below the entropy") {
  for (const size_t words : {size_t{2000}, size_t{60000}})
    for (const auto& [from_top, bits] : {std::pair{0u, 4u}, {1u, 6u}, {1u, 8u}, {1u, 11u}, {0u, 16u}, {9u, 7u}})
      for (const codec::CodecSpec* spec : codec::all_codecs()) {
        if (!spec->needs_table) continue;
        const auto histogram = field(Dtype::BF16, words, from_top, bits);
        const auto exact = trained(*spec, histogram);
        const auto price = synth::price_table(*spec, histogram);
        CAPTURE(spec->name);
        CAPTURE(bits);
        CAPTURE(words);
        REQUIRE(price.has_value() == exact.has_value());
        if (!price) continue;
        const uint64_t near = price->payload + price->table;
        CHECK(near <= *exact + *exact / 64 + 8 * 8 * 256);
        CHECK(near + *exact / 64 + 8 * 8 * 256 >= *exact);
        CHECK(price->payload + words / 64 + 256 >= synth::entropy_cost(histogram));
      }
}

TEST_CASE("prices hold for the ends of what histograms can be") {
  const auto& rans = codec::rans_codec;
  const auto& alias = codec::alias_codec;
  CHECK_FALSE(synth::price_table(alias, {4, {{3, 10}}}));  // one word
  CHECK_FALSE(synth::price_table(alias, {7, {{3, 10}, {4, 1}}}));
  const auto skewed = synth::price_table(rans, {16, {{0, uint64_t{1} << 60}, {65535, 1}}});
  REQUIRE(skewed);
  CHECK(skewed->payload < uint64_t{1} << 60);
  codec::Histogram all{16, {}};
  for (uint64_t word = 0; word < 65536; ++word) all.counts.emplace_back(word, 1 + word % 3);
  const auto wide = synth::price_table(rans, all);
  REQUIRE(wide);
  CHECK(wide->payload + wide->table > all.total() * 15 * 256);
}
