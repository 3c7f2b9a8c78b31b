// SPDX-License-Identifier: Apache-2.0
//
// The operator `dequantise`: what its definition says word by word, scales that are found from words alone, and streams
// that no packer writes.
#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <set>
#include <utility>

#include "dsl/op.h"
#include "dsl/text.h"
#include "support/bound.h"
#include "support/scaled_words.h"

using namespace brevis;
using namespace brevis::dsl;
using namespace brevis::test;

namespace {

using Words = std::vector<uint64_t>;

Node node_of(const Quantised& how) {
  return {OpId::dequantise,
          static_cast<uint8_t>(kScaledForms[how.type].width()),
          {how.kind, how.type, how.row, how.columns, how.rows},
          {1, 2, 3}};
}

struct Streams {
  Words scales, places, others;
};

// Words of a frame of as many as places; each stream is as long as its memory.
Result<Words> run(const Node& node, const Streams& streams, uint64_t position = 0) {
  const std::vector<std::pair<unsigned, const Words*>> given = {
      {32, &streams.scales}, {9, &streams.places}, {node.width, &streams.others}};
  std::vector<bits::OwnedWords> children;
  std::vector<bits::ConstWords> in;
  for (const auto& [width, words] : given) {
    bits::OwnedWords& child = children.emplace_back(width, words->size());
    for (size_t i = 0; i < words->size(); ++i) child.words().set(i, (*words)[i]);
  }
  for (const bits::OwnedWords& child : children) in.push_back(child.view());
  const Words counts = {streams.scales.size(), streams.others.size()};
  bits::OwnedWords out(node.width, streams.places.size());
  BREVIS_TRY(spec_of(OpId::dequantise).run({node, nullptr, position, counts, nullptr}, in, out.words()));
  Words words;
  for (size_t i = 0; i < out.count(); ++i) words.push_back(out.view().at(i));
  return words;
}

bool is_corrupt(const Node& node, const Streams& streams, uint64_t position = 0) {
  const auto words = run(node, streams, position);
  return !words && words.error().kind() == Errc::corrupt;
}

Words words_in(const bits::OwnedWords& words) {
  Words out;
  for (size_t i = 0; i < words.count(); ++i) out.push_back(words.view().at(i));
  return out;
}

// What invert() makes of words, after they were run back to the same.
Streams inverted(const Node& node, const bits::OwnedWords& words, uint64_t position = 0) {
  std::vector<bits::OwnedWords> children;
  Words counts;
  REQUIRE(
      must(spec_of(OpId::dequantise).invert({node, nullptr, position, {}, nullptr}, words.view(), children, counts)));
  REQUIRE(children.size() == 3);
  const Streams streams{words_in(children[0]), words_in(children[1]), words_in(children[2])};
  REQUIRE(counts == Words{streams.scales.size(), streams.others.size()});
  REQUIRE(must(run(node, streams, position)) == words_in(words));
  return streams;
}

size_t blocks_met(const Quantised& how, uint64_t position, size_t count) {
  std::set<std::pair<uint64_t, uint64_t>> met;
  for (uint64_t t = position; t < position + count; ++t) met.emplace(t / how.row / how.rows, t % how.row / how.columns);
  return met.size();
}

}  // namespace

