// SPDX-License-Identifier: Apache-2.0
//
// repeat(k; P): P's stream k >= 2 times. A range is planned from at most one period of the child; the rest of it is a
// copy of what then stands in the output already, so that a period of one word costs no more pieces than a long one.
#include "dsl/op.h"
#include "dsl/plan.h"

namespace brevis::dsl {
namespace {

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  if (arity != 1) return make_error(Errc::invalid_argument, "needs one child");
  if (node.params.size() != 1 || node.params[0] < 2)
    return make_error(Errc::invalid_argument, "needs one parameter: how often, at least 2");
  return std::vector<uint8_t>{node.width};
}

Status child_lengths(const Node& node, uint64_t n, std::span<const uint64_t>, std::span<uint64_t> lengths) {
  if (n % node.params[0] != 0)
    return make_error(Errc::corrupt, "a stream of " + std::to_string(n) + " words is not " +
                                         std::to_string(node.params[0]) + " times another");
  lengths[0] = n / node.params[0];
  return {};
}

Status plan(const Node& node, uint64_t n, uint64_t first, uint64_t count, PlanSink& sink) {
  if (count == 0) return {};
  uint64_t period = 0;
  BREVIS_TRY(child_lengths(node, n, {}, {&period, 1}));
  const uint64_t start = first % period;
  const uint64_t once = std::min(count, period);
  const uint64_t tail = std::min(once, period - start);
  BREVIS_TRY(sink.child(0, period, start, tail));
  if (once > tail) BREVIS_TRY(sink.child(0, period, 0, once - tail));
  if (count > once) sink.copy(period, count - once);
  return {};
}

}  // namespace

const OpSpec repeat_op = {
    .id = OpId::repeat,
    .name = "repeat",
    .since = 1,
    .place = Place::skeleton,
    .child_widths = child_widths,
    .child_lengths = child_lengths,
    .plan = plan,
};

}  // namespace brevis::dsl
