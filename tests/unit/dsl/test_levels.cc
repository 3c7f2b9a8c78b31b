// SPDX-License-Identifier: Apache-2.0
//
// The operator `levels`: what its definition says word by word, and streams that no packer writes.
#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <utility>

#include "dsl/op.h"
#include "dsl/text.h"
#include "support/bound.h"
#include "support/words.h"

using namespace brevis;
using namespace brevis::dsl;
using test::must;

namespace {

using Words = std::vector<uint64_t>;

Node node_of(Words params) { return {OpId::levels, 16, std::move(params), {1, 2, 3, 4}}; }

struct Streams {
  Words sizes, steps, places, others;
};

// Words of a frame of as many as places and others come to; each stream is as long as its memory.
Result<Words> run(const Node& node, const Streams& streams, uint64_t position = 0) {
  const std::vector<std::pair<unsigned, const Words*>> given = {
      {16, &streams.sizes}, {16, &streams.steps}, {8, &streams.places}, {16, &streams.others}};
  std::vector<bits::OwnedWords> children;
  std::vector<bits::ConstWords> in;
  for (const auto& [width, words] : given) {
    bits::OwnedWords& child = children.emplace_back(width, words->size());
    for (size_t i = 0; i < words->size(); ++i) child.words().set(i, (*words)[i]);
  }
  for (const bits::OwnedWords& child : children) in.push_back(child.view());
  const Words counts = {streams.sizes.size(), streams.steps.size(), streams.others.size()};
  bits::OwnedWords out(16, streams.places.size() + streams.others.size());
  BREVIS_TRY(spec_of(OpId::levels).run({node, nullptr, position, counts, nullptr}, in, out.words()));
  Words words;
  for (size_t i = 0; i < out.count(); ++i) words.push_back(out.view().at(i));
  return words;
}

bool is_corrupt(const Node& node, const Streams& streams) {
  const auto words = run(node, streams);
  return !words && words.error().kind() == Errc::corrupt;
}

}  // namespace

TEST_CASE("levels: words are what the definition says, wherever a frame begins") {
  const uint64_t kinds = spec_of(OpId::levels).keywords.size();
  for (const Words& grid : std::vector<Words>{{12, 12, 1}, {12, 5, 2}, {7, 1, 4}, {30, 8, 1u << 20}, {400, 400, 3}})
    for (uint64_t kind = 0; kind < kinds; ++kind)
      for (const uint64_t position : {uint64_t{0}, uint64_t{11}, (uint64_t{1} << 50) + 12345}) {
        CAPTURE(grid);
        CAPTURE(kind);
        CAPTURE(position);
        constexpr size_t kWords = 900;
        test::Random random(position + kind);
        std::map<std::pair<uint64_t, uint64_t>, Words> lists;  // by block, as places count them: negative ones first
        std::map<std::pair<uint64_t, uint64_t>, size_t> negative;
        Streams streams;
        Words expected;
        for (uint64_t t = position; t < position + kWords; ++t) {
          const std::pair block{t / grid[0] / grid[2], t % grid[0] / grid[1]};
          if (!lists.contains(block)) {
            Words& list = lists[block];
            const uint64_t below = kind == 0 ? 0 : random.below(4), above = random.below(5);
            // Magnitudes rise away from zero.
            for (uint64_t i = 0; i < below; ++i) list.push_back(0x8000 | (0x100 * (below - i) + random.below(9)));
            for (uint64_t i = 0; i < above; ++i) list.push_back(0x300 * i + random.below(9));
            negative[block] = below;
            streams.sizes.push_back(list.size());
            uint64_t last = 0;
            for (const uint64_t word : list) {
              const uint64_t key = kind == 0 ? word : word >= 0x8000 ? 0xffff - word : word + 0x8000;
              streams.steps.push_back((key - last) & 0xffff);
              last = key;
            }
          }
          const Words& list = lists[block];
          if (list.empty()) {
            streams.others.push_back(random.below(65536));
            expected.push_back(streams.others.back());
          } else {
            const uint64_t at = random.below(list.size());
            streams.places.push_back(kind == 0 ? at : 128 - negative[block] + at);
            expected.push_back(list[at]);
          }
        }
        const Node node = node_of({kind, grid[0], grid[1], grid[2]});
        REQUIRE(must(run(node, streams, position)) == expected);
      }
}

TEST_CASE("levels: streams that no packer writes are corrupt, and nothing beyond a list is read") {
  const Node plain = node_of({0, 4, 4, 1}), both = node_of({1, 4, 4, 1});
  const Streams good{{2, 0}, {5, 3}, {0, 1, 1, 0}, {9, 9, 9, 9}};
  CHECK(must(run(plain, good)) == Words{5, 8, 8, 5, 9, 9, 9, 9});
  const auto changed = [&](const std::function<void(Streams&)>& change) {
    Streams streams = good;
    change(streams);
    return is_corrupt(plain, streams);
  };
  CHECK(changed([](Streams& s) { s.places[2] = 2; }));
  CHECK(changed([](Streams& s) { s.places[2] = 255; }));
  CHECK(changed([](Streams& s) { s.sizes.pop_back(); }));
  CHECK(changed([](Streams& s) { s.sizes.push_back(0); }));
  CHECK(changed([](Streams& s) { s.sizes[0] = 3; }));
  CHECK(changed([](Streams& s) { s.sizes[0] = 1; }));
  CHECK(changed([](Streams& s) { s.steps.push_back(1); }));
  CHECK(changed([](Streams& s) { s.steps.pop_back(); }));
  CHECK(changed([](Streams& s) { s.sizes[1] = 2; }));
  CHECK(changed([](Streams& s) { s.sizes = {0, 0}; }));

  // The most a list may have, on each side.
  for (const size_t size : {128, 129, 200, 256, 257}) {
    CAPTURE(size);
    Streams negative{{size}, Words(size, 1), {}, {}}, positive = negative;
    positive.steps[0] = 0x8000;
    for (const uint64_t place : {0, 127, 128, 255}) {
      CAPTURE(place);
      negative.places = positive.places = {place, place, place, place};
      CHECK(is_corrupt(both, negative) == (size > 128 || place >= 128));
      CHECK(is_corrupt(both, positive) == (size > 128 || place < 128));
      CHECK(is_corrupt(plain, negative) == (size > 256 || place >= size));
    }
  }
}

TEST_CASE("levels: the gate refuses blocks that cannot be") {
  const auto is_good = [](const std::string& grid) {
    return parse_program("u16 = levels(" + grid + "; literal(raw), literal(raw), literal(raw), literal(raw))")
        .has_value();
  };
  CHECK(is_good("signed, 4096, 128, 128"));
  CHECK(is_good("plain, 1, 1, 1"));
  CHECK(is_good("plain, 65536, 1, 1048576"));
  CHECK(is_good("plain, 1048576, 16, 1"));
  CHECK_FALSE(is_good("plain, 65537, 1, 1"));
  CHECK_FALSE(is_good("plain, 1048577, 128, 1"));
  CHECK_FALSE(is_good("plain, 0, 0, 1"));
  CHECK_FALSE(is_good("plain, 8, 0, 1"));
  CHECK_FALSE(is_good("plain, 8, 9, 1"));
  CHECK_FALSE(is_good("plain, 8, 8, 0"));
  CHECK_FALSE(is_good("plain, 8, 8, 1048577"));
  CHECK_FALSE(is_good("plain, 8, 8"));
  CHECK_FALSE(is_good("other, 8, 8, 1"));
}
