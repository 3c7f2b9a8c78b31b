// SPDX-License-Identifier: Apache-2.0
//
// context(function, shift, bits, stride, weight, ..; P0, P1, P2, P3): each word comes from one of several programs, and
// the words before it in the frame say from which. For weights whose sizes go with those of their neighbours: small
// ones have tables of their own, as large ones have.
//
// Params:   function: what a word's level is, `field` or `size`; shift, bits: of which field, bits 1.., shift + bits <=
//           width; 1 to 4 pairs: a stride 1..2^20 and a weight 1..4.
// Slot:     a blob: varints low (< 2^bits), start (<= 63), and where the classes 1 to 3 begin, the first as it is, the
//           others less the one before less 1; at most 63 times the sum of the weights.
// Children: P0 to P3 of the node's width.
// Frame:    three counts, as for select.
// Word:     the level of a word is min(63, max(0, v - low)), where v is the field (function `field`), or with the field
//           as a signed number of size m (function `size`) 0 for m = 0, else 2n - 1 plus the second highest bit of
//           m's n bits. Word i comes from the program of the class of the sum over the pairs of weight times the level
//           of word i - stride, which is `start` before the frame.
// Refused:  counts other than the classes'.
//
// Where every stride is long, classes and levels are found for stretches at a time.
#include "dsl/ops/context.h"

#include <algorithm>
#include <memory>

#include "base/coding.h"

namespace brevis::dsl {
namespace {

constexpr std::array<std::string_view, 2> kLevels = {"field", "size"};
constexpr size_t kFixed = 3;  // parameters before the pairs

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  BREVIS_TRY(expect_arity(arity, kHands));
  const std::vector<uint64_t>& p = node.params;
  if (p.size() < kFixed + 2 || p.size() > kFixed + 2 * kMaxContextTerms || p.size() % 2 == 0)
    return gate_error("takes a function, shift, bits and 1 to 4 pairs of stride and weight, got " +
                      std::to_string(p.size()) + " parameters");
  if (p[2] < 1 || p[2] > node.width || p[1] > node.width - p[2])
    return gate_error("a field of " + std::to_string(p[2]) + " bits above bit " + std::to_string(p[1]) +
                      " does not fit a word of " + std::to_string(node.width));
  for (size_t i = kFixed; i < p.size(); i += 2)
    if (p[i] < 1 || p[i] > kMaxContextStride || p[i + 1] < 1 || p[i + 1] > kMaxContextWeight)
      return gate_error("a stride is 1..2^20 and a weight 1..4, got " + std::to_string(p[i]) + " and " +
                        std::to_string(p[i + 1]));
  return std::vector<uint8_t>(arity, node.width);
}

Result<std::shared_ptr<const Blob>> load(const Node& node, ByteSpan stored) {
  const ContextParams params = ContextParams::of(node);
  auto out = std::make_shared<ContextClasses>();
  ByteReader reader(stored);
  BREVIS_ASSIGN(out->low, reader.varint_up_to(bits::low_mask(params.bits), "lowest level"));
  BREVIS_ASSIGN(const uint64_t start, reader.varint_up_to(kTopLevel, "level before the frame"));
  out->start = static_cast<uint8_t>(start);
  uint64_t most = 0, next = 0;
  for (const ContextTerm& term : params.terms) most += term.weight * kTopLevel;
  for (uint16_t& threshold : out->thresholds) {
    if (next > most) return corrupt_stream("classes of a context go on after the largest sum");
    BREVIS_ASSIGN(const uint64_t step, reader.varint_up_to(most - next, "begin of a context's class"));
    threshold = static_cast<uint16_t>(next + step);
    next += step + 1;
  }
  if (!reader.at_end()) return corrupt_stream("classes of a context do not end with their stored bytes");
  return std::shared_ptr<const Blob>(std::move(out));
}

}  // namespace

