// SPDX-License-Identifier: Apache-2.0
//
// combine(f; P, Q): two streams word by word. With Q a base, P is what changed since.
//
// Params:   f.
//   xor    P ^ Q
//   add    P + Q mod 2^w
//   sub    P - Q mod 2^w
//   order  the word that stands P places after Q where words are ordered as sign-magnitude floats are, mod 2^w. Steps
//          between neighbouring snapshots are small there on both sides of zero.
// Children: P and Q of the node's width, as long as its stream.
#include "bits/combine.h"
#include "dsl/ops/gate.h"

namespace brevis::dsl {
namespace {

constexpr std::string_view kFunctions[] = {"xor", "add", "sub", "order"};

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  BREVIS_TRY(expect_params(node, 1));
  BREVIS_TRY(expect_arity(arity, 2));
  if (node.params[0] >= std::size(kFunctions)) return gate_error("unknown function " + std::to_string(node.params[0]));
  return std::vector<uint8_t>{node.width, node.width};
}

Status run(const NodeArgs& args, std::span<const bits::ConstWords> in, bits::Words out) {
  bits::combine(static_cast<bits::Combine>(args.node.params[0]), in[0], in[1], out);
  return {};
}

// With no base at hand Q is all zeros; packers that have one take the difference themselves.
Result<bool> invert(const NodeArgs& args, bits::ConstWords target, std::vector<bits::OwnedWords>& children,
                    std::vector<uint64_t>&) {
  children.clear();
  children.emplace_back(target.width, target.count);
  children.emplace_back(target.width, target.count);
  bits::uncombine(static_cast<bits::Combine>(args.node.params[0]), target, children[1].view(), children[0].words());
  return true;
}

}  // namespace

const OpSpec combine_op = {
    .id = OpId::combine,
    .name = "combine",
    .since = 1,
    .place = Place::region,
    .keywords = kFunctions,
    .child_widths = child_widths,
    .child_lengths = equal_lengths,
    .in_step = 2,
    .run = run,
    .invert = invert,
    .feature = 1u << 4,
};

}  // namespace brevis::dsl
