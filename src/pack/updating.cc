// SPDX-License-Identifier: Apache-2.0
#include "pack/updating.h"

#include <algorithm>

#include "dsl/op.h"
#include "dsl/update_fit.h"
#include "dsl/verify.h"
#include "pack/parts.h"
#include "synth/decode_cost.h"

namespace brevis::pack {
namespace {

using Nothing = std::optional<synth::Choice>;
using dsl::Expr;
using dsl::OpId;

constexpr size_t kClasses = 4;
constexpr uint64_t kLeastWords = 4096;              // four sets of tables have to be won
constexpr uint64_t kTablesBits = 8 * 4 * 24;        // at least what these cost
constexpr uint64_t kWorthOf = 64;                   // and a part of so many of what would be without
constexpr uint64_t kCountCost = 3 * 3 * kByteCost;  // three lengths, a frame each

// One frame's words and the base's.
struct Pair {
  bits::OwnedWords own, base;
};

class Updates {
 public:
  Updates(const PatchSource& source, bits::Combine combine, uint64_t frame_words)
      : source_(source), frame_words_(frame_words) {
    const DtypeInfo& info = dtype_info(source.own.dtype);
    node_ = {OpId::update,
             static_cast<uint8_t>(source.own.width),
             {static_cast<uint64_t>(combine), info.mantissa_bits, info.exponent_bits},
             {}};
    combine_ = combine;
  }

  uint64_t frames() const { return (source_.own.words + frame_words_ - 1) / frame_words_; }
  const std::vector<uint64_t>& params() const { return node_.params; }

  // Steps of a frame beside the base's words.
  Status count(uint64_t frame, dsl::UpdateFitter& fitter) const {
    BREVIS_ASSIGN(Pair pair, read(frame));
    bits::uncombine(combine_, pair.own.view(), pair.base.view(), pair.own.words(),
                    combine_ != bits::Combine::exclusive_or);
    fitter.add(pair.own.view(), pair.base.view());
    return {};
  }
  dsl::UpdateFitter fitter() const {
    return {static_cast<unsigned>(node_.params[1]), static_cast<unsigned>(node_.params[2])};
  }

  Status bind(ByteSpan stored) {
    BREVIS_ASSIGN(blob_, spec_.load(node_, stored));
    return {};
  }
  // The steps of a frame, a stream for each class.
  Result<std::vector<bits::OwnedWords>> deal(uint64_t frame) const {
    BREVIS_ASSIGN(const Pair pair, read(frame));
    std::vector<bits::OwnedWords> children;
    std::vector<uint64_t> counts;
    BREVIS_ASSIGN(const bool fits, spec_.invert({node_, nullptr, 0, {}, blob_.get(), pair.base.view()}, pair.own.view(),
                                                children, counts));
    if (!fits) return make_error(Errc::internal, "an update refused some words");
    children.erase(children.begin());  // the base's
    return children;
  }

 private:
  Result<Pair> read(uint64_t frame) const {
    const uint64_t first = frame * frame_words_, count = std::min(frame_words_, source_.own.words - first);
    Pair pair{{source_.own.width, count}, {source_.own.width, count}};
    BREVIS_TRY(source_.own.read(first, pair.own.words()));
    BREVIS_TRY(source_.base(first, pair.base.words()));
    return pair;
  }

  const PatchSource& source_;
  const uint64_t frame_words_;
  const dsl::OpSpec& spec_ = dsl::spec_of(OpId::update);
  dsl::Node node_;
  bits::Combine combine_;
  std::shared_ptr<const dsl::Blob> blob_;
};

// Where classes begin; nullopt where they promise too little.
Result<std::optional<ByteVector>> fit(const Updates& updates, uint64_t limit, Pool& pool, size_t window) {
  dsl::UpdateFitter all = updates.fitter();
  BREVIS_TRY(ordered_parallel<dsl::UpdateFitter>(
      pool, updates.frames(), window,
      [&](size_t i) -> Result<dsl::UpdateFitter> {
        dsl::UpdateFitter one = updates.fitter();
        BREVIS_TRY(updates.count(i, one));
        return one;
      },
      [&](size_t, dsl::UpdateFitter one) -> Status {
        all.add(one);
        return {};
      }));
  auto found = all.finish();
  if (!found || found->saved_bits < kTablesBits || found->saved_bits / 8 < limit / kWorthOf)
    return std::optional<ByteVector>{};
  return std::optional(std::move(found->stored));
}

using ClassStats = std::array<synth::StreamStats, kClasses>;

Result<ClassStats> gather_classes(const Updates& updates, Pool& pool, size_t window) {
  ClassStats all;
  BREVIS_TRY(ordered_parallel<ClassStats>(
      pool, updates.frames(), window,
      [&](size_t i) -> Result<ClassStats> {
        BREVIS_ASSIGN(const auto children, updates.deal(i));
        ClassStats one;
        for (size_t c = 0; c < kClasses; ++c)
          if (children[c].count() != 0) one[c] = synth::gather(children[c].view());
        return one;
      },
      [&](size_t, ClassStats one) -> Status {
        for (size_t c = 0; c < kClasses; ++c)
          if (one[c].words != 0) synth::append(all[c], one[c]);
        return {};
      }));
  return all;
}

}  // namespace

Result<std::optional<synth::Choice>> choose_update(const PatchSource& source, bits::Combine combine,
                                                   uint64_t frame_words, uint64_t limit, Pool& pool, size_t window) {
  const DtypeInfo& info = dtype_info(source.own.dtype);
  if (!info.is_float() || info.exponent_bits < 2 || source.own.words < kLeastWords) return Nothing{};
  Updates updates(source, combine, frame_words);
  BREVIS_ASSIGN(auto stored, fit(updates, limit, pool, window));
  if (!stored) return Nothing{};
  BREVIS_TRY(updates.bind(*stored));
  BREVIS_ASSIGN(const ClassStats stats, gather_classes(updates, pool, window));

  synth::Choice choice;
  uint64_t cost = stored->size() * kByteCost + updates.frames() * kCountCost +
                  source.own.words * synth::decode_cost(OpId::update, updates.params());
  choice.tables.push_back(std::move(*stored));
  Expr expr{OpId::update, updates.params(), {{OpId::base, {}, {}}}};
  for (size_t c = 0; c < kClasses; ++c) {
    std::vector<bits::OwnedWords> held;  // what the last call gave
    BREVIS_ASSIGN(auto part, code_words(Dtype::unknown, true, stats[c], updates.frames(), frame_words,
                                        [&](uint64_t frame) -> Result<bits::ConstWords> {
                                          BREVIS_ASSIGN(held, updates.deal(frame));
                                          return held[c].view();
                                        }));
    if (!part) return Nothing{};
    cost += part->cost;
    expr.children.push_back(std::move(part->expr));
    choice.tables.insert(choice.tables.end(), part->tables.begin(), part->tables.end());
  }
  choice.estimated_bytes = cost / kByteCost;
  if (choice.estimated_bytes >= limit) return Nothing{};
  BREVIS_ASSIGN(auto program, dsl::build(source.own.width, expr));
  if (choice.tables.size() != program.slots().size())
    return make_error(Errc::internal, "an update has tables for other slots than its own");
  choice.program = std::make_shared<dsl::Program>(std::move(program));
  choice.frame_words = {frame_words};
  return Nothing(std::move(choice));
}

}  // namespace brevis::pack
