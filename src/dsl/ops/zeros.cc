// SPDX-License-Identifier: Apache-2.0
//
// zeros(; M, P): a bitmap of the words that are not zero, and those words. For 10 to 95 % zeros; fewer are cheaper in a
// code table, more in runs.
//
// Params:   none. Children: M, one bit a word, as long as the node's stream; P, m words of the node's width.
// Frame:    count m <= n.
// Word:     out[i] = 0 where M[i] = 0, else the next word of P.
// Refused:  another number of ones in M than m.
#include "dsl/histogram.h"
#include "dsl/ops/gate.h"
#include "dsl/ops/sample.h"

namespace brevis::dsl {
namespace {

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  BREVIS_TRY(expect_params(node, 0));
  BREVIS_TRY(expect_arity(arity, 2));
  return std::vector<uint8_t>{1, node.width};
}

Status child_lengths(const Node&, uint64_t n, std::span<const uint64_t> counts, std::span<uint64_t> lengths) {
  BREVIS_TRY(expect_count(n, counts));
  lengths[0] = n;
  lengths[1] = counts[0];
  return {};
}

Status run(const NodeArgs&, std::span<const bits::ConstWords> in, bits::Words out) {
  const std::span<const uint8_t> mask = in[0].as<uint8_t>();
  size_t ones = 0;
  for (const uint8_t bit : mask) ones += bit;
  if (ones != in[1].count) return corrupt_stream("mask and words disagree in number");
  bits::visit_lane(out.width, [&]<class T>(T) {
    const T* from = in[1].as<T>().data();
    T* to = out.as<T>().data();
    for (size_t i = 0, j = 0; i < mask.size(); ++i) {
      // A branch would be mispredicted, but a load past the last word must not happen.
      to[i] = 0;
      if (mask[i]) to[i] = from[j++];
    }
  });
  return {};
}

Result<bool> invert(const NodeArgs&, bits::ConstWords target, std::vector<bits::OwnedWords>& children,
                    std::vector<uint64_t>& counts) {
  children.clear();
  children.emplace_back(1, target.count);
  uint8_t* mask = children[0].words().data;
  bits::visit_lane(target.width, [&]<class T>(T) {
    const std::span<const T> in = target.as<T>();
    size_t ones = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      mask[i] = in[i] != 0;
      ones += mask[i];
    }
    children.emplace_back(target.width, ones);
    T* to = children[1].words().template as<T>().data();
    for (size_t i = 0, j = 0; i < in.size(); ++i)
      if (in[i] != 0) to[j++] = in[i];
  });
  counts.assign(1, children[1].count());
  return true;
}

bool push_down(const NodeArgs&, const codec::Histogram& target,
               std::vector<std::optional<codec::Histogram>>& children) {
  codec::Histogram mask{1, {}};
  codec::Histogram words{target.width, {}};
  uint64_t ones = 0;
  for (const auto& [word, count] : target.counts) {
    if (word == 0) {
      mask.counts.emplace_back(0, count);
    } else {
      words.counts.emplace_back(word, count);
      ones += count;
    }
  }
  if (ones != 0) mask.counts.emplace_back(1, ones);
  children.clear();
  children.emplace_back(std::move(mask));
  children.emplace_back(std::move(words));
  return true;
}

void propose(const Target& target, std::vector<Proposal>& out) {
  const auto& counts = target.histogram->counts;
  if (target.width < 2 || counts.size() < 3 || counts.front().first != 0) return;
  const uint64_t zeros = counts.front().second, total = target.histogram->total();
  if (16 * zeros > total && 64 * (total - zeros) > total) out.push_back({{}, {Dtype::unknown, target.dtype}});
}

}  // namespace

const OpSpec zeros_op = {
    .id = OpId::zeros,
    .name = "zeros",
    .since = 1,
    .place = Place::region,
    .counts = 1,
    .child_widths = child_widths,
    .child_lengths = child_lengths,
    .run = run,
    .invert = invert,
    .push_down = push_down,
    .propose = propose,
    .total = true,
};

}  // namespace brevis::dsl
