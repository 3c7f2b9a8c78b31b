// SPDX-License-Identifier: Apache-2.0
//
// base: words of other archives' originals, which the record names as spans of bytes (docs/format.md, "Bases"). On the
// spine it is a stretch taken over as it is; inside a region it gives the words at the frame's own place, so that one
// frame here needs the same range there and nothing else.
//
// Params:   none. Children: none. Words of 8, 16, 32 or 64 bits.
// Frame:    stores nothing. exec hands out the words, which its caller has fetched: run and invert stay empty here.
#include "dsl/ops/gate.h"
#include "dsl/plan.h"

namespace brevis::dsl {
namespace {

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  BREVIS_TRY(expect_params(node, 0));
  BREVIS_TRY(expect_arity(arity, 0));
  if (node.width != 8 && node.width != 16 && node.width != 32 && node.width != 64)
    return gate_error("words of " + std::to_string(node.width) + " bits: 8, 16, 32 or 64 are possible");
  return std::vector<uint8_t>{};
}

Status plan(const Node& node, uint64_t, uint64_t first, uint64_t count, PlanSink& sink) {
  const uint64_t bytes = node.width / 8u;
  if (count > 0) sink.base(static_cast<uint32_t>(node.base), first * bytes, count * bytes);
  return {};
}

}  // namespace

const OpSpec base_op = {
    .id = OpId::base,
    .name = "base",
    .since = 1,
    .place = Place::both,
    .child_widths = child_widths,
    .child_lengths = equal_lengths,
    .feature = 1u << 4,
    .plan = plan,
};

}  // namespace brevis::dsl
