// SPDX-License-Identifier: Apache-2.0
//
// concat(n1, .., n(k-1); P1, .., Pk): the streams of k >= 2 children one after the other. Child i has ni >= 1 words,
// the last one all that remain (possibly none), so that one program serves tensors whose length differs at the end.
#include <algorithm>

#include "dsl/op.h"
#include "dsl/ops/sample.h"
#include "dsl/plan.h"

namespace brevis::dsl {
namespace {

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  if (arity < 2) return make_error(Errc::invalid_argument, "needs at least two children");
  if (node.params.size() != arity - 1)
    return make_error(Errc::invalid_argument,
                      "needs the length of every child but the last: " + std::to_string(arity - 1) +
                          " parameters, not " + std::to_string(node.params.size()));
  uint64_t sum = 0;
  for (const uint64_t length : node.params) {
    if (length == 0) return make_error(Errc::invalid_argument, "a child of no words");
    if (length > UINT64_MAX - sum) return make_error(Errc::invalid_argument, "lengths sum to more than 64 bits");
    sum += length;
  }
  return std::vector<uint8_t>(arity, node.width);
}

Status child_lengths(const Node& node, uint64_t n, std::span<const uint64_t>, std::span<uint64_t> lengths) {
  uint64_t rest = n;
  for (size_t i = 0; i < node.params.size(); ++i) {
    if (node.params[i] > rest)
      return make_error(Errc::corrupt, "a stream of " + std::to_string(n) + " words is shorter than its parts");
    lengths[i] = node.params[i];
    rest -= node.params[i];
  }
  lengths[node.params.size()] = rest;
  return {};
}

Status plan(const Node& node, uint64_t n, uint64_t first, uint64_t count, PlanSink& sink) {
  uint64_t begin = 0;
  for (uint32_t i = 0; i <= node.params.size() && count > 0; ++i) {
    const bool last = i == node.params.size();
    if (!last && node.params[i] > n - begin)
      return make_error(Errc::corrupt, "a stream of " + std::to_string(n) + " words is shorter than its parts");
    const uint64_t length = last ? n - begin : node.params[i];
    if (first - begin < length) {
      const uint64_t part = std::min(count, length - (first - begin));
      BREVIS_TRY(sink.child(i, length, first - begin, part));
      first += part;
      count -= part;
    }
    begin += length;
  }
  return {};
}

// Halves and quarters, and where a sample shows that words change their nature: constant windows beside others.
void propose(const Target& target, std::vector<Proposal>& out) {
  const uint64_t n = target.words;
  if (n < 4096 || target.histogram->counts.size() < 2) return;
  std::vector<uint64_t> cuts{n / 2, n / 4, n - n / 4};
  const auto constant = [](bits::ConstWords words) {
    for (size_t i = 1; i < words.count; ++i)
      if (words.at(i) != words.at(0)) return false;
    return true;
  };
  for (size_t i = 1; i < target.windows.size() && cuts.size() < 7; ++i) {
    const Window &before = target.windows[i - 1], &window = target.windows[i];
    if (constant(before.words) == constant(window.words)) continue;
    const uint64_t end = before.position + before.words.count;
    cuts.push_back(constant(before.words) ? end : window.position);
  }
  for (size_t i = 0; i < cuts.size(); ++i)
    if (cuts[i] > 0 && cuts[i] < n &&
        std::find(cuts.begin(), cuts.begin() + static_cast<ptrdiff_t>(i), cuts[i]) ==
            cuts.begin() + static_cast<ptrdiff_t>(i))
      out.push_back({{cuts[i]}, {target.dtype, target.dtype}});
}

}  // namespace

const OpSpec concat_op = {
    .id = OpId::concat,
    .name = "concat",
    .since = 1,
    .place = Place::skeleton,
    .child_widths = child_widths,
    .child_lengths = child_lengths,
    .plan = plan,
    .propose = propose,
};

}  // namespace brevis::dsl
