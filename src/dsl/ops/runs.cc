// SPDX-License-Identifier: Apache-2.0
//
// runs(; P, Q): words and how often each is repeated, for long runs such as pruned or padded weights.
//
// Params:   none. Children: P, words of the node's width; Q, run lengths less one, of 20 bits; m words each.
// Frame:    count m <= n.
// Word:     P[0] Q[0] + 1 times, then P[1] Q[1] + 1 times, and so on to exactly n words.
// Refused:  runs that sum to another length.
#include <algorithm>

#include "dsl/ops/gate.h"
#include "dsl/ops/sample.h"
#include "dsl/verify.h"

namespace brevis::dsl {
namespace {

constexpr size_t kMaxRun = size_t{1} << kPositionBits;

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  BREVIS_TRY(expect_params(node, 0));
  BREVIS_TRY(expect_arity(arity, 2));
  return std::vector<uint8_t>{node.width, static_cast<uint8_t>(kPositionBits)};
}

Status child_lengths(const Node&, uint64_t n, std::span<const uint64_t> counts, std::span<uint64_t> lengths) {
  BREVIS_TRY(expect_count(n, counts));
  lengths[0] = lengths[1] = counts[0];
  return {};
}

template <class T>
Status run_typed(std::span<const T> words, std::span<const uint32_t> lengths, std::span<T> out) {
  size_t at = 0;
  for (size_t j = 0; j < words.size(); ++j) {
    const size_t n = size_t{lengths[j]} + 1;
    if (n > out.size() - at) return corrupt_stream("runs exceed the frame");
    std::fill_n(out.data() + at, n, words[j]);
    at += n;
  }
  if (at != out.size()) return corrupt_stream("runs end before the frame does");
  return {};
}

Status run(const NodeArgs&, std::span<const bits::ConstWords> in, bits::Words out) {
  return bits::visit_lane(out.width,
                          [&]<class T>(T) { return run_typed<T>(in[0].as<T>(), in[1].as<uint32_t>(), out.as<T>()); });
}

template <class T>
void invert_typed(std::span<const T> target, unsigned width, std::vector<bits::OwnedWords>& children) {
  std::vector<T> words;
  std::vector<uint32_t> lengths;
  for (size_t at = 0; at < target.size();) {
    const size_t limit = std::min(target.size(), at + kMaxRun);
    size_t end = at + 1;
    while (end < limit && target[end] == target[at]) ++end;
    words.push_back(target[at]);
    lengths.push_back(static_cast<uint32_t>(end - at - 1));
    at = end;
  }
  children.emplace_back(width, words.size());
  children.emplace_back(kPositionBits, words.size());
  std::copy(words.begin(), words.end(), children[0].words().as<T>().begin());
  std::copy(lengths.begin(), lengths.end(), children[1].words().as<uint32_t>().begin());
}

Result<bool> invert(const NodeArgs&, bits::ConstWords target, std::vector<bits::OwnedWords>& children,
                    std::vector<uint64_t>& counts) {
  children.clear();
  bits::visit_lane(target.width, [&]<class T>(T) { invert_typed<T>(target.as<T>(), target.width, children); });
  counts.assign(1, children[0].count());
  return true;
}

void propose(const Target& target, std::vector<Proposal>& out) {
  uint64_t pairs = 0, equal = 0;
  for_pairs(target, 1, sampled_words(target), [&](uint64_t word, uint64_t before) {
    equal += word == before;
    ++pairs;
  });
  if (4 * equal > 3 * pairs && target.histogram->counts.size() > 1) out.push_back({{}, {target.dtype, Dtype::unknown}});
}

}  // namespace

const OpSpec runs_op = {
    .id = OpId::runs,
    .name = "runs",
    .since = 1,
    .place = Place::region,
    .counts = 1,
    .child_widths = child_widths,
    .child_lengths = child_lengths,
    .run = run,
    .invert = invert,
    .propose = propose,
    .total = true,
};

}  // namespace brevis::dsl
