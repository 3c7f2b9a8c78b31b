// SPDX-License-Identifier: Apache-2.0
//
// rank(T; P, G, W): the T most frequent words become small ranks, which fit a codec's small table; the few others are
// exceptions, kept apart with their positions.
//
// Params:   T, 1..65535. Slot: a word list of exactly T ascending words; a word's rank is its place in that list.
// Children: P, ranks of ceil(log2(T+1)) bits, as long as the node's stream; G, gaps of 20 bits; W, exception words of
//           the node's width; G and W hold m words.
// Frame:    count m <= n.
// Word:     rank r < T is the list's word r. Rank T is an exception: the j-th one in the stream is W[j]. G repeats
//           where they are, so that a fused decoder can patch instead of scan: the j-th exception stands G[j] + 1 words
//           after the one before, the first at G[0].
// Refused:  ranks above T, a position outside the stream or without rank T, another number of ranks T than m.
#include <algorithm>
#include <functional>

#include "dsl/histogram.h"
#include "dsl/ops/gate.h"
#include "dsl/ops/sample.h"
#include "dsl/ops/word_index.h"
#include "dsl/verify.h"

namespace brevis::dsl {
namespace {

unsigned rank_bits(uint64_t t) { return static_cast<unsigned>(std::bit_width(t)); }

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  BREVIS_TRY(expect_params(node, 1));
  BREVIS_TRY(expect_arity(arity, 3));
  const uint64_t t = node.params[0];
  if (t < 1 || t >= kMaxWordListSize) return gate_error("T is 1..65535, got " + std::to_string(t));
  if (node.width < 16 && t > uint64_t{1} << node.width)
    return gate_error("T exceeds the number of words of " + std::to_string(node.width) + " bits");
  return std::vector<uint8_t>{static_cast<uint8_t>(rank_bits(t)), static_cast<uint8_t>(kPositionBits), node.width};
}

Status child_lengths(const Node&, uint64_t n, std::span<const uint64_t> counts, std::span<uint64_t> lengths) {
  BREVIS_TRY(expect_count(n, counts));
  lengths[0] = n;
  lengths[1] = lengths[2] = counts[0];
  return {};
}

// Exceptions over the placeholders that the ranks T left. `ranks` tells that each position is one.
template <class Rank, class Word>
Status patch(uint64_t t, std::span<const Rank> ranks, std::span<const uint32_t> gaps, std::span<const Word> words,
             std::span<Word> out) {
  uint64_t next = 0;
  for (size_t j = 0; j < gaps.size(); ++j) {
    const uint64_t at = next + gaps[j];
    if (at >= out.size()) return corrupt_stream("an exception lies outside the frame");
    if (ranks[at] != t) return corrupt_stream("an exception lies on a ranked word");
    out[at] = words[j];
    next = at + 1;
  }
  return {};
}

template <class Rank, class Word>
Status run_typed(uint64_t t, const WordList& list, std::span<const bits::ConstWords> in, std::span<Word> out) {
  const std::span<const Rank> ranks = in[0].as<Rank>();
  std::vector<Word> table(size_t{1} << rank_bits(t));
  for (size_t r = 0; r < t; ++r) table[r] = static_cast<Word>(list.words[r]);
  size_t exceptions = 0;
  Rank highest = 0;
  for (const Rank r : ranks) {
    exceptions += r == static_cast<Rank>(t);
    highest = std::max(highest, r);
  }
  if (highest > t) return corrupt_stream("a rank exceeds T");
  if (exceptions != in[1].count) return corrupt_stream("ranks and exceptions disagree in number");
  for (size_t i = 0; i < out.size(); ++i) out[i] = table[ranks[i]];
  return patch<Rank, Word>(t, ranks, in[1].as<uint32_t>(), in[2].as<Word>(), out);
}

Status run(const NodeArgs& args, std::span<const bits::ConstWords> in, bits::Words out) {
  const uint64_t t = args.node.params[0];
  return bits::visit_lane(out.width, [&]<class Word>(Word) {
    return in[0].lane() == 1 ? run_typed<uint8_t, Word>(t, *args.list, in, out.as<Word>())
                             : run_typed<uint16_t, Word>(t, *args.list, in, out.as<Word>());
  });
}

template <class Rank, class Word>
void invert_typed(uint64_t t, const WordIndex& index, unsigned width, std::span<const Word> target,
                  std::vector<bits::OwnedWords>& children) {
  children.emplace_back(rank_bits(t), target.size());
  Rank* ranks = children[0].words().as<Rank>().data();
  const size_t m = index.find_all<Word, Rank>(target, ranks);
  children.emplace_back(kPositionBits, m);
  children.emplace_back(width, m);
  const std::span<uint32_t> gaps = children[1].words().as<uint32_t>();
  const std::span<Word> words = children[2].words().as<Word>();
  size_t next = 0;
  for (size_t i = 0, j = 0; j < m; ++i) {
    if (ranks[i] != static_cast<Rank>(t)) continue;
    gaps[j] = static_cast<uint32_t>(i - next);
    words[j] = target[i];
    next = i + 1;
    ++j;
  }
}

Result<bool> invert(const NodeArgs& args, bits::ConstWords target, std::vector<bits::OwnedWords>& children,
                    std::vector<uint64_t>& counts) {
  if (target.count > uint64_t{1} << kPositionBits) return false;
  const uint64_t t = args.node.params[0];
  const WordIndex index(args.list->words, target.width, static_cast<uint32_t>(t));
  children.clear();
  bits::visit_lane(target.width, [&]<class Word>(Word) {
    if (bits::lane_bytes(rank_bits(t)) == 1)
      invert_typed<uint8_t, Word>(t, index, target.width, target.as<Word>(), children);
    else
      invert_typed<uint16_t, Word>(t, index, target.width, target.as<Word>(), children);
  });
  counts.assign(1, children[1].count());
  return true;
}

bool push_down(const NodeArgs& args, const codec::Histogram& target,
               std::vector<std::optional<codec::Histogram>>& children) {
  const uint64_t t = args.node.params[0];
  const std::vector<uint64_t>& list = args.list->words;
  codec::Histogram ranks{rank_bits(t), {}};
  codec::Histogram others{target.width, {}};
  uint64_t exceptions = 0;
  size_t r = 0;
  for (const auto& [word, count] : target.counts) {
    while (r < list.size() && list[r] < word) ++r;
    if (r < list.size() && list[r] == word) {
      ranks.counts.emplace_back(r, count);
    } else {
      others.counts.emplace_back(word, count);
      exceptions += count;
    }
  }
  if (exceptions != 0) ranks.counts.emplace_back(t, exceptions);
  children.clear();
  children.emplace_back(std::move(ranks));
  children.emplace_back(std::nullopt);
  children.emplace_back(std::move(others));
  return true;
}

// Gaps of exceptions strewn at random: of an exponential law with mean g = n/m the largest of a frame's few hundred is
// some 6 to 8 times g, which is what a packed stream pays for.
std::optional<codec::Histogram> guess(const NodeArgs&, const codec::Histogram& target, size_t,
                                      std::span<const std::optional<codec::Histogram>> known) {
  codec::Histogram gaps{kPositionBits, {}};
  const uint64_t m = known[2]->total();
  if (m != 0) gaps.counts.emplace_back(std::min(bits::low_mask(kPositionBits), target.total() / m * 8), m);
  return gaps;
}

std::optional<std::vector<uint64_t>> choose_words(const Node& node, const codec::Histogram& target) {
  const size_t t = node.params[0];
  if (target.counts.size() < t) return std::nullopt;
  auto order = target.counts;
  const auto oftener = [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  };
  std::nth_element(order.begin(), order.begin() + static_cast<ptrdiff_t>(t - 1), order.end(), oftener);
  std::vector<uint64_t> words;
  for (size_t i = 0; i < t; ++i) words.push_back(order[i].first);
  std::sort(words.begin(), words.end());
  return words;
}

void propose(const Target& target, std::vector<Proposal>& out) {
  const auto& counts = target.histogram->counts;
  std::vector<uint64_t> frequencies;
  for (const auto& entry : counts) frequencies.push_back(entry.second);
  std::sort(frequencies.begin(), frequencies.end(), std::greater<>());
  const uint64_t total = target.histogram->total();
  for (const uint64_t t : {63, 31, 15, 7, 3, 1}) {
    if (frequencies.size() <= t || rank_bits(t) >= target.width) continue;
    uint64_t listed = 0;
    for (size_t i = 0; i < t; ++i) listed += frequencies[i];
    if (listed >= total - total / 8) out.push_back(proposal({t}, 3));
  }
}

}  // namespace

const OpSpec rank_op = {
    .id = OpId::rank,
    .name = "rank",
    .since = 1,
    .place = Place::region,
    .slot = SlotKind::word_list,
    .counts = 1,
    .child_widths = child_widths,
    .child_lengths = child_lengths,
    .run = run,
    .invert = invert,
    .push_down = push_down,
    .choose_words = choose_words,
    .guess = guess,
    .propose = propose,
    .total = true,
};

}  // namespace brevis::dsl
