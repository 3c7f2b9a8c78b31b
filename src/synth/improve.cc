// SPDX-License-Identifier: Apache-2.0
#include "synth/improve.h"

#include <algorithm>

#include "base/threads.h"
#include "codec/zstd_memo.h"
#include "dsl/encode.h"
#include "synth/sample.h"
#include "synth/spine.h"
#include "synth/table_sets.h"

namespace brevis::synth {
namespace {

constexpr uint64_t kByte = 8 * 256;
constexpr uint64_t kProofWork = 2;  // of a candidate's tables and frames, a word of the stream
constexpr uint64_t kShareOne = 65536;
constexpr uint64_t kShareSlackOf = 16;  // a sibling's program may do so much worse than it did there

Result<std::shared_ptr<const dsl::BoundProgram>> bind(const Choice& choice) {
  return bind_sets(choice.program, single_sets(choice.tables));
}

// Bytes of some whole frames, scaled to all of them, and tables; nullopt when a frame cannot be expressed. Where those
// are all frames the choice keeps them.
Result<std::optional<uint64_t>> encoded_cost(Choice& choice, const Stream& stream, uint64_t frames) {
  const uint64_t step = choice.frame_words[0], all = (stream.words + step - 1) / step;
  const uint64_t start = thread_cpu_ns();
  BREVIS_ASSIGN(const auto bound, bind(choice));
  const uint64_t count = std::min(frames, all);
  uint64_t words = 0, bytes = 0;
  std::vector<ByteVector> stored(count);
  bits::OwnedWords buffer;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t first = (count == all ? i : (all - 1) * (i + 1) / (count + 1)) * step;
    BREVIS_ASSIGN(const auto part, stream.at(first, std::min(step, stream.words - first), buffer));
    BREVIS_ASSIGN(const bool fits, dsl::encode_frame(*bound, 0, first, part, stored[i]));
    if (!fits) return std::optional<uint64_t>{};
    words += part.count;
    bytes += stored[i].size();
  }
  if (count == all) {
    choice.encoded = std::make_shared<const std::vector<ByteVector>>(std::move(stored));
    choice.training_ns += thread_cpu_ns() - start;
  }
  uint64_t cost = static_cast<uint64_t>(static_cast<unsigned __int128>(bytes) * kByte * stream.words / words);
  for (const ByteVector& table : choice.tables) cost += table.size() * kByte;
  return std::optional(cost);
}

SearchLimits limits_of(const SearchOptions& options) {
  SearchLimits limits = options.effort->limits;
  limits.work = std::min(limits.work, options.budget->left());
  return limits;
}

struct Candidate {
  Choice choice;
  uint64_t cost;
};

// A candidate trained, encoded and, where it could refuse a word, proved.
Result<std::optional<Candidate>> prove(const Stream& stream, TargetPool& pool, const dsl::Expr& expr,
                                       const SearchOptions& options, const TrainWhole& train) {
  BREVIS_ASSIGN(auto choice, train(expr));
  if (!choice) return std::optional<Candidate>{};
  BREVIS_ASSIGN(const auto bytes, encoded_cost(*choice, stream, options.effort->rerank_frames));
  if (!bytes) return std::optional<Candidate>{};
  const uint64_t cost = *bytes + pool.decode_price(TargetPool::kRoot, expr);
  return std::optional(Candidate{std::move(*choice), cost});
}

}  // namespace

Result<uint64_t> encoded_bytes(const Choice& choice, const Stream& stream) {
  constexpr uint64_t kMostFrames = 32;
  uint64_t sum = 0;
  for (const ByteVector& table : choice.tables) sum += table.size();
  if (choice.encoded) {
    for (const ByteVector& frame : *choice.encoded) sum += frame.size();
    return sum;
  }
  const auto regions = Regions::of(*choice.program, stream);
  if (!regions) return make_error(Errc::internal, "a program does not fit the stream it was chosen for");
  BREVIS_ASSIGN(const auto bound, bind(choice));
  ByteVector stored;
  bits::OwnedWords buffer;
  for (uint32_t r = 0; r < regions->count(); ++r) {
    const Stream region = regions->region(r);
    if (region.words == 0) continue;
    const uint64_t step = choice.frame_words[r], all = (region.words + step - 1) / step;
    const uint64_t every = (all + kMostFrames - 1) / kMostFrames;
    uint64_t words = 0, bytes = 0;
    for (uint64_t i = (all - 1) % every / 2; i < all; i += every) {
      BREVIS_ASSIGN(const auto part, region.at(i * step, std::min(step, region.words - i * step), buffer));
      stored.clear();
      BREVIS_ASSIGN(const bool fits, dsl::encode_frame(*bound, r, i * step, part, stored));
      if (!fits) return uint64_t{UINT64_MAX};
      words += part.count;
      bytes += stored.size();
    }
    sum += static_cast<uint64_t>(static_cast<unsigned __int128>(bytes) * region.words / std::max<uint64_t>(words, 1));
  }
  return sum;
}

