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
#include "dsl/ops/sample.h"

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

constexpr unsigned kMostJointBits = 4;  // of a mantissa, coded with the exponent

void propose_float(const DtypeInfo& info, std::vector<std::vector<uint64_t>>& cuts) {
  // Two mantissa bits are the likeliest to pay, then one; the sign is mostly noise.
  for (const unsigned joint : {2u, 1u, 3u, 0u, kMostJointBits}) {
    if (joint > info.mantissa_bits) continue;
    const uint64_t head = info.exponent_bits + joint, rest = info.mantissa_bits - joint;
    std::vector<uint64_t> apart{head}, along{info.sign_bits + head};
    if (info.sign_bits != 0) apart.insert(apart.begin(), info.sign_bits);
    for (auto* cut : {&apart, &along}) {
      if (rest != 0) cut->push_back(rest);
      if (cut->size() > 1) cuts.push_back(*cut);
      if (joint == 0 || joint == kMostJointBits) break;
    }
  }
  // Low bytes by themselves: quantised or truncated weights repeat there.
  if (info.mantissa_bits >= 16) {
    std::vector<uint64_t> bytes{info.sign_bits, info.exponent_bits + uint64_t{2}};
    for (uint64_t left = info.mantissa_bits - 2u; left > 0; left -= bytes.back())
      bytes.push_back(left % 8 != 0 ? left % 8 : 8);
    cuts.push_back(bytes);
  }
}

void propose(const Target& target, std::vector<Proposal>& out) {
  const unsigned w = target.width;
  std::vector<std::vector<uint64_t>> cuts;
  if (target.dtype == Dtype::C64 && w == 64) out.push_back({{32, 32}, {Dtype::F32, Dtype::F32}});
  if (float_of(target) != Dtype::unknown) propose_float(dtype_info(target.dtype), cuts);
  // Bits that never change, above and below.
  const uint64_t changing = changing_bits(*target.histogram);
  if (changing != 0) {
    const auto low = static_cast<unsigned>(std::countr_zero(changing));
    const unsigned high = w - static_cast<unsigned>(std::bit_width(changing));
    std::vector<uint64_t> cut;
    if (high != 0) cut.push_back(high);
    cut.push_back(w - high - low);
    if (low != 0) cut.push_back(low);
    if (cut.size() > 1) cuts.push_back(cut);
  }
  if (w > 8 && w % 8 == 0) cuts.push_back(std::vector<uint64_t>(w / 8, 8));
  if (w > 16 && w % 16 == 0) cuts.push_back(std::vector<uint64_t>(w / 16, 16));
  if (w == 8) cuts.push_back({4, 4});
  if (w == 16) cuts.push_back({12, 4});
  for (size_t i = 0; i < cuts.size(); ++i)
    if (std::find(cuts.begin(), cuts.begin() + static_cast<ptrdiff_t>(i), cuts[i]) ==
        cuts.begin() + static_cast<ptrdiff_t>(i))
      out.push_back(proposal(cuts[i], cuts[i].size()));
}

}  // namespace

const OpSpec merge_op = {
    .id = OpId::merge,
    .name = "merge",
    .since = 1,
    .place = Place::region,
    .child_widths = child_widths,
    .child_lengths = equal_lengths,
    .in_step = 64,
    .run = run,
    .invert = invert,
    .push_down = push_down,
    .propose = propose,
    .total = true,
};

}  // namespace brevis::dsl