TEST_CASE("dequantise: words are what the definition says, wherever a frame begins") {
  for (const auto& [row, columns, rows] : std::vector<std::array<uint64_t, 3>>{
           {12, 12, 1}, {12, 5, 2}, {7, 1, 4}, {30, 8, 1u << 20}, {400, 400, 3}, {2000, 300, 2}})
    for (unsigned kind = 0; kind < 4; ++kind)
      for (unsigned type = 0; type < 3; ++type)
        for (const auto& [position, count] : std::vector<std::pair<uint64_t, uint64_t>>{
                 {0, 900}, {11, 900}, {(uint64_t{1} << 50) + 12345, 900}, {11, 4}, {6, 3}, {29, 1}, {399, 9}}) {
          CAPTURE(row);
          CAPTURE(columns);
          CAPTURE(rows);
          CAPTURE(kind);
          CAPTURE(type);
          CAPTURE(position);
          CAPTURE(count);
          Random random(position + kind + 5 * type);
          std::map<std::pair<uint64_t, uint64_t>, float> scales;  // by block
          Streams streams;
          Words expected;
          for (uint64_t t = position; t < position + count; ++t) {
            const std::pair block{t / row / rows, t % row / columns};
            if (!scales.contains(block)) {
              const uint32_t sign = random.below(4) == 0 ? 0x80000000 : 0;
              // From the least to the largest that is allowed, and zeros.
              const auto size = static_cast<uint32_t>(
                  random.below(9) == 0 ? 0 : 64u << 23 | ((random.below(127) << 23) + (random.next() & 0x7fffff)));
              scales[block] = std::bit_cast<float>(sign | size);
              streams.scales.push_back(sign | size);
            }
            streams.places.push_back(random.below(512) & (random.below(2) ? 511 : 15));
            if (streams.places.back() == 0) {
              streams.others.push_back(random.next() & bits::low_mask(kScaledForms[type].width()));
              expected.push_back(streams.others.back());
            } else {
              const float level = level_at(kind, static_cast<unsigned>(streams.places.back()));
              expected.push_back(scaled_word(type, level, scales[block]));
            }
          }
          const Node node = node_of({kind, type, row, columns, rows});
          REQUIRE(must(run(node, streams, position)) == expected);
        }
}

TEST_CASE("dequantise: scales are found from words alone, also where frames cut blocks") {
  struct Case {
    std::string_view what;
    Quantised how;
  };
  constexpr uint64_t kLong = 1u << 20;
  const Case cases[] = {
      {"four bits by groups of 32 in BF16", {0, 1, 512, 32, 1, 4}},
      {"four bits by groups of 32 in F16", {0, 2, 512, 32, 1, 4}},
      {"four bits by groups of 32 in F32", {0, 0, 512, 32, 1, 4}},
      {"eight bits by groups of 32 in BF16", {0, 1, 512, 32, 1, 8}},
      {"eight bits by groups of 32 in F16", {0, 2, 512, 32, 1, 8}},
      {"eight bits by groups of 128 in F32", {0, 0, 512, 128, 1, 8}},
      {"eight bits by rows in BF16", {0, 1, 300, 300, 1, 8}},
      {"four bits by rows in F16", {0, 2, 301, 301, 1, 4}},
      {"eight bits by columns in BF16", {0, 1, 40, 1, kLong, 8}},
      {"four bits by columns in F16", {0, 2, 33, 1, kLong, 4}},
      {"eight bits by the tensor in F32", {0, 0, 100, 100, kLong, 8}},
      {"four bits by groups of 64 down columns in F16", {0, 2, 50, 1, 64, 4}},
      {"E4M3 by squares of 32 in BF16", {1, 1, 96, 32, 32}},
      {"E4M3 by squares of 64, the last ones cut, in F32", {1, 0, 150, 64, 64}},
      {"E5M2 by rows in F32", {2, 0, 256, 256, 1}},
      {"NF4 by groups of 64 in BF16", {3, 1, 256, 64, 1}},
      {"NF4 by groups of 64 in F16", {3, 2, 256, 64, 1}},
      {"NF4 by groups of 64 in F32", {3, 0, 256, 64, 1}},
  };
  constexpr size_t kWords = 12000;
  for (const Case& one : cases) {
    CAPTURE(one.what);
    const Node node = node_of(one.how);
    for (const uint64_t position : {uint64_t{0}, uint64_t{4097}, (uint64_t{1} << 40) + 77}) {
      CAPTURE(position);
      for (const bool broken : {false, true}) {
        bits::OwnedWords words = scaled_words(one.how, position, kWords, 7 + position);
        const uint64_t infinity = kScaledForms[one.how.type].infinity();
        size_t no_numbers = 0;
        for (size_t i = 5; broken && i < kWords; i += 97, ++no_numbers) words.words().set(i, infinity | i % 3);
        const Streams streams = inverted(node, words, position);
        CHECK(streams.scales.size() == blocks_met(one.how, position, kWords));
        CHECK((streams.others.size() - no_numbers) * 16 <= kWords);
      }
    }
  }
}