void context_levels(const ContextParams& params, uint64_t low, bits::ConstWords words, uint8_t* out) {
  const uint64_t mask = bits::low_mask(params.bits);
  if (params.level == LevelOf::field) return bits::kernels().levels(words, params.shift, mask, low, out);
  bits::visit_lane(words.width, [&]<class T>(T) {
    const std::span<const T> in = words.as<T>();
    if constexpr (sizeof(T) <= 4) {
      for (size_t i = 0; i < in.size(); ++i)
        out[i] = level_of(raw_level_of_short(static_cast<uint32_t>(in[i] >> params.shift & mask), params.bits), low);
    } else {
      for (size_t i = 0; i < in.size(); ++i)
        out[i] = level_of(raw_level(LevelOf::size, uint64_t{in[i]} >> params.shift & mask, params.bits), low);
    }
  });
}

namespace {

// The levels of a frame, behind as many of words that stand before it as the longest stride asks for.
class Levels {
 public:
  Levels(const ContextParams& params, const ContextClasses& classes, size_t words)
      : params_(params), classes_(classes) {
    for (const ContextTerm& term : params.terms) {
      if (term.stride < words) before_ = std::max<size_t>(before_, term.stride);
      nearest_ = std::min(nearest_, term.stride);
    }
    store_ = std::make_unique_for_overwrite<uint8_t[]>(before_ + words);
    std::fill_n(store_.get(), before_, classes.start);
    for (const ContextTerm& term : params.terms) {
      if (term.stride < words)
        terms_.push_back(term);
      else  // it sees nothing of the frame
        always_ = static_cast<uint16_t>(always_ + term.weight * classes.start);
    }
  }

  // Words between a word and the first that may depend on it.
  uint64_t nearest() const { return nearest_; }
  uint8_t* at(size_t word) { return store_.get() + before_ + word; }

  // Of words all within reach of levels that are set.
  void classes(size_t at, std::span<uint8_t> out) const {
    bits::kernels().sum_classes(sums(at), out.size(), out.data());
  }
  // Of the words from `at` on.
  bits::LevelSums sums(size_t at) const {
    bits::LevelSums sums{terms_.size(), {}, {}, always_, {}};
    for (size_t k = 0; k < terms_.size(); ++k) {
      sums.levels[k] = store_.get() + before_ - terms_[k].stride + at;
      sums.weights[k] = static_cast<uint16_t>(terms_[k].weight);
    }
    std::copy(classes_.thresholds.begin(), classes_.thresholds.end(), sums.begins);
    return sums;
  }

  // The same where words depend on those right before them. `next`: the levels of each child's words to come. Sets the
  // levels of these words.
  void follow(size_t at, const std::array<const uint8_t*, kHands>& next, std::span<uint8_t> out) {
    switch (terms_.size()) {
      case 0: return follow<0>(at, next, out);
      case 1: return follow<1>(at, next, out);
      case 2: return follow<2>(at, next, out);
      case 3: return follow<3>(at, next, out);
      default: return follow<4>(at, next, out);
    }
  }

 private:
  // What a word waits for is the level of the one before, not the word: the children's levels are known beforehand.
  template <size_t N>
  void follow(size_t at, const std::array<const uint8_t*, kHands>& next, std::span<uint8_t> out) {
    uint8_t* own = this->at(at);
    std::array<const uint8_t*, N> from;
    std::array<unsigned, N> weight;
    for (size_t k = 0; k < N; ++k) {
      from[k] = own - terms_[k].stride;
      weight[k] = static_cast<unsigned>(terms_[k].weight);
    }
    const unsigned first = classes_.thresholds[0], second = classes_.thresholds[1], third = classes_.thresholds[2];
    uint64_t places = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      unsigned sum = always_;
      for (size_t k = 0; k < N; ++k) sum += weight[k] * from[k][i];
      const unsigned c = unsigned{sum >= first} + unsigned{sum >= second} + unsigned{sum >= third};
      const unsigned shift = 16 * c;
      own[i] = next[c][places >> shift & 0xffff];
      places += uint64_t{1} << shift;
      out[i] = static_cast<uint8_t>(c);
    }
  }

  const ContextParams& params_;
  const ContextClasses& classes_;
  std::vector<ContextTerm> terms_;  // that see words of the frame
  uint16_t always_ = 0;             // what the others add
  size_t before_ = 0;
  uint64_t nearest_ = UINT64_MAX;
  std::unique_ptr<uint8_t[]> store_;
};

Error disagree() { return corrupt_stream("classes of contexts and words disagree in number"); }

