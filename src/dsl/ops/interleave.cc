// SPDX-License-Identifier: Apache-2.0
//
// interleave(; P0, .., Pk-1): word i comes from child i mod k. For complex pairs, fused gate and up rows, packed
// scales.
//
// Params:   none. Children: k >= 2 of the node's width; child i holds ceil((n - i) / k) words.
// Word:     out[j * k + i] = Pi[j].
#include <algorithm>

#include "dsl/ops/gate.h"
#include "dsl/ops/sample.h"

namespace brevis::dsl {
namespace {

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  BREVIS_TRY(expect_params(node, 0));
  if (arity < 2) return gate_error("needs at least two programs");
  return std::vector<uint8_t>(arity, node.width);
}

Status child_lengths(const Node&, uint64_t n, std::span<const uint64_t>, std::span<uint64_t> lengths) {
  const uint64_t k = lengths.size();
  for (uint64_t i = 0; i < k; ++i) lengths[i] = n / k + (i < n % k);
  return {};
}

uint64_t period(const Node& node) { return node.children.size(); }

Status run(const NodeArgs&, std::span<const bits::ConstWords> in, bits::Words out) {
  const size_t k = in.size();
  bits::visit_lane(out.width, [&]<class T>(T) {
    for (size_t i = 0; i < k; ++i) {
      const std::span<const T> from = in[i].as<T>();
      T* to = out.as<T>().data() + i;
      if (k == 2)
        for (size_t j = 0; j < from.size(); ++j) to[j * 2] = from[j];
      else
        for (size_t j = 0; j < from.size(); ++j) to[j * k] = from[j];
    }
  });
  return {};
}

Result<bool> invert(const NodeArgs& args, bits::ConstWords target, std::vector<bits::OwnedWords>& children,
                    std::vector<uint64_t>&) {
  const size_t k = args.node.children.size();
  children.clear();
  bits::visit_lane(target.width, [&]<class T>(T) {
    for (size_t i = 0; i < k; ++i) {
      children.emplace_back(target.width, target.count / k + (i < target.count % k));
      const std::span<T> to = children[i].words().as<T>();
      const T* from = target.as<T>().data() + i;
      for (size_t j = 0; j < to.size(); ++j) to[j] = from[j * k];
    }
  });
  return true;
}

constexpr size_t kMeasured = 16384;  // words

constexpr size_t kTurns = 12;  // a multiple of all numbers of children that are proposed

// What words cost byte by byte, in one stream (k = 1) and in k that take turns. Windows are taken to begin at their
// position.
template <class T>
std::array<uint64_t, 5> costs_of(const Target& target) {
  std::array<BytePlanes<T>, kTurns> turns;
  const size_t each = words_each(target, kMeasured);
  for (const Window& window : target.windows) {
    const T* const in = window.words.as<T>().data();
    size_t turn = window.position % kTurns;
    for (size_t i = 0; i < std::min(each, window.words.count); ++i) {
      turns[turn].add(in[i]);
      if (++turn == kTurns) turn = 0;
    }
  }
  std::array<uint64_t, 5> costs{};
  for (const size_t k : {1, 2, 3, 4}) {
    std::array<BytePlanes<T>, 4> parts;
    for (size_t turn = 0; turn < kTurns; ++turn) parts[turn % k].add(turns[turn]);
    for (size_t part = 0; part < k; ++part) costs[k] += parts[part].cost();
  }
  return costs;
}

// Numbers of children for which the words of each are more alike than all together.
void propose(const Target& target, std::vector<Proposal>& out) {
  const uint64_t sampled = sampled_words(target);
  if (sampled < 256 || target.histogram->counts.size() < 2) return;
  std::array<uint64_t, 5> costs;
  bits::visit_lane(target.width, [&]<class T>(T) { costs = costs_of<T>(target); });
  for (const size_t k : {2, 3, 4}) {
    // Fewer words a table already look like less entropy, by about half a bit a value.
    const uint64_t slack = k * 256 * 128 * ((target.width + 7) / 8);
    if (costs[k] + costs[k] / 32 + slack < costs[1]) out.push_back({{}, std::vector<Dtype>(k, target.dtype)});
  }
}

}  // namespace

const OpSpec interleave_op = {
    .id = OpId::interleave,
    .name = "interleave",
    .since = 1,
    .place = Place::region,
    .child_widths = child_widths,
    .child_lengths = child_lengths,
    .period = period,
    .run = run,
    .invert = invert,
    .propose = propose,
};

}  // namespace brevis::dsl
