// SPDX-License-Identifier: Apache-2.0
//
// patch(P, G, W): P with some words replaced: for streams that differ from a base in few places.
//
// Params:   none. Children: P of the node's width, as long as its stream; G of 20 bits and W of the node's width, m
//           words each.
// Frame:    count m <= n.
// Word:     replacement j stands at p(j) = p(j-1) + 1 + G[j], p(-1) = -1: out[p(j)] = W[j]. All others are P's.
// Refused:  p(j) >= n.
#include <algorithm>

#include "dsl/ops/gate.h"
#include "dsl/verify.h"

namespace brevis::dsl {
namespace {

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  BREVIS_TRY(expect_params(node, 0));
  BREVIS_TRY(expect_arity(arity, 3));
  return std::vector<uint8_t>{node.width, static_cast<uint8_t>(kPositionBits), node.width};
}

Status child_lengths(const Node&, uint64_t n, std::span<const uint64_t> counts, std::span<uint64_t> lengths) {
  BREVIS_TRY(expect_count(n, counts));
  lengths[0] = n;
  lengths[1] = lengths[2] = counts[0];
  return {};
}

Status run(const NodeArgs&, std::span<const bits::ConstWords> in, bits::Words out) {
  return bits::visit_lane(out.width, [&]<class T>(T) -> Status {
    const std::span<const T> from = in[0].as<T>(), words = in[2].as<T>();
    const std::span<const uint32_t> gaps = in[1].as<uint32_t>();
    const std::span<T> to = out.as<T>();
    std::copy(from.begin(), from.end(), to.begin());
    uint64_t next = 0;
    for (size_t j = 0; j < gaps.size(); ++j) {
      const uint64_t at = next + gaps[j];
      if (at >= to.size()) return corrupt_stream("a replacement lies outside the frame");
      to[at] = words[j];
      next = at + 1;
    }
    return {};
  });
}

// With no base at hand P is all zeros, and every other word a replacement; packers that have one compare themselves.
Result<bool> invert(const NodeArgs&, bits::ConstWords target, std::vector<bits::OwnedWords>& children,
                    std::vector<uint64_t>& counts) {
  children.clear();
  children.emplace_back(target.width, target.count);
  bits::visit_lane(target.width, [&]<class T>(T) {
    const std::span<const T> in = target.as<T>();
    const auto others = static_cast<size_t>(std::count_if(in.begin(), in.end(), [](T word) { return word != 0; }));
    children.emplace_back(kPositionBits, others);
    children.emplace_back(target.width, others);
    uint64_t next = 0;
    for (size_t i = 0, j = 0; i < in.size(); ++i) {
      if (in[i] == 0) continue;
      children[1].words().set(j, i - next);
      children[2].words().set(j++, in[i]);
      next = i + 1;
    }
  });
  counts.assign(1, children[1].count());
  return true;
}

}  // namespace

const OpSpec patch_op = {
    .id = OpId::patch,
    .name = "patch",
    .since = 1,
    .place = Place::region,
    .counts = 1,
    .child_widths = child_widths,
    .child_lengths = child_lengths,
    .in_step = 1,
    .run = run,
    .invert = invert,
    .feature = 1u << 4,
};

}  // namespace brevis::dsl