// Levels of all children, with room for a tile more, so that places need no check before the tile is done.
Status run_near(const ContextParams& params, uint64_t low, Levels& levels, std::span<const bits::ConstWords> in,
                bits::Words out) {
  std::array<std::vector<uint8_t>, kHands> store;
  std::array<const uint8_t*, kHands> next;
  for (size_t c = 0; c < kHands; ++c) {
    store[c].resize(in[c].count + kDealTile);
    context_levels(params, low, in[c], store[c].data());
    next[c] = store[c].data();
  }
  Hands from(in);
  uint8_t classes[kDealTile];
  for (size_t at = 0; at < out.count; at += kDealTile) {
    const size_t n = std::min(kDealTile, out.count - at);
    levels.follow(at, next, {classes, n});
    if (!from.take({classes, n}, out.part(at, n))) return disagree();
    for (size_t c = 0; c < kHands; ++c) next[c] += from.taken(c);
  }
  return {};
}

Status run_far(const ContextParams& params, uint64_t low, Levels& levels, std::span<const bits::ConstWords> in,
               bits::Words out) {
  const auto kernel = out.lane() <= 4 ? bits::kernels().join_levels[out.lane() / 2] : nullptr;
  if (kernel != nullptr && params.level == LevelOf::field) {
    const bits::LevelJoin join{levels.sums(0), levels.at(0), params.shift, bits::low_mask(params.bits), low};
    return kernel(join, hands_of(in), out.data, out.count) ? Status{} : disagree();
  }
  Hands from(in);
  const size_t step = std::min<uint64_t>(levels.nearest(), kDealTile);
  uint8_t classes[kDealTile];
  for (size_t at = 0; at < out.count; at += step) {
    const size_t n = std::min(step, out.count - at);
    levels.classes(at, {classes, n});
    if (!from.take({classes, n}, out.part(at, n))) return disagree();
    context_levels(params, low, out.part(at, n), levels.at(at));
  }
  return {};
}

const ContextClasses& classes_of(const NodeArgs& args) { return static_cast<const ContextClasses&>(*args.blob); }

Status run(const NodeArgs& args, std::span<const bits::ConstWords> in, bits::Words out) {
  const ContextParams params = ContextParams::of(args.node);
  Levels levels(params, classes_of(args), out.count);
  const auto way = levels.nearest() < kLongStride ? run_near : run_far;
  return way(params, classes_of(args).low, levels, in, out);
}

Result<bool> invert(const NodeArgs& args, bits::ConstWords target, std::vector<bits::OwnedWords>& children,
                    std::vector<uint64_t>& counts) {
  const ContextParams params = ContextParams::of(args.node);
  Levels levels(params, classes_of(args), target.count);
  context_levels(params, classes_of(args).low, target, levels.at(0));
  deal_out(
      target, [&](size_t at, std::span<uint8_t> out) { levels.classes(at, out); }, children, counts);
  return true;
}

uint64_t entries(const Node&) { return kDealCounts + 2; }

bool one_by_one(const Node& node) {
  const ContextParams params = ContextParams::of(node);
  return std::any_of(params.terms.begin(), params.terms.end(),
                     [](const ContextTerm& term) { return term.stride < kLongStride; });
}

}  // namespace

ContextParams ContextParams::of(const Node& node) {
  ContextParams out{static_cast<LevelOf>(node.params[0]),
                    static_cast<unsigned>(node.params[1]),
                    static_cast<unsigned>(node.params[2]),
                    {}};
  for (size_t i = kFixed; i + 1 < node.params.size(); i += 2) out.terms.push_back({node.params[i], node.params[i + 1]});
  return out;
}

const OpSpec context_op = {
    .id = OpId::context,
    .name = "context",
    .since = 1,
    .place = Place::region,
    .slot = SlotKind::blob,
    .counts = kDealCounts,
    .keywords = kLevels,
    .child_widths = child_widths,
    .child_lengths = dealt_lengths,
    .run = run,
    .invert = invert,
    .blob_entries = entries,
    .load = load,
    .fit = fit_context,
    .feature = 1u << 6,
    .propose = propose_contexts,
    .total = true,
    .one_by_one = one_by_one,
};

}  // namespace brevis::dsl
