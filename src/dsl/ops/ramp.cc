// SPDX-License-Identifier: Apache-2.0
//
// ramp(v, step): word i is v + i * step mod 2^w, v and step < 2^w. On the spine i counts from the start of the stream.
// Inside a region word j of a frame takes i = j + the place of the frame's first word in the region's stream, at every
// node, so that a ramp beside a literal goes on from frame to frame.
#include "dsl/op.h"
#include "dsl/ops/sample.h"
#include "dsl/plan.h"

namespace brevis::dsl {
namespace {

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  if (arity != 0) return make_error(Errc::invalid_argument, "has no children");
  if (node.params.size() != 2) return make_error(Errc::invalid_argument, "needs two parameters: first word and step");
  for (const uint64_t param : node.params)
    if (param > bits::low_mask(node.width))
      return make_error(Errc::invalid_argument,
                        std::to_string(param) + " has more than " + std::to_string(node.width) + " bits");
  return std::vector<uint8_t>{};
}

Status child_lengths(const Node&, uint64_t, std::span<const uint64_t>, std::span<uint64_t>) { return {}; }

uint64_t first_word(const NodeArgs& args) { return args.node.params[0] + args.position * args.node.params[1]; }

Status run(const NodeArgs& args, std::span<const bits::ConstWords>, bits::Words out) {
  bits::visit_lane(out.width, [&]<class T>(T) {
    const uint64_t mask = bits::low_mask(out.width);
    uint64_t word = first_word(args);
    for (T& to : out.as<T>()) {
      to = static_cast<T>(word & mask);
      word += args.node.params[1];
    }
  });
  return {};
}

Result<bool> invert(const NodeArgs& args, bits::ConstWords target, std::vector<bits::OwnedWords>&,
                    std::vector<uint64_t>&) {
  return bits::visit_lane(target.width, [&]<class T>(T) {
    const uint64_t mask = bits::low_mask(target.width);
    uint64_t word = first_word(args);
    for (const T have : target.as<T>()) {
      if (have != (word & mask)) return false;
      word += args.node.params[1];
    }
    return true;
  });
}

Status plan(const Node& node, uint64_t, uint64_t first, uint64_t count, PlanSink& sink) {
  if (count > 0) sink.fill(node.params[0], node.params[1], first, count);
  return {};
}

void propose(const Target& target, std::vector<Proposal>& out) {
  const Window& first = target.windows.front();
  if (first.words.count < 3) return;
  const uint64_t mask = bits::low_mask(target.width);
  const uint64_t step = (first.words.at(1) - first.words.at(0)) & mask;
  const uint64_t v = (first.words.at(0) - first.position * step) & mask;
  for (const Window& window : target.windows)
    for (size_t i = 0; i < window.words.count; ++i)
      if (window.words.at(i) != ((v + (window.position + i) * step) & mask)) return;
  if (step != 0) out.push_back(proposal({v, step}, 0));
}

}  // namespace

const OpSpec ramp_op = {
    .id = OpId::ramp,
    .name = "ramp",
    .since = 1,
    .place = Place::both,
    .child_widths = child_widths,
    .child_lengths = child_lengths,
    .run = run,
    .invert = invert,
    .plan = plan,
    .propose = propose,
};

}  // namespace brevis::dsl