Result<bool> expresses(Choice& choice, const Stream& stream) {
  constexpr uint64_t kMostKept = 4;  // frames
  if (choice.encoded) return true;
  const auto& nodes = choice.program->nodes();
  if (std::all_of(nodes.begin(), nodes.end(), [](const dsl::Node& node) { return dsl::spec_of(node.op).total; }))
    return true;
  const uint64_t start = thread_cpu_ns();
  BREVIS_ASSIGN(const auto bound, bind(choice));
  const uint64_t step = choice.frame_words[0];
  bits::OwnedWords buffer;
  std::vector<ByteVector> kept;
  ByteVector stored;
  for (uint64_t first = 0; first < stream.words; first += step) {
    BREVIS_ASSIGN(const auto part, stream.at(first, std::min(step, stream.words - first), buffer));
    stored.clear();
    BREVIS_ASSIGN(const bool fits, dsl::encode_frame(*bound, 0, first, part, stored));
    if (!fits) return false;
    if (stream.words <= kMostKept * step) kept.push_back(stored);
  }
  if (!kept.empty()) {
    choice.encoded = std::make_shared<const std::vector<ByteVector>>(std::move(kept));
    choice.training_ns += thread_cpu_ns() - start;
  }
  return true;
}

namespace {

// On the sample.
uint64_t cost_of_known(TargetPool& pool, const Known& known) {
  // A list of all words of the stream has some that the sample does not show.
  const dsl::Expr& program = known.programs.front();
  uint64_t cost =
      pool.score(TargetPool::kRoot, program).value_or(known.cost + pool.decode_price(TargetPool::kRoot, program));
  if (known.costs && known.programs.size() > 1 && known.costs->second != 0)
    if (const auto other = pool.score(TargetPool::kRoot, known.programs[1]))
      cost = std::min(cost, static_cast<uint64_t>(static_cast<unsigned __int128>(*other) * known.costs->first /
                                                  known.costs->second));
  return cost;
}

uint64_t share_of(uint64_t cost, uint64_t whole) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(cost) * kShareOne / std::max<uint64_t>(whole, 1));
}

// Trains and encodes the programs that promise enough, `most` of them, beside the known one.
Status rerank(const Stream& stream, TargetPool& pool, const std::vector<Found>& promising, size_t most,
              const Known& given, uint64_t known_cost, std::optional<Candidate>& best, const SearchOptions& options,
              const TrainWhole& train, Improved& out) {
  const std::vector<dsl::Expr>& known = given.programs;
  const Effort& effort = *options.effort;
  size_t tried = 0;
  for (const Found& found : promising) {
    if (tried == most || found.cost + found.cost / effort.gain_of >= known_cost) break;
    const bool is_known = std::find(known.begin(), known.end(), found.expr) != known.end();
    if (found.expr == known.front() || (is_known && given.costs)) continue;
    BREVIS_ASSIGN(auto other, prove(stream, pool, found.expr, options, train));
    if (!other) continue;  // the sample did not show all words
    options.budget->spend(stream.words * kProofWork);
    if (!best) {
      options.budget->spend(stream.words * kProofWork);
      BREVIS_ASSIGN(best, prove(stream, pool, known.front(), options, train));
    }
    tried += !is_known;
    if (best && other->cost >= best->cost) continue;
    BREVIS_ASSIGN(const bool sure, expresses(other->choice, stream));
    if (!sure) continue;
    other->choice.estimated_bytes = other->cost / kByte;
    out.choice = other->choice;
    out.choice->sibling = Sibling{pool.outline(TargetPool::kRoot, found.expr, found.cost), known.front(),
                                  share_of(found.cost, known_cost)};
    best = std::move(other);
  }
  return {};
}

}  // namespace

