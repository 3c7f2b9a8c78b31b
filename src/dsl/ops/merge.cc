// SPDX-License-Identifier: Apache-2.0
//
// merge(w1, .., wk; P1, .., Pk): bit fields of a word, most significant first. A float splits into sign, exponent and
// mantissa, whose statistics have nothing in common.
//
// Params:   k >= 2 field widths, each >= 1, that sum to the node's width.
// Children: Pi of wi bits, all as long as the node's stream.
// Word:     out[i] = P1[i] * 2^(w2+..+wk) + .. + Pk[i].
#include <algorithm>

#include "dsl/histogram.h"
#include "dsl/ops/gate.h"

namespace brevis::dsl {
namespace {

// Words handled at a time, so that the output stays in the first-level cache while the fields pass over it.
constexpr size_t kBlock = 2048;

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  if (node.params.size() < 2) return gate_error("needs at least two field widths");
  BREVIS_TRY(expect_arity(arity, node.params.size()));
  std::vector<uint8_t> widths;
  uint64_t sum = 0;
  for (const uint64_t width : node.params) {
    if (width < 1 || width > 64) return gate_error("field widths are 1..64 bits");
    sum += width;
    widths.push_back(static_cast<uint8_t>(width));
  }
  if (sum != node.width)
    return gate_error("field widths sum to " + std::to_string(sum) + ", the word has " + std::to_string(node.width) +
                      " bits");
  return widths;
}

template <class Out, class In>
void put_field(const In* in, Out* out, size_t n, unsigned shift, bool first) {
  if (first) {
    for (size_t i = 0; i < n; ++i) out[i] = static_cast<Out>(static_cast<Out>(in[i]) << shift);
  } else {
    for (size_t i = 0; i < n; ++i)
      out[i] = static_cast<Out>(out[i] | static_cast<Out>(static_cast<Out>(in[i]) << shift));
  }
}

template <class Out, class In>
void get_field(const In* in, Out* out, size_t n, unsigned shift, In mask) {
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<Out>(static_cast<In>(in[i] >> shift) & mask);
}

Status run(const NodeArgs& args, std::span<const bits::ConstWords> in, bits::Words out) {
  for (size_t at = 0; at < out.count; at += kBlock) {
    const size_t n = std::min(kBlock, out.count - at);
    unsigned shift = args.node.width;
    for (size_t k = 0; k < in.size(); ++k) {
      shift -= in[k].width;
      bits::visit_lane(out.width, [&]<class Out>(Out) {
        bits::visit_lane(in[k].width, [&]<class In>(In) {
          if constexpr (sizeof(In) <= sizeof(Out))
            put_field(in[k].as<In>().data() + at, out.as<Out>().data() + at, n, shift, k == 0);
        });
      });
    }
  }
  return {};
}

Result<bool> invert(const NodeArgs& args, bits::ConstWords target, std::vector<bits::OwnedWords>& children,
                    std::vector<uint64_t>&) {
  children.clear();
  for (const uint64_t width : args.node.params) children.emplace_back(static_cast<unsigned>(width), target.count);
  for (size_t at = 0; at < target.count; at += kBlock) {
    const size_t n = std::min(kBlock, target.count - at);
    unsigned shift = args.node.width;
    for (bits::OwnedWords& child : children) {
      shift -= child.width();
      bits::visit_lane(target.width, [&]<class In>(In) {
        bits::visit_lane(child.width(), [&]<class Out>(Out) {
          if constexpr (sizeof(Out) <= sizeof(In))
            get_field(target.as<In>().data() + at, child.words().as<Out>().data() + at, n, shift,
                      static_cast<In>(bits::low_mask(child.width())));
        });
      });
    }
  }
  return true;
}

bool push_down(const NodeArgs& args, const codec::Histogram& target,
               std::vector<std::optional<codec::Histogram>>& children) {
  children.clear();
  unsigned shift = args.node.width;
  for (const uint64_t width : args.node.params) {
    shift -= static_cast<unsigned>(width);
    const uint64_t mask = bits::low_mask(static_cast<unsigned>(width));
    Counter field(static_cast<unsigned>(width));
    for (const auto& [word, count] : target.counts) field.add(word >> shift & mask, count);
    children.emplace_back(field.histogram());
  }
  return true;
}

}  // namespace

const OpSpec merge_op = {
    .id = OpId::merge,
    .name = "merge",
    .since = 1,
    .place = Place::region,
    .child_widths = child_widths,
    .child_lengths = equal_lengths,
    .run = run,
    .invert = invert,
    .push_down = push_down,
};

}  // namespace brevis::dsl
