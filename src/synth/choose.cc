// SPDX-License-Identifier: Apache-2.0
#include "synth/choose.h"

#include <algorithm>

#include "dsl/encode.h"
#include "dsl/op.h"
#include "dsl/verify.h"
#include "synth/candidates.h"
#include "synth/deals.h"
#include "synth/doubled.h"
#include "synth/ends.h"
#include "synth/follow.h"
#include "synth/foresee.h"
#include "synth/hints.h"
#include "synth/improve.h"
#include "synth/kin.h"
#include "synth/known_good.h"
#include "synth/offsets.h"
#include "synth/sample.h"
#include "synth/spine.h"
#include "synth/table_sets.h"
#include "synth/texts.h"
#include "synth/trained.h"

namespace brevis::synth {
namespace {

using dsl::Expr;

constexpr unsigned kPlainAfter = 2;  // without a search

// Programs on the spine alone, for streams that need no data at all.
std::optional<Expr> computed(const StreamStats& stats) {
  if (stats.constant()) return Expr{dsl::OpId::constant, {stats.first}, {}};
  if (stats.ramp && stats.words >= 2) return Expr{dsl::OpId::ramp, {stats.first, stats.step}, {}};
  return std::nullopt;
}

constexpr uint64_t kOrderTellsOf = 8;  // of what statistics alone make of the words

// The best known structure for what an offset leaves, where it costs less than `limit`. `entropy`: of the stream.
Result<std::optional<Choice>> with_offset(const Stream& stream, Moved& moved, uint64_t limit, uint64_t entropy,
                                          const ChooseOptions& options) {
  std::optional<Candidate> best = mate_candidate(moved.fields, options);
  const std::vector<Structure> structures =
      known_good(stream.dtype, moved.fields, 1, kNoHints, best ? best->cost : UINT64_MAX);
  if (!structures.empty() && structures.front().cost && (!best || *structures.front().cost < best->cost))
    best = Candidate{structures.front().expr, *structures.front().cost};
  if (!best) return std::optional<Choice>{};
  return train_moved(stream, moved, *best, limit, entropy, options);
}

// Whether the order of words tells a good part of what they cost.
bool order_tells(const std::vector<Candidate>& candidates) {
  uint64_t counted = UINT64_MAX;
  for (const Candidate& candidate : candidates)
    if (!candidate.sampled) counted = std::min(counted, candidate.cost);
  const uint64_t best = candidates.front().cost;
  return best + best / kOrderTellsOf < counted;
}

// Whether searches of like streams say that one would find nothing.
bool seems_in_vain(const std::vector<Candidate>& candidates, const ChooseOptions& options) {
  const unsigned after = options.search->effort->in_vain_after;
  return after != 0 && options.in_vain >= after && !is_doubted(options.in_vain) && !order_tells(candidates);
}

// What the search finds beyond the known candidates, if anything.
Result<Improved> searched(const Stream& stream, Fields& fields, const std::vector<Candidate>& candidates,
                          const std::optional<Choice>& shifted, const ChooseOptions& options, const TrainWhole& train) {
  Known known;
  const uint64_t best = shifted ? shifted->estimated_bytes * 8 * 256 : candidates.front().cost;
  known.cost = best;
  if (shifted) {
    known.programs.push_back(shifted->program->expr());
    known.costs = std::pair(best, candidates.front().cost);
  }
  for (size_t i = 0; i < std::min(candidates.size(), kPricedByStatistics); ++i)
    known.programs.push_back(candidates[i].expr);
  known.siblings = options.siblings;
  known.order_tells = order_tells(candidates) && options.search->budget->take_thorough();
  return improve(stream, fields.frame_words(), known, *options.search,
                 [&](const Expr& expr) -> Result<std::optional<Choice>> {
                   if (shifted && expr == known.programs.front()) return shifted;
                   if (expr != known.programs.front()) {  // whole statistics know better than the sample that liked it
                     const auto cost = cost_by_stats(expr, fields);
                     if (cost && *cost >= best) return std::optional<Choice>{};
                   }
                   return train(expr);
                 });
}

// Whether programs that only samples price need no look, as far as its kin tell.
Result<bool> only_counts_tell(const Stream& stream, uint64_t entropy, const ChooseOptions& options) {
  if (!options.counted) return false;
  const unsigned after = options.search ? options.search->effort->counted_after : kPlainAfter;
  return is_like(stream, entropy, *options.counted, after);
}

// Without a skeleton, but for streams that need no data.
Result<Choice> choose_region(const Stream& stream, const StreamStats& stats, const ChooseOptions& options) {
  if (!options.wanted) {
    if (const auto expr = computed(stats)) {
      BREVIS_ASSIGN(auto program, dsl::build(stream.width, *expr));
      return without_tables(std::move(program), stream.words, options.frame_bytes, 0);
    }
  }
  const uint64_t frame_words = std::max<uint64_t>(1, options.frame_bytes / (stream.width / 8));
  std::optional<Fields> own;
  if (options.foreseen == nullptr) own.emplace(stats, frame_words);
  Fields& fields = own ? *own : options.foreseen->fields();
  const uint64_t entropy = entropy_by_stats(fields);
  bool plain = false;
  if (options.kin && !options.wanted) {
    const unsigned after = options.search ? options.search->effort->plain_after : kPlainAfter;
    BREVIS_ASSIGN(plain, is_like(stream, entropy, *options.kin, after));
  }
  const bool may_shift = may_use(options, dsl::OpId::offset);
  if (plain && may_shift) {
    BREVIS_ASSIGN(const auto hinted, promising_offset(stream, true));
    plain = !hinted;
  }
  std::optional<OffsetPromise> offset;
  if (!plain && may_shift) {
    BREVIS_ASSIGN(offset, Foreseen::promising(options.foreseen, stream));
  }
  std::shared_ptr<Moved> moved;
  if (offset) {
    BREVIS_ASSIGN(moved, Foreseen::move(options.foreseen, stream, offset->params, fields));
  }
  const Follower follower{stream, fields, entropy, plain, offset, moved.get()};
  {
    BREVIS_ASSIGN(auto choice, follow_mate(follower, options));
    if (choice) return std::move(*choice);
  }
  const TrainWhole train = [&](const Expr& expr) { return train_whole(stream, fields, expr, options); };
  if (!plain && options.siblings_decide && options.search && !options.wanted) {
    // What statistics alone make of the words has to be beaten: a sibling's program may suit nothing here.
    const std::vector<Structure> counted = known_good(stream.dtype, fields, 1, kNoHints);
    const uint64_t limit = counted.empty() ? UINT64_MAX : counted.front().cost.value_or(UINT64_MAX);
    BREVIS_ASSIGN(auto choice, like_sibling(stream, frame_words, options.siblings, limit, *options.search, train));
    if (choice) return std::move(*choice);
  }
  std::vector<Candidate> candidates;
  std::optional<Kin> like_kin = plain ? std::nullopt : std::optional(Kin{});
  if (options.wanted) {
    BREVIS_ASSIGN(const Look sample, draw(stream, frame_words, options));
    if (auto candidate = price(options.wanted->expr(), sample.placed, stream.words))
      candidates.push_back(std::move(*candidate));
  }
  if (candidates.empty()) {
    bool counted = plain;
    if (!counted) {
      BREVIS_ASSIGN(counted, only_counts_tell(stream, entropy, options));
    }
    BREVIS_ASSIGN(candidates, Foreseen::known(options.foreseen, stream, fields, counted, options));
    if (!plain && !candidates.empty() && !candidates.front().sampled)
      like_kin = Kin{options.counted ? options.counted->in_a_row + 1 : 1, entropy / stream.words};
  }
  std::optional<Choice> shifted;
  if (offset) {
    const uint64_t limit = candidates.empty() ? UINT64_MAX : candidates.front().cost;
    BREVIS_ASSIGN(shifted, with_offset(stream, *moved, limit, entropy, options));
    if (shifted) {
      BREVIS_ASSIGN(*shifted, select_too(stream, *offset, std::move(*shifted), fields, entropy, options));
    }
  }
  if (!plain && !follows_context(follower, options) && !candidates.empty()) {
    const uint64_t limit = shifted ? shifted->estimated_bytes * 8 * 256 : candidates.front().cost;
    BREVIS_ASSIGN(auto dealt, Foreseen::by_context(options.foreseen, stream, fields, candidates.front().cost, limit,
                                                   entropy, options));
    if (dealt) shifted = std::move(dealt);
  }
  std::optional<SearchTrace> trace;
  std::optional<unsigned> in_vain;
  if (options.search && !options.wanted) {
    std::erase_if(candidates, [&](const Candidate& c) { return !options.search->grammar->allows(c.expr); });
    if (candidates.empty()) candidates.push_back({bare_literal(), stream.words * stream.width * 256});
    if (!plain && stream.words * (stream.width / 8) >= options.search->effort->least_bytes) {
      Improved better;
      const bool skipped = seems_in_vain(candidates, options);
      if (!skipped) {
        BREVIS_ASSIGN(better, searched(stream, fields, candidates, shifted, options, train));
        trace = std::move(better.trace);
      }
      if (skipped || trace->states != 0) in_vain = better.choice ? 0 : options.in_vain + 1;
      if (better.choice) {
        better.choice->in_vain = in_vain;
        better.choice->trace = std::move(trace);
        better.choice->counted = Kin{};
        return std::move(*better.choice);
      }
    }
  }
  if (shifted) {  // whose mate is not plain
    shifted->trace = trace;
    shifted->counted = like_kin;
    shifted->in_vain = in_vain;
    return std::move(*shifted);
  }
  for (const auto& candidate : candidates) {
    BREVIS_ASSIGN(auto choice, train_whole(stream, fields, candidate.expr, options));
    if (!choice) continue;
    choice->trace = trace;
    choice->counted = like_kin;
    choice->in_vain = in_vain;
    choice->estimated_bytes = candidate.cost / (256 * 8);
    if (entropy != 0)
      if (const auto cost = cost_by_stats(candidate.expr, fields))
        choice->mate = Mate{candidate.expr, quality_of(*cost, entropy), entropy / stream.words};
    if (choice->mate) choice->kin = Kin{options.kin ? options.kin->in_a_row + 1 : 1, entropy / stream.words};
    choice->shared = plain;
    return std::move(*choice);
  }
  BREVIS_ASSIGN(auto program, dsl::build(stream.width, bare_literal()));
  return without_tables(std::move(program), stream.words, options.frame_bytes, stream.words * (stream.width / 8));
}

constexpr unsigned kMostSkeletons = 3;  // one below the other
constexpr uint64_t kRegionBytes = 96;   // what another region costs, about
constexpr uint64_t kTurnedGainOf = 16;  // what slower decoding by zstd has to save
constexpr uint64_t kNearOf = 512;       // what is computed costs readers nothing, which is worth so much

ChooseRegion below(const ChooseOptions& options) {
  return [&options](const Stream& region, const Expr* wanted) -> Result<Choice> {
    ChooseOptions inner;
    inner.frame_bytes = options.frame_bytes;
    inner.search = options.search;
    inner.depth = options.depth + 1;
    if (wanted != nullptr) {
      BREVIS_ASSIGN(inner.wanted, dsl::build(region.width, *wanted, true));
    }
    BREVIS_ASSIGN(const StreamStats stats, gather_whole(region));
    return choose(region, stats, inner);
  };
}

// Rows of two equal halves: what is best for the half, said twice. What sees both may still do better: a repeat by zstd
// costs next to nothing where all of it is by zstd.
Result<std::optional<Choice>> said_twice(const Stream& stream, const ChooseOptions& options) {
  using Nothing = std::optional<Choice>;
  if (options.wanted || options.depth >= kMostSkeletons) return Nothing{};
  const uint64_t bytes = stream.width / 8;
  BREVIS_ASSIGN(const auto doubled, find_doubled(stream, std::max<uint64_t>(1, options.frame_bytes / bytes)));
  if (!doubled) return Nothing{};
  const Stream half = half_of(stream, *doubled);
  ChooseOptions inner;
  inner.frame_bytes = doubled->frame_words() / 2 * bytes;
  inner.search = options.search;
  inner.depth = options.depth + 1;
  BREVIS_ASSIGN(const StreamStats stats, gather_whole(half));
  BREVIS_ASSIGN(Choice choice, choose(half, stats, inner));
  const auto& regions = choice.program->regions();
  if (choice.frame_words.size() != 1 || regions.size() != 1 || regions[0].root != 0) return Nothing{};
  const Expr expr = say_twice(*doubled, choice.program->expr());
  if (options.search && !options.search->grammar->allows(expr)) return Nothing{};
  auto program = dsl::build(stream.width, expr);
  if (!program || program->slots().size() != choice.tables.size()) return Nothing{};
  Choice out;
  out.program = std::make_shared<dsl::Program>(std::move(*program));
  out.tables = std::move(choice.tables);
  out.frame_words = {doubled->frame_words()};
  out.trace = std::move(choice.trace);
  BREVIS_ASSIGN(const bool sure, expresses(out, stream));
  if (!sure) return Nothing{};
  BREVIS_ASSIGN(out.estimated_bytes, encoded_bytes(out, stream));
  return Nothing(std::move(out));
}

// Turned for zstd, where words stand above in their column and that is smaller than `plain`.
Result<std::optional<Choice>> by_columns(const Stream& stream, const StreamStats& stats, const Choice& plain,
                                         const ChooseOptions& options) {
  using Nothing = std::optional<Choice>;
  if (options.wanted || plain.frame_words.size() != 1) return Nothing{};
  BREVIS_ASSIGN(const bool recur, columns_recur(stream));
  if (!recur) return Nothing{};
  const uint64_t columns = stream.shape.back();
  const uint64_t rows = std::min(stream.words, options.frame_bytes / (stream.width / 8)) / columns;
  auto program = dsl::build(stream.width, turned_for_repeats(stream.dtype, stream.width, rows, columns));
  if (!program || (options.search && !options.search->grammar->allows(program->expr()))) return Nothing{};
  ChooseOptions asked;
  asked.frame_bytes = options.frame_bytes;
  asked.wanted = std::move(*program);
  BREVIS_ASSIGN(Choice choice, choose_region(stream, stats, asked));
  if (choice.program->expr() != asked.wanted->expr()) return Nothing{};
  BREVIS_ASSIGN(choice.estimated_bytes, encoded_bytes(choice, stream));
  BREVIS_ASSIGN(const uint64_t before, encoded_bytes(plain, stream));
  if (choice.estimated_bytes + choice.estimated_bytes / kTurnedGainOf >= before) return Nothing{};
  choice.trace = plain.trace;
  return Nothing(std::move(choice));
}

// Without equal rows or words at its ends, where that is smaller than `plain`.
Result<std::optional<Choice>> without_ends(const Stream& stream, const Choice& plain, const ChooseOptions& options) {
  if (options.wanted || plain.frame_words.empty() || options.depth >= kMostSkeletons) return std::optional<Choice>{};
  BREVIS_ASSIGN(const auto outline, cut_ends(stream));
  if (!outline || (options.search && !options.search->grammar->allows(*outline))) return std::optional<Choice>{};
  BREVIS_ASSIGN(auto choice, over_skeleton(stream, *outline, true, false, below(options)));
  if (!choice) return choice;
  // Where the ends are a part of the sample it tells the plain program's size badly.
  BREVIS_ASSIGN(choice->estimated_bytes, encoded_bytes(*choice, stream));
  BREVIS_ASSIGN(const uint64_t whole, encoded_bytes(plain, stream));
  if (choice->estimated_bytes + kRegionBytes >= whole + whole / kNearOf) return std::optional<Choice>{};
  choice->trace = plain.trace;
  return choice;
}

bool has_skeleton(const dsl::Program& program) { return dsl::spec_of(program.root().op).place == dsl::Place::skeleton; }

}  // namespace

Result<Choice> choose(const Stream& stream, const StreamStats& stats, const ChooseOptions& options) {
  if (options.wanted && has_skeleton(*options.wanted)) {
    BREVIS_ASSIGN(auto choice, over_skeleton(stream, options.wanted->expr(), false, true, below(options)));
    if (choice) return std::move(*choice);
    ChooseOptions free = options;
    free.wanted.reset();
    return choose(stream, stats, free);
  }
  if (options.may_be_text && !options.wanted) {
    BREVIS_ASSIGN(auto text, as_text(stream, stats, options.frame_bytes));
    if (text) return std::move(*text);
  }
  std::optional<Choice> twice;
  if (!stats.constant() && !stats.ramp) {
    BREVIS_ASSIGN(twice, said_twice(stream, options));
  }
  BREVIS_ASSIGN(Choice plain, choose_region(stream, stats, options));
  if (twice) {
    BREVIS_ASSIGN(const uint64_t once, encoded_bytes(plain, stream));
    if (twice->estimated_bytes < once) return std::move(*twice);
  }
  BREVIS_ASSIGN(auto cut, without_ends(stream, plain, options));
  if (cut) return std::move(*cut);
  BREVIS_ASSIGN(auto columns, by_columns(stream, stats, plain, options));
  if (columns) return std::move(*columns);
  const bool look = options.search && !options.wanted && !plain.shared && !plain.frame_words.empty() &&
                    options.depth < kMostSkeletons && options.search->effort->limits.expansions != 0 &&
                    stream.words * (stream.width / 8) >= options.search->effort->least_bytes;
  if (!look) return plain;
  const uint64_t frame_words = std::max<uint64_t>(1, options.frame_bytes / (stream.width / 8));
  BREVIS_ASSIGN(auto better,
                best_skeleton(stream, frame_words, plain.estimated_bytes * 8 * 256, *options.search, below(options)));
  if (!better) return plain;
  better->trace = std::move(plain.trace);
  return std::move(*better);
}

}  // namespace brevis::synth