TEST_CASE("dequantise: levels are those that a block was made of") {
  for (const unsigned type : {0u, 1u, 2u}) {
    CAPTURE(type);
    const Node node = node_of({0, type, 16, 16, 1});
    const auto words_at = [&](float scale, const std::vector<unsigned>& places) {
      bits::OwnedWords words(node.width, places.size());
      for (size_t i = 0; i < places.size(); ++i) words.words().set(i, scaled_word(type, level_at(0, places[i]), scale));
      return words;
    };
    Streams streams;
    const auto look = [&](float scale, const std::vector<unsigned>& places) {
      streams = inverted(node, words_at(scale, places));
      REQUIRE(streams.scales.size() == 1);
      CHECK(streams.others.empty());
    };
    const auto scale = [&] { return std::bit_cast<float>(static_cast<uint32_t>(streams.scales[0])); };
    std::vector<unsigned> places;
    for (unsigned k = 0; k < 16; ++k) places.push_back(256 - 8 + (k * 5 + 3) % 16);
    for (const float size : {0.0625f, 0.01171875f, 3.0f}) {
      look(size, places);
      CHECK(scale() == size);
      CHECK(streams.places == Words(places.begin(), places.end()));
      // The largest word stands for the lowest level, whatever its sign.
      look(-size, places);
      CHECK(scale() == -size);
      CHECK(std::ranges::count(streams.places, 256u - 8) == 1);
    }
    // Zeros alone, of both signs.
    look(0.5f, std::vector<unsigned>(16, 256));
    CHECK(scale() == 0);
    for (unsigned k = 0; k < 16; k += 3) places[k] = 1;
    look(0.5f, places);
    look(0.5f, std::vector<unsigned>(16, 1));
    CHECK(streams.places == Words(16, 1));
  }
}

TEST_CASE("dequantise: the largest weight need not have the largest of the levels") {
  Random random(5);
  const auto look = [&](unsigned kind, unsigned type, unsigned top, unsigned sign) {
    CAPTURE(kind);
    CAPTURE(type);
    CAPTURE(top);
    bits::OwnedWords words(kScaledForms[type].width(), 64);
    const float scale = draw_scale(random);
    for (size_t i = 0; i < words.count(); ++i) {
      // Places of eight-bit floats are 1 + code; of integers 256 + k.
      const auto size = static_cast<unsigned>(i == 9 ? top : random.below(top + 1));
      const unsigned negative = i == 9 ? sign : static_cast<unsigned>(random.below(2));
      const unsigned place = kind == 0 ? (negative != 0 ? 256 - size : 256 + size) : 1 + size + 128 * negative;
      words.words().set(i, scaled_word(type, level_at(kind, place), scale));
    }
    CHECK(inverted(node_of({kind, type, 64, 64, 1}), words).others.empty());
  };
  for (const unsigned sign : {0u, 1u})
    for (const unsigned type : {0u, 1u}) {
      for (unsigned code = 0x70; code < 0x7f; ++code) look(1, type, code, sign);
      for (unsigned code = 0x74; code < 0x7c; ++code) look(2, type, code, sign);
      for (unsigned integer = 1; integer < 128; ++integer) look(0, type, integer, sign);
    }
}

TEST_CASE("dequantise: blocks of any words at all come back, as they are stored") {
  Random random(3);
  for (const unsigned type : {0u, 1u, 2u})
    for (unsigned kind = 0; kind < 4; ++kind) {
      CAPTURE(type);
      CAPTURE(kind);
      const FloatForm form = kScaledForms[type];
      bits::OwnedWords words(form.width(), 5000);
      for (size_t i = 0; i < words.count(); ++i) words.words().set(i, random.next() & bits::low_mask(form.width()));
      const Streams streams = inverted(node_of({kind, type, 250, 125, 4}), words, 333);
      CHECK(streams.places == Words(words.count(), 0));
      CHECK(streams.others == words_in(words));
      CHECK(streams.scales == Words(streams.scales.size(), 0));
      for (size_t i = 0; i < words.count(); ++i) words.words().set(i, draw_odd(form, random));
      inverted(node_of({kind, type, 100, 20, 1}), words, 3);
      inverted(node_of({kind, type, 1, 1, 1}), words, 3);
    }
  for (const unsigned type : {0u, 1u, 2u})
    for (const uint64_t row : {1u, 7u, 1u << 20}) {
      const Node node = node_of({0, type, row, std::min<uint64_t>(row, 100), 2});
      CHECK(inverted(node, bits::OwnedWords(node.width, 0), 5).scales.empty());
      CHECK(inverted(node, bits::OwnedWords(node.width, 1), 5).scales.size() == 1);
    }
}

