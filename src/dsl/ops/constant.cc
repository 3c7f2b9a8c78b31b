// SPDX-License-Identifier: Apache-2.0
//
// constant(v): every word is v, v < 2^w. Nothing is stored in frames, so it may stand on the spine and inside regions.
#include "dsl/op.h"
#include "dsl/ops/sample.h"
#include "dsl/plan.h"

namespace brevis::dsl {
namespace {

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  if (arity != 0) return make_error(Errc::invalid_argument, "has no children");
  if (node.params.size() != 1) return make_error(Errc::invalid_argument, "needs one parameter: the word");
  if (node.params[0] > bits::low_mask(node.width))
    return make_error(Errc::invalid_argument,
                      std::to_string(node.params[0]) + " has more than " + std::to_string(node.width) + " bits");
  return std::vector<uint8_t>{};
}

Status child_lengths(const Node&, uint64_t, std::span<const uint64_t>, std::span<uint64_t>) { return {}; }

Status run(const NodeArgs& args, std::span<const bits::ConstWords>, bits::Words out) {
  bits::visit_lane(out.width, [&]<class T>(T) {
    for (T& word : out.as<T>()) word = static_cast<T>(args.node.params[0]);
  });
  return {};
}

Result<bool> invert(const NodeArgs& args, bits::ConstWords target, std::vector<bits::OwnedWords>&,
                    std::vector<uint64_t>&) {
  return bits::visit_lane(target.width, [&]<class T>(T) {
    for (const T word : target.as<T>())
      if (word != args.node.params[0]) return false;
    return true;
  });
}

bool push_down(const NodeArgs& args, const codec::Histogram& target, std::vector<std::optional<codec::Histogram>>&) {
  for (const auto& [word, count] : target.counts)
    if (word != args.node.params[0]) return false;
  return true;
}

Status plan(const Node& node, uint64_t, uint64_t first, uint64_t count, PlanSink& sink) {
  if (count > 0) sink.fill(node.params[0], 0, first, count);
  return {};
}

void propose(const Target& target, std::vector<Proposal>& out) {
  if (target.histogram->counts.size() == 1) out.push_back(proposal({target.histogram->counts[0].first}, 0));
}

}  // namespace

const OpSpec constant_op = {
    .id = OpId::constant,
    .name = "constant",
    .since = 1,
    .place = Place::both,
    .child_widths = child_widths,
    .child_lengths = child_lengths,
    .run = run,
    .invert = invert,
    .push_down = push_down,
    .plan = plan,
    .propose = propose,
};

}  // namespace brevis::dsl
