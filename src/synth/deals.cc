// SPDX-License-Identifier: Apache-2.0
#include "synth/deals.h"

#include <algorithm>
#include <deque>

#include "base/threads.h"
#include "dsl/encode.h"
#include "dsl/op.h"
#include "dsl/verify.h"
#include "synth/candidates.h"
#include "synth/hints.h"
#include "synth/known_good.h"

namespace brevis::synth {
namespace {

using dsl::Expr;
using dsl::OpId;

constexpr uint64_t kByte = 8 * 256;            // cost of one
constexpr uint64_t kDealTables = 192 * kByte;  // three more sets, about
constexpr uint64_t kGatherWords = 1u << 20;    // of a class that are counted at a time
constexpr uint64_t kCountBytes = 3;            // a data-dependent length, a frame each

uint64_t row_of(const Stream& stream) { return stream.shape.empty() ? 1 : stream.shape.back(); }

// The words of a stream's frames, dealt out.
class Dealer {
 public:
  Dealer(const Stream& stream, const Deal& deal, uint64_t frame_words)
      : stream_(stream),
        spec_(dsl::spec_of(deal.op)),
        node_{deal.op, static_cast<uint8_t>(stream.width), deal.params, {}},
        frame_words_(frame_words) {}

  uint64_t frames() const { return (stream_.words + frame_words_ - 1) / frame_words_; }

  // Must come first: the slot, as stored or fitted to all words.
  Result<ByteVector> bind(const std::optional<ByteVector>& given) {
    ByteVector stored;
    if (given) {
      stored = *given;
    } else {
      const auto fitter = spec_.fit(node_);
      for (uint64_t frame = 0; frame < frames(); ++frame) {
        BREVIS_ASSIGN(const bits::ConstWords words, read(frame));
        fitter->add(frame * frame_words_, words);
      }
      stored = fitter->finish();
    }
    BREVIS_ASSIGN(blob_, spec_.load(node_, stored));
    return stored;
  }

  Result<std::vector<bits::OwnedWords>> deal(uint64_t frame) {
    BREVIS_ASSIGN(const bits::ConstWords words, read(frame));
    std::vector<bits::OwnedWords> children;
    std::vector<uint64_t> counts;
    BREVIS_ASSIGN(const bool fits,
                  spec_.invert({node_, nullptr, frame * frame_words_, {}, blob_.get()}, words, children, counts));
    if (!fits) return make_error(Errc::internal, "an operator that expresses every word refused some");
    return children;
  }

 private:
  Result<bits::ConstWords> read(uint64_t frame) {
    const uint64_t first = frame * frame_words_;
    return stream_.at(first, std::min(frame_words_, stream_.words - first), buffer_);
  }