TEST_CASE("dequantise: streams that no packer writes are corrupt") {
  static constexpr uint64_t kOne = 0x3f800000;
  const Node node = node_of({0, 1, 4, 2, 2});
  const Streams good{{kOne, 0x40000000}, {257, 258, 259, 0, 256, 1, 0, 255}, {9, 8}};
  CHECK(must(run(node, good)) == Words{0x3f80, 0x4000, 0x40c0, 9, 0, 0x8000, 8, 0xc000});
  const auto changed = [&](const std::function<void(Streams&)>& change, uint64_t position = 0) {
    Streams streams = good;
    change(streams);
    return is_corrupt(node, streams, position);
  };
  // A count of scales other than that of blocks, wherever the frame begins.
  CHECK(changed([](Streams& s) { s.scales.pop_back(); }));
  CHECK(changed([](Streams& s) { s.scales.clear(); }));
  CHECK(changed([](Streams& s) { s.scales.push_back(kOne); }));
  CHECK(changed([](Streams& s) { s.scales.assign(8, kOne); }));
  for (uint64_t position = 0; position < 24; ++position) {
    CAPTURE(position);
    const size_t blocks = blocks_met({0, 1, 4, 2, 2}, position, 8);
    for (size_t scales = 0; scales <= 8; ++scales)
      CHECK(changed([&](Streams& s) { s.scales.assign(scales, kOne); }, position) == (scales != blocks));
  }
  // A count of words other than that of places without a level.
  CHECK(changed([](Streams& s) { s.others.pop_back(); }));
  CHECK(changed([](Streams& s) { s.others.push_back(7); }));
  CHECK(changed([](Streams& s) { s.others.clear(); }));
  CHECK(changed([](Streams& s) { s.places[0] = 0; }));
  CHECK(changed([](Streams& s) { s.places[3] = 300; }));
  CHECK(changed([](Streams& s) { s.places.assign(8, 0); }));
  // Scales out of bounds, the first or the last, also where no word is made with them.
  for (const uint64_t sign : {0u, 0x80000000u})
    for (const auto& [scale, is_good] : std::vector<std::pair<uint64_t, bool>>{{0, true},
                                                                               {1, false},
                                                                               {0x7fffff, false},
                                                                               {0x00800000, false},
                                                                               {(64u << 23) - 1, false},
                                                                               {64u << 23, true},
                                                                               {(191u << 23) - 1, true},
                                                                               {191u << 23, false},
                                                                               {0x7f7fffff, false},
                                                                               {0x7f800000, false},
                                                                               {0x7f800001, false},
                                                                               {0x7fffffff, false}})
      for (const size_t at : {0, 1}) {
        CAPTURE(scale);
        CHECK(changed([&](Streams& s) { s.scales[at] = sign | scale; }) == !is_good);
        CHECK(changed([&](Streams& s) {
                s.scales[at] = sign | scale;
                s.places.assign(8, 0);
                s.others.assign(8, 5);
              }) == !is_good);
      }
  // Every place has words, those without a level zeros.
  for (unsigned kind = 0; kind < 4; ++kind)
    for (uint64_t place = 1; place < 512; ++place) {
      const uint32_t word = scaled_word(1, level_at(kind, static_cast<unsigned>(place)), 1);
      REQUIRE(must(run(node_of({kind, 1, 4, 4, 1}), {{kOne}, {place}, {}})) == Words{word});
    }
  // Counts of which a frame cannot have so many.
  const OpSpec& spec = spec_of(OpId::dequantise);
  Words lengths(3);
  CHECK(spec.child_lengths(node, 8, Words{8, 8}, lengths));
  CHECK(lengths == Words{8, 8, 8});
  CHECK_FALSE(spec.child_lengths(node, 8, Words{9, 0}, lengths));
  CHECK_FALSE(spec.child_lengths(node, 8, Words{0, 9}, lengths));
  CHECK_FALSE(spec.child_lengths(node, 8, Words{uint64_t{1} << 60, 0}, lengths));
}

