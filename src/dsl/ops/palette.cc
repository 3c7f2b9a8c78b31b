// SPDX-License-Identifier: Apache-2.0
//
// palette(size; P): few distinct words, such as integers kept in floats or quantised weights, replaced by their places
// in a list.
//
// Params:   size, 2..65536. Slot: a word list of exactly `size` ascending words.
// Children: P, places of max(1, ceil(log2 size)) bits, as long as the node's stream.
// Word:     out[i] = list[P[i]].
// Refused:  a place outside the list.
#include <algorithm>

#include "dsl/histogram.h"
#include "dsl/ops/gate.h"
#include "dsl/ops/sample.h"
#include "dsl/ops/word_index.h"
#include "dsl/verify.h"

namespace brevis::dsl {
namespace {

constexpr uint32_t kMissing = ~uint32_t{0};

unsigned place_bits(uint64_t size) { return static_cast<unsigned>(std::bit_width(size - 1)); }

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  BREVIS_TRY(expect_params(node, 1));
  BREVIS_TRY(expect_arity(arity, 1));
  const uint64_t size = node.params[0];
  if (size < 2 || size > kMaxWordListSize) return gate_error("size is 2..65536, got " + std::to_string(size));
  if (node.width < 16 && size > uint64_t{1} << node.width)
    return gate_error("size exceeds the number of words of " + std::to_string(node.width) + " bits");
  return std::vector<uint8_t>{static_cast<uint8_t>(place_bits(size))};
}

template <class Place, class Word>
Status run_typed(const WordList& list, std::span<const Place> places, std::span<Word> out) {
  std::vector<Word> table(size_t{1} << place_bits(list.words.size()));
  for (size_t i = 0; i < list.words.size(); ++i) table[i] = static_cast<Word>(list.words[i]);
  Place highest = 0;
  for (const Place place : places) highest = std::max(highest, place);
  if (highest >= list.words.size()) return corrupt_stream("a place lies outside the list");
  for (size_t i = 0; i < out.size(); ++i) out[i] = table[places[i]];
  return {};
}

Status run(const NodeArgs& args, std::span<const bits::ConstWords> in, bits::Words out) {
  return bits::visit_lane(out.width, [&]<class Word>(Word) {
    return in[0].lane() == 1 ? run_typed(*args.list, in[0].as<uint8_t>(), out.as<Word>())
                             : run_typed(*args.list, in[0].as<uint16_t>(), out.as<Word>());
  });
}

Result<bool> invert(const NodeArgs& args, bits::ConstWords target, std::vector<bits::OwnedWords>& children,
                    std::vector<uint64_t>&) {
  const WordIndex index(args.list->words, target.width, kMissing);
  children.clear();
  children.emplace_back(place_bits(args.node.params[0]), target.count);
  const bits::Words places = children[0].words();
  return bits::visit_lane(target.width, [&]<class Word>(Word) {
    const size_t missing = places.lane() == 1 ? index.find_all<Word>(target.as<Word>(), places.as<uint8_t>().data())
                                              : index.find_all<Word>(target.as<Word>(), places.as<uint16_t>().data());
    return missing == 0;
  });
}

bool push_down(const NodeArgs& args, const codec::Histogram& target,
               std::vector<std::optional<codec::Histogram>>& children) {
  const std::vector<uint64_t>& list = args.list->words;
  codec::Histogram places{place_bits(args.node.params[0]), {}};
  size_t at = 0;
  for (const auto& [word, count] : target.counts) {
    while (at < list.size() && list[at] < word) ++at;
    if (at == list.size() || list[at] != word) return false;
    places.counts.emplace_back(at, count);
  }
  children.clear();
  children.emplace_back(std::move(places));
  return true;
}

std::optional<std::vector<uint64_t>> choose_words(const Node& node, const codec::Histogram& target) {
  if (target.counts.size() != node.params[0]) return std::nullopt;
  std::vector<uint64_t> words;
  for (const auto& entry : target.counts) words.push_back(entry.first);
  return words;
}

// As many words as the sample has; whether that is all of them is seen when the list is made.
void propose(const Target& target, std::vector<Proposal>& out) {
  const uint64_t size = target.histogram->counts.size();
  if (size < 2 || size > kMaxWordListSize || 4 * size > target.histogram->total()) return;
  const auto width = static_cast<unsigned>(std::bit_width(size - 1));
  if (width < target.width) out.push_back(proposal({size}, 1));
}

}  // namespace

const OpSpec palette_op = {
    .id = OpId::palette,
    .name = "palette",
    .since = 1,
    .place = Place::region,
    .slot = SlotKind::word_list,
    .child_widths = child_widths,
    .child_lengths = equal_lengths,
    .run = run,
    .invert = invert,
    .push_down = push_down,
    .choose_words = choose_words,
    .propose = propose,
    .total = true,
};

}  // namespace brevis::dsl
