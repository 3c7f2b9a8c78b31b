// SPDX-License-Identifier: Apache-2.0
//
// repeat(k; P): P's stream k >= 2 times. A range is planned from at most one period of the child; the rest of it is a
// copy of what then stands in the output already, so that a period of one word costs no more pieces than a long one.
#include <cstring>

#include "dsl/op.h"
#include "dsl/ops/sample.h"
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

constexpr uint64_t kMostPeriod = 8192;

// The least period that all windows have, and halves, whose equality no window shows.
void propose(const Target& target, std::vector<Proposal>& out) {
  const uint64_t n = target.words;
  if (n < 4) return;
  const bits::ConstWords first = target.windows.front().words;
  const auto has_period = [&](uint64_t period) {
    return std::all_of(target.windows.begin(), target.windows.end(), [&](const Window& window) {
      if (window.words.count <= period) return true;
      const size_t lane = window.words.lane();
      return std::memcmp(window.words.data, window.words.data + period * lane, (window.words.count - period) * lane) ==
             0;
    });
  };
  for (uint64_t period = 1; period <= std::min<uint64_t>(kMostPeriod, first.count / 2); ++period) {
    if (n % period != 0 || n / period < 2 || first.at(0) != first.at(period) || !has_period(period)) continue;
    out.push_back({{n / period}, {target.dtype}});
    break;
  }
  if (n % 2 == 0 && n >= 4096 && (out.empty() || out.back().params != std::vector<uint64_t>{2}))
    out.push_back({{2}, {target.dtype}});
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
    .propose = propose,
};

}  // namespace brevis::dsl
