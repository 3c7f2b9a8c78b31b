// SPDX-License-Identifier: Apache-2.0
#include "synth/foresee.h"

#include <algorithm>

#include "synth/deals.h"

namespace brevis::synth {
namespace {

constexpr unsigned kCountedSoon = 2;  // so many such kin in a row: the next one may well be

bool moves_fields(dsl::OpId op) { return op == dsl::OpId::offset || op == dsl::OpId::select; }

// What known_candidates() asks of the mate.
std::optional<dsl::Expr> asked_of_mate(const ChooseOptions& options) {
  return options.mate ? std::optional(options.mate->expr) : std::nullopt;
}

}  // namespace

Result<std::shared_ptr<Foreseen>> Foreseen::of(const Stream& stream, const StreamStats& stats,
                                               const ChooseOptions& options, bool plain) {
  std::shared_ptr<Foreseen> out(new Foreseen(stats, std::max<uint64_t>(1, options.frame_bytes / (stream.width / 8))));
  if (stats.constant() || stats.ramp) return out;
  if (plain) {
    BREVIS_TRY(known_candidates(stream, out->fields_, true, options));
  } else {
    BREVIS_TRY(out->look(stream, options));
  }
  return out;
}

// As choose_region() goes about it, as long as nothing but the stream has to be asked.
Status Foreseen::look(const Stream& stream, const ChooseOptions& options) {
  if (may_use(options, dsl::OpId::offset)) {
    const bool moves = options.mate && moves_fields(options.mate->expr.op);
    if (moves) {
      promises_.push_back({options.mate->expr.params, std::nullopt});
      BREVIS_ASSIGN(promises_.back().promise, promising_offset(stream, false, &options.mate->expr.params));
      if (promises_.back().promise) {
        return look_moved(stream, options);
      }
    }
    promises_.push_back({std::nullopt, std::nullopt});
    BREVIS_ASSIGN(promises_.back().promise, promising_offset(stream));
  }
  const bool counted = options.counted && options.counted->in_a_row >= kCountedSoon;
  BREVIS_ASSIGN(std::vector<Candidate> candidates, known_candidates(stream, fields_, counted, options));
  const bool promised = !promises_.empty() && promises_.back().promise;
  if (promised) BREVIS_TRY(look_moved(stream, options));
  if (!options.parts.empty()) return {};  // of streams in parts only what fields keep is of use
  if (!promised && !candidates.empty()) {
    const uint64_t cost = candidates.front().cost;
    BREVIS_ASSIGN(auto choice, synth::by_context(stream, fields_, cost, cost, entropy_by_stats(fields_), options));
    contexts_ = Contexts{cost, cost, std::move(choice)};
  }
  known_ = Known{asked_of_mate(options), counted, std::move(candidates)};
  return {};
}

Status Foreseen::look_moved(const Stream& stream, const ChooseOptions& options) {
  BREVIS_ASSIGN(moved_, move(nullptr, stream, promises_.back().promise->params, fields_));
  // What this tells is kept by the fields.
  const auto like = mate_candidate(moved_->fields, options);
  known_good(stream.dtype, moved_->fields, 1, kNoHints, like ? like->cost : UINT64_MAX);
  return {};
}

Result<std::optional<OffsetPromise>> Foreseen::promising(const Foreseen* seen, const Stream& stream,
                                                         const std::vector<uint64_t>* given) {
  if (seen != nullptr)
    for (const Promise& one : seen->promises_)
      if (given == nullptr ? !one.given : one.given == *given) return one.promise;
  return promising_offset(stream, false, given);
}

Result<std::shared_ptr<Moved>> Foreseen::move(const Foreseen* seen, const Stream& stream,
                                              const std::vector<uint64_t>& params, Fields& whole) {
  if (seen != nullptr && seen->moved_ && seen->moved_->shifted.params == params) return seen->moved_;
  BREVIS_ASSIGN(Shifted shifted, shift_whole(stream, params, telling_bits(stream.dtype, whole)));
  auto moved = std::make_shared<Moved>(std::move(shifted), whole.frame_words());
  return moved;
}

Result<std::vector<Candidate>> Foreseen::known(const Foreseen* seen, const Stream& stream, Fields& fields, bool counted,
                                               const ChooseOptions& options) {
  if (seen != nullptr && seen->known_ && seen->known_->counted == counted && options.parts.empty() &&
      seen->known_->mate == asked_of_mate(options))
    return seen->known_->candidates;
  return known_candidates(stream, fields, counted, options);
}

Result<std::optional<Choice>> Foreseen::by_context(const Foreseen* seen, const Stream& stream, Fields& fields,
                                                   uint64_t plain, uint64_t limit, uint64_t entropy,
                                                   const ChooseOptions& options) {
  if (seen != nullptr && seen->contexts_ && seen->contexts_->plain == plain && seen->contexts_->limit == limit)
    return seen->contexts_->choice;
  return synth::by_context(stream, fields, plain, limit, entropy, options);
}

}  // namespace brevis::synth