TEST_CASE("dequantise: the gate refuses parameters that cannot be") {
  const auto is_good = [](unsigned width, const std::string& params) {
    return parse_program("u" + std::to_string(width) + " = dequantise(" + params +
                         "; literal(raw), literal(packed), literal(raw))")
        .has_value();
  };
  const OpSpec& spec = spec_of(OpId::dequantise);
  const auto opens = [&](unsigned width, Words params, size_t arity = 3) {
    return spec.child_widths({OpId::dequantise, static_cast<uint8_t>(width), std::move(params), {}}, arity).has_value();
  };
  CHECK(is_good(16, "integer, 1, 4096, 128, 128"));
  CHECK(is_good(16, "e4m3, 2, 1, 1, 1"));
  CHECK(is_good(32, "e5m2, 0, 65536, 1, 1048576"));
  CHECK(is_good(16, "nf4, 1, 1048576, 16, 1"));
  CHECK_FALSE(is_good(16, "other, 1, 8, 8, 1"));
  CHECK_FALSE(is_good(16, "integer, 3, 8, 8, 1"));
  for (const unsigned width : {1u, 7u, 8u, 15u, 16u, 17u, 31u, 32u, 33u, 64u})
    for (uint64_t type = 0; type < 5; ++type) {
      CAPTURE(width);
      CAPTURE(type);
      CHECK(opens(width, {0, type, 8, 8, 1}) == (type < 3 && width == (type == 0 ? 32 : 16)));
    }
  for (const uint64_t kind : {uint64_t{0}, uint64_t{3}, uint64_t{4}, uint64_t{255}, uint64_t{1} << 32})
    CHECK(opens(16, {kind, 1, 8, 8, 1}) == (kind < 4));
  CHECK_FALSE(opens(16, {0, uint64_t{1} << 32 | 1, 8, 8, 1}));
  CHECK_FALSE(is_good(16, "nf4, 1, 65537, 1, 1"));
  CHECK_FALSE(is_good(16, "nf4, 1, 1048577, 128, 1"));
  CHECK_FALSE(is_good(16, "nf4, 1, 0, 0, 1"));
  CHECK_FALSE(is_good(16, "nf4, 1, 8, 0, 1"));
  CHECK_FALSE(is_good(16, "nf4, 1, 8, 9, 1"));
  CHECK_FALSE(is_good(16, "nf4, 1, 8, 8, 0"));
  CHECK_FALSE(is_good(16, "nf4, 1, 8, 8, 1048577"));
  CHECK_FALSE(is_good(16, "nf4, 1, 8, 8"));
  CHECK_FALSE(opens(16, {0, 1, 8, 8, 1, 1}));
  CHECK_FALSE(opens(16, {0, 1, 8, 8, 1}, 2));
  CHECK_FALSE(opens(16, {0, 1, 8, 8, 1}, 4));
}

TEST_CASE("dequantise: a sample that begins anywhere is read from its first word to its last") {
  for (const uint64_t row : {10u, 48u, 64u, 1003u})
    for (const uint64_t position : {uint64_t{0}, uint64_t{5}, row - 1, 128 * row, 128 * row + 3, 1280 * row - 1})
      for (const size_t count : {1u, 15u, 200u, 5000u, 40000u}) {
        CAPTURE(row);
        CAPTURE(position);
        CAPTURE(count);
        const Quantised how{0, 1, row, row, 1, 4};
        const bits::OwnedWords words = scaled_words(how, position, count, row + position);
        const codec::Histogram histogram = test::histogram_of(words.view());
        const Window window{position, words.view()};
        const std::vector<uint64_t> shape = {1u << 20, row};
        const Target target{16, Dtype::BF16, row << 20, shape, {&window, 1}, &histogram};
        std::vector<Proposal> proposals;
        spec_of(OpId::dequantise).propose(target, proposals);
        CHECK(proposals.size() <= 1);
        if (count > 4000 && row % 16 == 0) {
          REQUIRE(proposals.size() == 1);
          CHECK(proposals[0].params == Words{0, 1, row, row, 1});
        }
      }
}
