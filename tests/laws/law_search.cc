// SPDX-License-Identifier: Apache-2.0
//
// Laws of the search, on spaces small enough to be gone through whole.
#include <doctest/doctest.h>

#include "dsl/verify.h"
#include "support/search_world.h"

using namespace brevis;
using namespace brevis::test;
using synth::Prior;
using synth::SearchLimits;
using synth::TargetPool;

namespace {

constexpr size_t kDepth = 4;

// The cheapest program for a target, by trying everything.
uint64_t cheapest(TargetPool& pool, const synth::Grammar& grammar, uint32_t target, size_t depth) {
  uint64_t best = pool.leaf(target).cost;
  if (depth + 1 >= kDepth) return best;
  for (const auto& production : grammar.region(pool.target(target))) {
    const auto* applied = pool.apply(target, production);
    if (applied == nullptr) continue;
    uint64_t sum = applied->own;
    for (const uint32_t child : applied->children) sum += cheapest(pool, grammar, child, depth + 1);
    best = std::min(best, sum);
  }
  return best;
}

struct Space {
  explicit Space(uint64_t seed)
      : windows(mixed_windows(seed % 3 == 0 ? 16 : 8, 1 + seed % 2, 300, seed)),
        dtype(seed % 3 == 0 ? Dtype::U16 : Dtype::U8) {}
  TargetPool pool() const { return TargetPool(dtype, windows.words * 7, windows.windows, {}); }
  Windows windows;
  Dtype dtype;
  SmallGrammar grammar;
};

SearchLimits limits(uint64_t expansions) {
  SearchLimits out;
  out.expansions = expansions;
  out.depth = kDepth;
  out.nodes = 64;
  return out;
}

synth::Searched run(const Space& space, const Prior& prior, uint64_t expansions,
                    std::span<const dsl::Expr> incumbents = {}) {
  TargetPool pool = space.pool();
  return synth::search(pool, space.grammar, prior, incumbents, limits(expansions));
}

// Taught by another space's winner, so that it is wrong here and there.
Prior taught(uint64_t seed) {
  Prior prior;
  const Space space(seed);
  TargetPool pool = space.pool();
  const auto found = synth::search(pool, space.grammar, Prior{}, {}, limits(200));
  synth::learn_from(pool, space.grammar, found.best.front().expr, prior);
  REQUIRE(!prior.uniform());
  return prior;
}

}  // namespace

TEST_CASE("a search with enough budget finds the cheapest program, whatever the prior") {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    const Space space(seed);
    TargetPool pool = space.pool();
    const uint64_t best = cheapest(pool, space.grammar, TargetPool::kRoot, 0);
    const auto plain = run(space, {}, 1000000);
    CHECK(plain.trace.exhausted);
    CHECK(plain.best.front().cost == best);
    const auto guided = run(space, taught(seed + 1), 1000000);
    CHECK(guided.trace.exhausted);
    CHECK(guided.best.front().cost == best);
  }
}

TEST_CASE("a larger budget never ends dearer, and no budget is as good as the incumbents") {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    const Space space(seed);
    TargetPool pool = space.pool();
    const dsl::Expr bare{dsl::OpId::literal, {}, {}};
    uint64_t before = pool.leaf(TargetPool::kRoot).cost;
    CHECK(run(space, {}, 0, {&bare, 1}).best.front().cost == before);
    for (const uint64_t budget : {1, 2, 3, 5, 8, 13, 21, 34, 55, 200}) {
      const auto found = run(space, {}, budget);
      CHECK(found.trace.expansions <= budget);
      CHECK(found.best.front().cost <= before);
      before = found.best.front().cost;
    }
  }
}

TEST_CASE("what a search says a program costs is what it costs, with any prior") {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    const Space space(seed);
    const Prior prior = taught(seed + 3);
    for (const Prior& any : {Prior{}, prior}) {
      for (const auto& found : run(space, any, 40).best) {
        TargetPool pool = space.pool();
        CHECK(pool.score(TargetPool::kRoot, found.expr) == found.cost);
      }
    }
  }
}

TEST_CASE("a pool whose price of time was changed costs what one made with that price does") {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    const Space space(seed);
    TargetPool pool = space.pool();
    auto programs = synth::search(pool, space.grammar, Prior{}, {}, limits(200)).best;
    for (const uint64_t lambda : {uint64_t{0}, synth::kLambdaOne / 16, 3 * synth::kLambdaOne, synth::kLambdaOne}) {
      CAPTURE(lambda);
      pool.set_lambda(lambda);
      synth::PoolOptions options;
      options.lambda = lambda;
      TargetPool fresh(space.dtype, space.windows.words * 7, space.windows.windows, options);
      for (const synth::Found& found : programs)
        CHECK(pool.score(TargetPool::kRoot, found.expr) == fresh.score(TargetPool::kRoot, found.expr));
      for (const synth::Found& found : synth::search(pool, space.grammar, Prior{}, {}, limits(100)).best)
        CHECK(found.cost == fresh.score(TargetPool::kRoot, found.expr));
    }
    CHECK(pool.score(TargetPool::kRoot, programs.front().expr) == programs.front().cost);
  }
}

TEST_CASE("what a search hands back passes the gate, within the limits") {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const Space space(seed);
    for (const auto& found : run(space, {}, 100).best) {
      const auto program = dsl::build(space.windows.windows.front().words.width, found.expr);
      REQUIRE(program);
      CHECK(program->nodes().size() <= 64);
    }
  }
}

TEST_CASE("the same search gives the same programs and the same trace") {
  size_t cut_short = 0;  // where order decides what is found; a space gone through whole tells nothing of it
  for (uint64_t seed = 0; seed < 8; ++seed)
    for (const uint64_t budget : {3, 8, 21, 60}) {
      CAPTURE(seed);
      CAPTURE(budget);
      const Space space(seed);
      const auto a = run(space, {}, budget), b = run(space, {}, budget);
      REQUIRE(a.best.size() == b.best.size());
      for (size_t i = 0; i < a.best.size(); ++i) CHECK(a.best[i].expr == b.best[i].expr);
      CHECK(a.trace.expansions == b.trace.expansions);
      CHECK(a.trace.work == b.trace.work);
      CHECK(a.trace.states == b.trace.states);
      cut_short += !a.trace.exhausted;
    }
  CHECK(cut_short >= 8);
}

TEST_CASE("an operator left out is in no program found") {
  Space space(0);
  space.grammar = SmallGrammar({"merge"});
  for (const auto& found : run(space, {}, 100).best) CHECK(space.grammar.allows(found.expr));
  CHECK(
      !space.grammar.allows({dsl::OpId::merge, {4, 4}, {{dsl::OpId::literal, {}, {}}, {dsl::OpId::literal, {}, {}}}}));
}

TEST_CASE("what a node leaves is told from the stream, unless all is asked") {
  const Space space(3);
  for (const bool all : {false, true}) {
    synth::PoolOptions options;
    options.asks_all = all;
    TargetPool pool(space.dtype, space.windows.words * 7, space.windows.windows, options);
    size_t children = 0;
    for (const auto& production : space.grammar.region(pool.target(TargetPool::kRoot)))
      if (const auto* applied = pool.apply(TargetPool::kRoot, production))
        for (const uint32_t child : applied->children) {
          if (child == TargetPool::kRoot) continue;
          ++children;
          CHECK(pool.target(child).below == !all);
        }
    CHECK(children != 0);
    CHECK_FALSE(pool.target(TargetPool::kRoot).below);
  }
}
