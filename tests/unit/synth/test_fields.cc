// SPDX-License-Identifier: Apache-2.0
#include "synth/fields.h"

#include <doctest/doctest.h>

#include "support/weights.h"
#include "synth/known_good.h"

using namespace brevis;

namespace {

synth::StreamStats stats_of(const ByteVector& bytes, unsigned width) {
  return synth::gather({bytes.data(), bytes.size() / (width / 8), static_cast<uint8_t>(width)});
}

dsl::Expr literal() { return {dsl::OpId::literal, {}, {}}; }

}  // namespace

TEST_CASE("fields folded from others are those counted directly, in whatever order they are asked for") {
  const auto bytes = test::gaussian_words(Dtype::BF16, 30000, 1);
  const auto stats = stats_of(bytes, 16);
  synth::Fields wide_first(stats, 0), narrow_first(stats, 0);
  wide_first.histogram(0, 13);
  wide_first.histogram(9, 7);
  for (unsigned from_top = 0; from_top < 16; ++from_top)
    for (unsigned bits = 1; from_top + bits <= 16; ++bits) {
      const auto direct = stats.field(from_top, bits);
      REQUIRE(wide_first.histogram(from_top, bits).counts == direct.counts);
      REQUIRE(narrow_first.histogram(from_top, bits).counts == direct.counts);
    }
}

TEST_CASE("the best way to code a field is none of the dearer ones, and never below the bound") {
  for (const Dtype dtype : {Dtype::BF16, Dtype::F16, Dtype::F8_E4M3, Dtype::F32})
    for (const size_t words : {size_t{40}, size_t{3000}, size_t{50000}}) {
      const auto bytes = test::gaussian_words(dtype, words, words);
      const auto stats = stats_of(bytes, dtype_info(dtype).word_bits());
      synth::Fields fields(stats, 100000);
      for (const auto& [from_top, bits] : {std::pair{0u, 8u}, {1u, 7u}, {0u, 6u}, {4u, 4u}}) {
        const auto best = fields.best(from_top, bits);
        REQUIRE(best);
        CHECK(fields.least(from_top, bits) <= best->cost);
        const auto& histogram = fields.histogram(from_top, bits);
        std::vector<dsl::Expr> ways = {literal()};
        ways.push_back({dsl::OpId::palette, {histogram.counts.size()}, {literal()}});
        for (const uint64_t size : {15, 31, 63})
          ways.push_back({dsl::OpId::rank, {size}, {literal(), literal(), literal()}});
        for (const auto& way : ways)
          if (const auto cost = synth::complete_order0(way, histogram, 100000)) CHECK(best->cost <= cost->cost);
        CHECK(!fields.best(from_top, bits, best->cost));
        CHECK(fields.best(from_top, bits, best->cost + 1)->expr == best->expr);
        synth::Fields limited(stats, 100000);
        CHECK(!limited.best(from_top, bits, best->cost));
        CHECK(limited.best(from_top, bits)->cost == best->cost);
      }
    }
}

TEST_CASE("low bits that are noise need no counting, and the choice stays what it is; others do") {
  auto bytes = test::gaussian_words(Dtype::F16, 60000, 5);
  const auto stats = stats_of(bytes, 16);
  synth::Fields fields(stats, 100000);
  CHECK(synth::telling_bits(Dtype::F16, fields) == 10);
  CHECK(synth::telling_bits(Dtype::I16, fields) == 0);
  synth::Gathering gathering(16, 10);
  gathering.add({bytes.data(), bytes.size() / 2, 16});
  const auto top = gathering.take();
  synth::Fields few(top, 100000);
  CHECK(synth::telling_bits(Dtype::F16, few) == 0);
  const auto all_known = synth::known_good(Dtype::F16, fields, 1), top_known = synth::known_good(Dtype::F16, few, 1);
  REQUIRE(top_known.front().cost);
  CHECK(*top_known.front().cost <= *all_known.front().cost + stats.words);
  CHECK(*all_known.front().cost <= *top_known.front().cost + stats.words);
  const auto tables = synth::tables_by_stats(top_known.front().expr, few);
  const auto same = synth::tables_by_stats(top_known.front().expr, fields);
  REQUIRE(tables);
  REQUIRE(tables->has_value());
  CHECK(**tables == **same);
  for (size_t i = 0; i < bytes.size(); i += 2) bytes[i] &= 0xf0;  // rounded
  const auto rounded = stats_of(bytes, 16);
  synth::Fields of_rounded(rounded, 100000);
  CHECK(synth::telling_bits(Dtype::F16, of_rounded) == 0);
}
