// SPDX-License-Identifier: Apache-2.0
//
// A trial of offsets on a sample tells what the operators themselves would leave, whatever axes are asked for together.
#include <doctest/doctest.h>

#include "dsl/offset_trial.h"
#include "support/bound.h"
#include "support/words.h"

using namespace brevis;
using namespace brevis::dsl;
using test::must;

namespace {

using Axes = std::vector<std::pair<uint64_t, uint64_t>>;
using Counts = OffsetTrial::Counts;

constexpr Axes::value_type kRows{200, 50}, kColumns{1, 200}, kPhases{4, 5};

// BF16 words whose exponents depend on row, column and phase, some of them zero.
bits::OwnedWords scaled(uint64_t seed) {
  test::Random random(seed);
  bits::OwnedWords words(16, 10000);
  for (size_t i = 0; i < words.count(); ++i) {
    const uint64_t exponent = 120 + i / 200 * 7 % 6 + i % 200 * 5 % 7 + i / 4 % 5;
    words.words().set(i, random.below(20) == 0 ? 0 : random.below(2) << 15 | exponent << 7 | random.below(128));
  }
  return words;
}

Counts count(bits::ConstWords words) {
  Counts counts(1024);
  for (size_t i = 0; i < words.count; ++i) ++counts[words.at(i) >> 5 & 1023];
  return counts;
}

// What the operator does to the windows with steps fitted to them.
std::vector<Counts> by_operator(OpId op, const Axes& axes, std::span<const Window> windows) {
  Node node{op, 16, {7, 8}, {}};
  for (const auto& [stride, places] : axes) {
    node.params.push_back(stride);
    node.params.push_back(places);
  }
  Target target;
  target.width = 16;
  target.windows = windows;
  const SlotTable table = must(load_slot(node, *suit_slot(node, target)));
  std::vector<Counts> out;
  for (const Window& window : windows) {
    std::vector<bits::OwnedWords> children;
    std::vector<uint64_t> counts;
    CHECK(must(
        spec_of(op).invert({node, nullptr, window.position, {}, table.blob.get()}, window.words, children, counts)));
    out.resize(children.size(), Counts(1024));
    for (size_t c = 0; c < children.size(); ++c) {
      const Counts own = count(children[c].view());
      for (size_t v = 0; v < own.size(); ++v) out[c][v] += own[v];
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a trial of offsets tells what the operators leave") {
  const bits::OwnedWords words = scaled(3);
  const Window whole{0, words.view()};
  const Window parts[] = {{0, words.view().part(0, 700)},
                          {2111, words.view().part(2111, 1801)},
                          {5000, words.view().part(5000, 3)},
                          {7003, words.view().part(7003, 2997)}};
  for (const std::span<const Window> windows : {std::span(&whole, 1), std::span<const Window>(parts)}) {
    OffsetTrial trial(7, 8, windows, Axes{kRows, kColumns, kPhases});
    for (const Axes& axes : {Axes{kRows}, Axes{kColumns}, Axes{kPhases}, Axes{kRows, kColumns},
                             Axes{kRows, kPhases, kColumns}, Axes{kRows}}) {
      const std::vector<Counts> moved{trial.moved(axes)};
      const bool same = moved == by_operator(OpId::offset, axes, windows);
      CHECK(same);
      const bool same_dealt = trial.dealt(axes) == by_operator(OpId::select, axes, windows);
      CHECK(same_dealt);
    }
  }
  OffsetTrial trial(7, 8, {&whole, 1}, Axes{kRows});
  CHECK(trial.words() == 10000);
  const bool same = trial.plain() == count(words.view());
  CHECK(same);
}

TEST_CASE("a trial of offsets on zeros moves nothing") {
  const bits::OwnedWords words(16, 5000);
  const Window whole{0, words.view()};
  OffsetTrial trial(7, 8, {&whole, 1}, Axes{kRows, kColumns});
  const bool same = trial.plain() == count(words.view());
  CHECK(same);
  const bool still = trial.moved(Axes{kRows, kColumns}) == trial.plain();
  CHECK(still);
}

TEST_CASE("sums of an offset's places do not overflow, however long the stream") {
  // All words at the far end of the cut, in a period so short that its sums have to be put away often.
  bits::OwnedWords words(16, 3u << 20);
  for (size_t i = 0; i < words.count(); ++i) words.words().set(i, uint64_t{i % 2 == 0 ? 100u : 140u} << 7);
  const Node node{OpId::offset, 16, {7, 8, 1, 2}, {1}};
  const Window whole{0, words.view()};
  Target target;
  target.width = 16;
  target.windows = {&whole, 1};
  const SlotTable table = must(load_slot(node, *suit_slot(node, target)));
  std::vector<bits::OwnedWords> children;
  std::vector<uint64_t> counts;
  CHECK(must(spec_of(OpId::offset).invert({node, nullptr, 0, {}, table.blob.get()}, words.view(), children, counts)));
  // The cut lies ten binades from the middle, which is one of the two.
  const uint64_t first = children[0].view().at(0) >> 7, second = children[0].view().at(1) >> 7;
  const uint64_t apart = std::max(first, second) - std::min(first, second);
  CHECK(apart == 30);
  const uint64_t last = children[0].view().at(words.count() - 2) >> 7;
  CHECK(last == first);
}