Result<Improved> improve(const Stream& stream, uint64_t frame_words, const Known& known, const SearchOptions& given,
                         const TrainWhole& train) {
  Improved out;
  const bool thorough = known.order_tells;
  if (given.effort->limits.expansions == 0 ||
      (!thorough &&
       given.budget->left() < given.effort->least_work_of * given.effort->windows * given.effort->window_words))
    return out;
  const codec::ZstdMemo memo;  // candidates differ in a few literals
  SearchOptions options = given;
  const Effort whole = thorough_effort(*given.effort, frame_words);
  if (thorough) options.effort = &whole;
  const Effort& effort = *options.effort;
  BREVIS_ASSIGN(const Drawn drawn, draw_sample(stream, frame_words, effort));
  if (!thorough && !effort.any_stream && !shows_order(stream, drawn)) return out;
  TargetPool pool = pool_for(stream, frame_words, drawn, options);
  std::vector<dsl::Expr> incumbents = known.programs;
  for (const Sibling& sibling : known.siblings)
    if (auto expr = pool.completed(TargetPool::kRoot, sibling.expr)) incumbents.push_back(std::move(*expr));
  std::optional<Candidate> proved;
  if (thorough) {  // what zstd makes of a whole frame no sample tells well
    BREVIS_ASSIGN(proved, prove(stream, pool, known.programs.front(), options, train));
  }
  uint64_t known_cost = 0;
  const auto search_from_here = [&] {
    known_cost = cost_of_known(pool, known);
    if (proved) known_cost = std::max(known_cost, proved->cost);
    SearchLimits limits = limits_of(options);
    if (thorough) limits.work = pool.work() + pool.sampled(TargetPool::kRoot) * effort.thorough_work_of;
    limits.below = known_cost - known_cost / (effort.gain_of + 1);  // what is dearer is not looked at below
    return search(pool, *options.grammar, *options.prior, incumbents, limits);
  };
  std::vector<Found> usual;
  if (effort.lambda != kLambdaOne) {
    // Where time hardly counts a search takes other turns, not always better ones: it goes the usual way first, and
    // most of what that finds out is of use on the other.
    pool.set_lambda(kLambdaOne);
    usual = search_from_here().best;
    pool.set_lambda(effort.lambda);
  }
  Searched searched = search_from_here();
  if (!thorough) options.budget->spend(pool.work());
  out.trace = std::move(searched.trace);
  BREVIS_TRY(rerank(stream, pool, searched.best, effort.rerank, known, known_cost, proved, options, train, out));
  std::erase_if(usual, [&](const Found& found) {
    return std::any_of(searched.best.begin(), searched.best.end(),
                       [&](const Found& f) { return f.expr == found.expr; });
  });
  for (Found& found : usual) found.cost = pool.score(TargetPool::kRoot, found.expr).value_or(UINT64_MAX / 2);
  std::stable_sort(usual.begin(), usual.end(), [](const Found& a, const Found& b) { return a.cost < b.cost; });
  // These come second: half as many are enough.
  BREVIS_TRY(rerank(stream, pool, usual, (effort.rerank + 1) / 2, known, known_cost, proved, options, train, out));
  if (out.choice) out.choice->sibling->thorough = thorough;
  options.budget->found(out.choice.has_value());
  return out;
}

Result<std::optional<Choice>> like_sibling(const Stream& stream, uint64_t frame_words,
                                           std::span<const Sibling> siblings, uint64_t limit,
                                           const SearchOptions& given, const TrainWhole& train) {
  if (siblings.empty()) return std::optional<Choice>{};
  SearchOptions options = given;
  const Effort whole = thorough_effort(*given.effort, frame_words);
  if (siblings.front().thorough) options.effort = &whole;
  BREVIS_ASSIGN(const Drawn drawn, draw_sample(stream, frame_words, *options.effort));
  TargetPool pool = pool_for(stream, frame_words, drawn, options);
  const Sibling* best = nullptr;
  uint64_t least = limit;
  for (const Sibling& sibling : siblings) {
    const auto cost = pool.score(TargetPool::kRoot, sibling.expr);
    if (!cost || *cost >= least) continue;
    const auto beaten = pool.score(TargetPool::kRoot, sibling.beaten);
    if (beaten && share_of(*cost, *beaten) > sibling.share + sibling.share / kShareSlackOf) continue;
    best = &sibling;
    least = *cost;
  }
  if (best == nullptr) return std::optional<Choice>{};
  BREVIS_ASSIGN(auto choice, train(*pool.completed(TargetPool::kRoot, best->expr)));
  if (!choice) return choice;
  BREVIS_ASSIGN(const bool sure, expresses(*choice, stream));
  if (!sure) return std::optional<Choice>{};
  choice->estimated_bytes = least / kByte;
  choice->sibling = *best;
  choice->shared = true;
  return choice;
}

Status learn(const Stream& stream, uint64_t frame_words, const SearchOptions& options, Prior& prior) {
  BREVIS_ASSIGN(const Drawn drawn, draw_sample(stream, frame_words, *options.effort));
  if (!options.effort->any_stream && !shows_order(stream, drawn)) return {};
  TargetPool pool = pool_for(stream, frame_words, drawn, options);
  SearchLimits limits = limits_of(options);
  limits.expansions *= options.effort->prior_factor;
  const Searched searched = search(pool, *options.grammar, *options.prior, {}, limits);
  options.budget->spend(pool.work());
  learn_from(pool, *options.grammar, searched.best.front().expr, prior);
  return {};
}

}  // namespace brevis::synth
