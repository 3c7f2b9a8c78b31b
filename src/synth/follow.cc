// SPDX-License-Identifier: Apache-2.0
#include "synth/follow.h"

#include <algorithm>

#include "synth/deals.h"
#include "synth/known_good.h"

namespace brevis::synth {
namespace {

constexpr uint64_t kQualitySlackOf = 512;  // a mate's cut may do 1/512 worse than it did for the mate
constexpr uint64_t kSameGainOf = 16;       // what an offset makes of the entropy may differ by so much from the mate's
constexpr uint64_t kOffsetGainOf = 256;    // an offset like a mate's saves so much of what the mate's cut costs

using Followed = Result<std::optional<Choice>>;

Followed cut_as_mate(const Follower& follower, const ChooseOptions& options) {
  const Mate& mate = *options.mate;
  const auto cut = cut_like(mate.expr, follower.fields);
  if (!cut || (options.search && !options.search->grammar->allows(cut->expr))) return std::optional<Choice>{};
  if (quality_of(*cut->cost, follower.entropy) > mate.quality + mate.quality / kQualitySlackOf)
    return std::optional<Choice>{};
  BREVIS_ASSIGN(auto choice, train_whole(follower.stream, follower.fields, cut->expr, options));
  if (!choice) return std::optional<Choice>{};
  choice->estimated_bytes = *cut->cost / (256 * 8);
  choice->mate = mate;
  choice->shared = true;
  if (follower.plain) choice->kin = Kin{options.kin->in_a_row + 1, follower.entropy / follower.stream.words};
  return choice;
}

// Of about the mate's entropy it may still be of another kind.
bool wins_as_mate(const Choice& choice, const Mate& mate) {
  if (!choice.mate) return false;
  const uint64_t here = choice.mate->quality, there = mate.quality;
  return std::max(here, there) - std::min(here, there) <= there / kSameGainOf;
}

// Axes are the stream's own, too.
Followed moved_as_mate(const Follower& follower, const ChooseOptions& options) {
  const auto plain = mate_candidate(follower.fields, options);
  const auto inner = mate_candidate(follower.moved->fields, options);
  if (!plain || !inner) return std::optional<Choice>{};
  const uint64_t limit = plain->cost - plain->cost / kOffsetGainOf;
  BREVIS_ASSIGN(auto choice, train_moved(follower.stream, *follower.moved, *inner, limit, follower.entropy, options));
  if (!choice) return choice;
  choice->shared = true;
  BREVIS_ASSIGN(*choice, select_too(follower.stream, *follower.offset, std::move(*choice), follower.fields,
                                    follower.entropy, options));
  if (!wins_as_mate(*choice, *options.mate)) choice.reset();
  return choice;
}

Followed dealt_as_mate(const Follower& follower, const ChooseOptions& options) {
  const auto plain = mate_candidate(follower.fields, options);
  if (!plain) return std::optional<Choice>{};
  BREVIS_ASSIGN(auto choice, Foreseen::by_context_like(options.foreseen, *options.mate, follower.stream,
                                                       follower.fields, plain->cost, follower.entropy, options));
  if (choice) choice->shared = true;
  return choice;
}

bool has_way(const Follower& follower, const ChooseOptions& options) {
  return !options.wanted && follows_mate(options, follower.entropy, follower.stream.words);
}

}  // namespace

bool follows_context(const Follower& follower, const ChooseOptions& options) {
  return has_way(follower, options) && !follower.plain && follower.moved == nullptr &&
         options.mate->expr.op == dsl::OpId::context;
}

Followed follow_mate(const Follower& follower, const ChooseOptions& options) {
  if (!options.mate || options.wanted || follower.entropy == 0) return std::optional<Choice>{};
  if (follower.moved != nullptr)
    return follows_offset(options, follower.entropy, follower.stream) ? moved_as_mate(follower, options)
                                                                      : std::optional<Choice>{};
  if (follower.plain || options.mate_decides) {
    BREVIS_ASSIGN(auto choice, cut_as_mate(follower, options));
    if (choice) return choice;
  }
  return follows_context(follower, options) ? dealt_as_mate(follower, options) : std::optional<Choice>{};
}

}  // namespace brevis::synth
