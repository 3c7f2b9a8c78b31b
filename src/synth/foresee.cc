// SPDX-License-Identifier: Apache-2.0
#include "synth/foresee.h"

#include <algorithm>

#include "base/threads.h"
#include "synth/deals.h"

namespace brevis::synth {
namespace {

constexpr unsigned kCountedSoon = 2;  // so many such kin in a row: the next one may well be

// What known_candidates() asks of the mate.
std::optional<dsl::Expr> asked_of_mate(const ChooseOptions& options) {
  return options.mate ? std::optional(options.mate->expr) : std::nullopt;
}

}  // namespace

Result<std::shared_ptr<Foreseen>> Foreseen::of(const Stream& stream, const StreamStats& stats,
                                               const ChooseOptions& options, bool plain) {
  std::shared_ptr<Foreseen> out(new Foreseen(stats, std::max<uint64_t>(1, options.frame_bytes / (stream.width / 8))));
  if (stats.constant() || stats.ramp) return out;
  if (plain && mate_candidate(out->fields_, options)) return out;
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
    BREVIS_ASSIGN(promise_.emplace(), promising_offset(stream));
  }
  const uint64_t entropy = entropy_by_stats(fields_);
  const bool promised = promise_ && *promise_, follows = follows_mate(options, entropy, stream.words);
  if (promised && follows_offset(options, entropy, stream)) return look_moved(stream, options);
  const bool deals = !promised && follows && options.mate->expr.op == dsl::OpId::context;
  if (const auto plain = deals ? mate_candidate(fields_, options) : std::nullopt) {
    BREVIS_ASSIGN(auto choice, synth::by_context_like(*options.mate, stream, fields_, plain->cost, entropy, options));
    contexts_ = Contexts{options.mate, plain->cost, plain->cost, std::move(choice)};
    if (contexts_->choice) return {};
  }
  const bool counted = options.counted && options.counted->in_a_row >= kCountedSoon;
  BREVIS_ASSIGN(std::vector<Candidate> candidates, known_candidates(stream, fields_, counted, options));
  if (promised) BREVIS_TRY(look_moved(stream, options));
  if (!options.parts.empty()) return {};  // of streams in parts only what fields keep is of use
  if (!promised && !contexts_ && !candidates.empty()) {
    const uint64_t cost = candidates.front().cost;
    BREVIS_ASSIGN(auto choice, synth::by_context(stream, fields_, cost, cost, entropy, options));
    contexts_ = Contexts{std::nullopt, cost, cost, std::move(choice)};
  }
  known_ = Known{asked_of_mate(options), counted, std::move(candidates)};
  return {};
}

Status Foreseen::look_moved(const Stream& stream, const ChooseOptions& options) {
  BREVIS_ASSIGN(moved_, move(nullptr, stream, (*promise_)->params, fields_));
  // What this tells is kept by the fields.
  const auto like = mate_candidate(moved_->fields, options);
  if (like && follows_offset(options, entropy_by_stats(fields_), stream)) return {};
  known_good(stream.dtype, moved_->fields, 1, kNoHints, like ? like->cost : UINT64_MAX);
  return {};
}

Result<std::optional<OffsetPromise>> Foreseen::promising(const Foreseen* seen, const Stream& stream) {
  if (seen != nullptr && seen->promise_) return *seen->promise_;
  return promising_offset(stream);
}

Result<std::shared_ptr<Moved>> Foreseen::move(const Foreseen* seen, const Stream& stream,
                                              const std::vector<uint64_t>& params, Fields& whole) {
  if (seen != nullptr && seen->moved_ && seen->moved_->shifted.params == params) return seen->moved_;
  const uint64_t start = thread_cpu_ns();
  BREVIS_ASSIGN(Shifted shifted, shift_whole(stream, params, telling_bits(stream.dtype, whole)));
  auto moved = std::make_shared<Moved>(std::move(shifted), whole.frame_words());
  moved->training_ns = thread_cpu_ns() - start;
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
  const auto* told = seen != nullptr && seen->contexts_ ? &*seen->contexts_ : nullptr;
  if (told != nullptr && !told->mate && told->plain == plain && told->limit == limit) return told->choice;
  return synth::by_context(stream, fields, plain, limit, entropy, options);
}

Result<std::optional<Choice>> Foreseen::by_context_like(const Foreseen* seen, const Mate& mate, const Stream& stream,
                                                        Fields& fields, uint64_t limit, uint64_t entropy,
                                                        const ChooseOptions& options) {
  const auto* told = seen != nullptr && seen->contexts_ ? &*seen->contexts_ : nullptr;
  if (told != nullptr && told->mate && told->mate->expr == mate.expr && told->mate->row == mate.row &&
      told->limit == limit)
    return told->choice;
  return synth::by_context_like(mate, stream, fields, limit, entropy, options);
}

}  // namespace brevis::synth
