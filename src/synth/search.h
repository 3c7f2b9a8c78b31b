// SPDX-License-Identifier: Apache-2.0
//
// The search for a region's program: bounded A* over partial programs. A partial program is a tree with holes; the hole
// that costs most among those of the node made last is expanded by one production at a time. States are taken in the
// order of the expected cost of the finished program: what is closed, what the prior expects of the open holes, and a
// small price for unlikely productions. Every state is also completed with literals when it is made, so that the best
// program so far is at hand whenever the budget ends. The states on the way to the incumbents are there from the
// beginning.
//
// Tables are trained only where what no literal can beat (entropy, upkeep) leaves room below the programs kept.
//
// States are dropped for two reasons only, both proved: what they have spent and the least that their holes can cost
// reaches the best complete program or the limit of interest; or another state with the same open holes has spent no
// more, has no more nodes and is no deeper. A larger budget therefore never ends worse in cost, and with enough of it
// the cheapest program of the grammar within the limits is found, whatever the prior.
//
// Threads: one caller. Errors: none. Determinism: integers, ties to the state made first.
#pragma once

#include "synth/prior.h"
#include "synth/targets.h"

namespace brevis::synth {

struct SearchLimits {
  uint64_t expansions = 0;  // productions applied
  uint64_t work = UINT64_MAX;
  // Productions without the best falling by a 128th before the search gives up.
  uint64_t patience = UINT64_MAX;
  size_t nodes = 64;
  size_t depth = 8;
  size_t keep = 4;  // programs handed back
  // Programs that cost this or more are of no interest, the incumbents and the bare literal apart.
  uint64_t below = UINT64_MAX;
};

struct Found {
  dsl::Expr expr;
  uint64_t cost = 0;
  bool incumbent = false;
};

// What happened, for people: `brevis inspect --trace`.
struct SearchTrace {
  uint64_t expansions = 0;  // productions applied
  uint64_t refused = 0;     // of them, those that could not stand there
  uint64_t states = 0;
  uint64_t dominated = 0, pruned = 0;
  uint64_t targets = 0, work = 0;
  uint64_t holes = 0, prior_hits = 0;  // of the winner: those where the likeliest production was the right one
  struct Point {
    uint64_t expansions, cost;
  };
  std::vector<Point> curve;  // the best so far, whenever it fell
  bool exhausted = false;    // nothing was left to expand
};

struct Searched {
  std::vector<Found> best;  // by rising cost, never empty
  SearchTrace trace;
};

// `incumbents`: programs known already; those that express the sample compete by the same cost.
Searched search(TargetPool& pool, const Grammar& grammar, const Prior& prior, std::span<const dsl::Expr> incumbents,
                const SearchLimits& limits);

// Counts what a program made of the pool's root, hole by hole.
void learn_from(TargetPool& pool, const Grammar& grammar, const dsl::Expr& winner, Prior& prior);

}  // namespace brevis::synth