  const Stream& stream_;
  const dsl::OpSpec& spec_;
  const dsl::Node node_;
  const uint64_t frame_words_;
  bits::OwnedWords buffer_;
  std::shared_ptr<const dsl::Blob> blob_;
};

// The best structure for a class, with what it costs; nullopt from `limit` on.
struct Part {
  Expr expr;
  uint64_t cost = 0;
};
std::optional<Part> best_part(Dtype dtype, const StreamStats& stats, uint64_t frames, uint64_t limit, Fields& fields,
                              const Expr* like) {
  if (stats.words == 0) return Part{{OpId::constant, {0}, {}}};
  if (stats.constant()) return Part{{OpId::constant, {stats.first}, {}}};
  const uint64_t upkeep = frames * kCountBytes * kByte;
  if (like != nullptr) {
    auto cut = cut_like(*like, fields, limit);
    return cut ? std::optional(Part{std::move(cut->expr), *cut->cost + upkeep}) : std::nullopt;
  }
  std::vector<Structure> structures = known_good(dtype, fields, 1, kNoHints, limit);
  if (structures.empty() || !structures.front().cost || *structures.front().cost >= limit) return std::nullopt;
  return Part{std::move(structures.front().expr), *structures.front().cost + upkeep};
}

// The cut that a class is to have, if one was said.
const Expr* cut_for(const Deal& deal, size_t hand) {
  if (deal.like == nullptr) return nullptr;
  const auto& hands = deal.like->children;
  return hand < hands.size() && hands[hand].op != OpId::constant ? &hands[hand] : &cut_of(*deal.like);
}

// Tables for the words of one class.
Result<std::optional<std::vector<ByteVector>>> train_part(Dealer& dealer, size_t hand, unsigned width, const Part& part,
                                                          Fields& fields) {
  using Tables = std::optional<std::vector<ByteVector>>;
  if (part.expr.op == OpId::constant) return Tables(std::in_place);
  auto program = dsl::build(width, part.expr);
  if (!program || program->regions().size() != 1) return Tables{};
  if (fields.stats().counted != 0) return tables_by_stats(part.expr, fields);
  if (width <= 16) {
    BREVIS_ASSIGN(auto estimated, dsl::estimate(*program, 0, fields.histogram(0, width)));
    return estimated ? Tables(std::move(estimated->tables)) : Tables{};
  }
  std::vector<bits::OwnedWords> children;
  return dsl::train(*program, 0, dealer.frames(), 1, [&](uint64_t frame) -> Result<bits::ConstWords> {
    BREVIS_ASSIGN(children, dealer.deal(frame));
    return children[hand].view();
  });
}

// What decoding a word of such a node costs under the profile.
uint64_t slowness(dsl::OpId op, const std::vector<uint64_t>& params, const ChooseOptions& options) {
  const uint64_t lambda = options.search ? options.search->effort->lambda : kLambdaOne;
  return decode_cost(op, params) * lambda / kLambdaOne;
}

}  // namespace

Result<std::optional<Choice>> dealt_choice(const Stream& stream, const Deal& deal, uint64_t frame_words,
                                           uint64_t entropy, const ChooseOptions& options) {
  using Nothing = std::optional<Choice>;
  const uint64_t start = thread_cpu_ns();
  Dealer dealer(stream, deal, frame_words);
  BREVIS_ASSIGN(ByteVector stored, dealer.bind(deal.stored));
  std::vector<Gathering> gatherings;
  for (uint64_t frame = 0; frame < dealer.frames(); ++frame) {
    BREVIS_ASSIGN(const std::vector<bits::OwnedWords> children, dealer.deal(frame));
    while (gatherings.size() < children.size()) gatherings.emplace_back(stream.width, deal.counted);
    for (size_t i = 0; i < children.size(); ++i) gatherings[i].add(children[i].view());
  }
  const uint64_t dealt_ns = thread_cpu_ns() - start;
  uint64_t cost =
      (stored.size() + 2 * deal.params.size()) * kByte + stream.words * slowness(deal.op, deal.params, options);
  Expr expr{deal.op, deal.params, {}};
  std::vector<StreamStats> stats;
  std::deque<Fields> fields;  // they stay where they are
  std::vector<Part> parts;
  stats.reserve(gatherings.size());
  for (Gathering& gathering : gatherings) {
    stats.push_back(gathering.take());
    fields.emplace_back(stats.back(),
                        std::max<uint64_t>(1, (stats.back().words + dealer.frames() - 1) / dealer.frames()));
    if (cost >= deal.limit) return Nothing{};
    auto part = best_part(stream.dtype, stats.back(), dealer.frames(), deal.limit - cost, fields.back(),
                          cut_for(deal, parts.size()));
    if (!part) return Nothing{};
    cost += part->cost;
    expr.children.push_back(part->expr);
    parts.push_back(std::move(*part));
  }
  if (cost >= deal.limit || (options.search && !options.search->grammar->allows(expr))) return Nothing{};
  auto program = dsl::build(stream.width, expr);
  if (!program) return Nothing{};
  const uint64_t chosen = thread_cpu_ns();
  Choice choice;
  choice.tables.push_back(std::move(stored));
  for (size_t i = 0; i < parts.size(); ++i) {
    BREVIS_ASSIGN(auto tables, train_part(dealer, i, stream.width, parts[i], fields[i]));
    if (!tables) return Nothing{};
    for (ByteVector& table : *tables) choice.tables.push_back(std::move(table));
  }
  choice.training_ns = dealt_ns + thread_cpu_ns() - chosen;
  choice.frame_words = {frame_words};
  choice.program = std::make_shared<dsl::Program>(std::move(*program));
  choice.estimated_bytes = cost / kByte;
  if (entropy != 0) choice.mate = Mate{expr, quality_of(cost, entropy), entropy / stream.words, row_of(stream)};
  return Nothing(std::move(choice));
}

bool may_use(const ChooseOptions& options, dsl::OpId op) {
  return !options.wanted && (!options.search || options.search->grammar->allows({op, {}, {}}));
}

// The steps of an offset also say to which quarter of a unit each word belongs: classes with tables of their own, where
// those save more than they cost.
Result<Choice> select_too(const Stream& stream, const OffsetPromise& promise, Choice shifted, Fields& fields,
                          uint64_t entropy, const ChooseOptions& options) {
  if (stream.words < kLeastDealt || !may_use(options, dsl::OpId::select)) return shifted;
  const uint64_t price = stream.words * slowness(dsl::OpId::select, promise.params, options);
  // Steps fitted to a sample tell its words apart better than others.
  if (promise.dealt + price + price / 2 + kDealTables >= promise.moved) return shifted;
  Deal deal{dsl::OpId::select, shifted.program->root().params, shifted.tables.front(), shifted.estimated_bytes * kByte,
            telling_bits(stream.dtype, fields)};
  Result<std::optional<Choice>> dealt = dealt_choice(stream, deal, fields.frame_words(), entropy, options);
  if (!dealt) return std::move(dealt).error();
  if (!dealt->has_value()) return shifted;
  (*dealt)->shared = shifted.shared;
  std::swap(shifted, **dealt);
  return shifted;
}

namespace {

Result<std::optional<Choice>> best_context(const Stream& stream, Fields& fields, uint64_t plain, uint64_t limit,
                                           uint64_t entropy, const Expr* like, const ChooseOptions& options) {
  if (stream.words < kLeastDealt || !may_use(options, OpId::context)) return std::optional<Choice>{};
  BREVIS_ASSIGN(const Look seen, look(stream));
  dsl::Target target{stream.width, stream.dtype, stream.words, stream.shape, seen.placed, nullptr};
  target.histogram = &fields.histogram(0, fields.stats().top_bits());
  std::vector<dsl::Proposal> proposals;
  dsl::spec_of(OpId::context).propose(target, proposals);
  std::optional<Choice> best;
  for (dsl::Proposal& proposal : proposals) {
    // A sample's promise is no more than that, but twice of it has to pay for the slow decoding and beat what else
    // there is, or it is not worth a pass. Of words right before it keeps little more than it says.
    const dsl::Node node{OpId::context, static_cast<uint8_t>(stream.width), proposal.params, {}};
    const bool near = dsl::spec_of(OpId::context).one_by_one(node);
    const uint64_t price = stream.words * slowness(OpId::context, proposal.params, options);
    const uint64_t hoped = near ? proposal.gain + proposal.gain / 4 : 2 * proposal.gain;
    if (plain + price > limit + stream.words * hoped) continue;
    Deal deal{OpId::context, std::move(proposal.params), std::nullopt, limit, telling_bits(stream.dtype, fields), like};
    Result<std::optional<Choice>> tried = dealt_choice(stream, deal, fields.frame_words(), entropy, options);
    if (!tried) return tried;
    if (!tried->has_value()) continue;
    best = std::move(*tried);
    limit = best->estimated_bytes * kByte;
  }
  return best;
}

}  // namespace

Result<std::optional<Choice>> by_context(const Stream& stream, Fields& fields, uint64_t plain, uint64_t limit,
                                         uint64_t entropy, const ChooseOptions& options) {
  return best_context(stream, fields, plain, limit, entropy, nullptr, options);
}

Result<std::optional<Choice>> by_context_like(const Mate& mate, const Stream& stream, Fields& fields, uint64_t limit,
                                              uint64_t entropy, const ChooseOptions& options) {
  if (stream.words < kLeastDealt || !may_use(options, OpId::context)) return std::optional<Choice>{};
  Deal deal{OpId::context, mate.expr.params, std::nullopt, limit, telling_bits(stream.dtype, fields), &mate.expr};
  if (mate.row == row_of(stream)) {
    BREVIS_ASSIGN(auto choice, dealt_choice(stream, deal, fields.frame_words(), entropy, options));
    if (choice) return choice;
  }
  return best_context(stream, fields, limit, limit, entropy, &mate.expr, options);
}

}  // namespace brevis::synth
