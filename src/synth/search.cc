// SPDX-License-Identifier: Apache-2.0
#include "synth/search.h"

#include <algorithm>
#include <queue>

namespace brevis::synth {
namespace {

constexpr uint64_t kNever = UINT64_MAX;
constexpr uint32_t kNone = UINT32_MAX;
// A bit of surprise counts like this share of the root's literal.
constexpr unsigned kSurpriseShift = 12;
constexpr uint64_t kNoteworthyOf = 128;  // of the best cost: a gain that patience waits for
constexpr uint64_t kHopeOf = 2;          // of a hole's literal

// Open holes, shared by all states that have them in common. Of the children of a node the one that costs most comes
// first: what is found there decides, while the heads of scans and lists of exceptions hardly count.
struct Stack {
  uint32_t target;
  uint32_t below;  // kNone: nothing
  uint8_t parent, slot, depth;
  uint32_t count;
  uint64_t literals;  // closing all costs that at least
  uint64_t expected;
};

struct State {
  uint64_t closed;      // spent in closed leaves and nodes
  uint64_t surprise;    // 1/1024 bits
  uint32_t stack;       // open holes
  uint32_t nodes;       // closed or open
  uint32_t operators;   // of the nodes
  uint32_t parent;      // state before, kNone for the first
  uint32_t production;  // what the parent's first hole became: 0 a literal, else 1 + index
};

struct Open {
  uint64_t priority;
  uint64_t serial;
  uint32_t state;
  uint32_t next;                             // place in the hole's order of productions
  bool rough;                                // the priority is a lower bound: the operators were not asked yet
  bool operator<(const Open& other) const {  // the queue hands out the greatest
    return std::tie(priority, serial) > std::tie(other.priority, other.serial);
  }
};

class Searcher {
 public:
  Searcher(TargetPool& pool, const Grammar& grammar, const Prior& prior, const SearchLimits& limits)
      : pool_(pool), grammar_(grammar), prior_(prior), limits_(limits), unit_(pool.least_leaf(TargetPool::kRoot)) {}

  Searched run(std::span<const dsl::Expr> incumbents) {
    for (const dsl::Expr& expr : incumbents)
      if (const auto cost = pool_.score(TargetPool::kRoot, expr)) keep({expr, *cost, true});
    const uint32_t root = push(TargetPool::kRoot, kNone, 255, 0, 0);
    for (const dsl::Expr& expr : incumbents) make_known(TargetPool::kRoot, expr);
    const uint32_t first = add_state({0, 0, root, 1, 0, kNone, 0});
    for (const dsl::Expr& expr : incumbents) start_from(first, expr);
    while (waiting_ != 0 && may_go_on()) step();
    trace_.exhausted = waiting_ == 0;
    trace_.states = states_.size();
    trace_.targets = pool_.size();
    trace_.work = pool_.work();
    return {std::move(best_), std::move(trace_)};
  }

 private:
  struct Choices {
    std::vector<Production> productions;
    std::vector<std::pair<uint32_t, uint32_t>> order;  // cost and 0 for a literal, else 1 + index
  };

  uint32_t push(uint32_t target, uint32_t below, uint8_t parent, uint8_t slot, uint8_t depth) {
    const std::tuple key{target, below, parent, slot, depth};
    const auto found = stack_ids_.find(key);
    if (found != stack_ids_.end()) return found->second;
    const uint64_t literal = pool_.least_leaf(target);
    const uint64_t share = prior_.expected(context(target, parent, slot, depth));
    Stack top{target, below, parent, slot, depth, 1, literal, literal / Prior::kWhole * share};
    if (below != kNone) {
      top.count += stacks_[below].count;
      top.literals += stacks_[below].literals;
      top.expected += stacks_[below].expected;
    }
    stacks_.push_back(top);
    const auto id = static_cast<uint32_t>(stacks_.size() - 1);
    stack_ids_.emplace(key, id);
    return id;
  }

  const Context& context(uint32_t target, uint8_t parent, uint8_t slot, uint8_t depth) {
    auto [at, fresh] = contexts_.try_emplace({target, parent, slot, depth});
    if (fresh)
      at->second = prior_.uniform() ? Context{parent, slot, depth} : context_of(pool_, target, parent, slot, depth);
    return at->second;
  }

  const std::vector<Production>& productions_of(uint32_t target) {
    auto [at, fresh] = productions_.try_emplace(target);
    if (fresh) at->second = grammar_.region(pool_.target(target));
    return at->second;
  }

  // What incumbents are made of may stand where it stood, whether an operator proposes it or not.
  void make_known(uint32_t target, const dsl::Expr& expr) {
    if (expr.op == dsl::OpId::literal) return;
    auto place = place_of(target, expr);
    if (!place && pool_.apply(target, production_of(expr)) != nullptr) {
      productions_[target].push_back(production_of(expr));
      place = place_of(target, expr);
    }
    const Applied* applied = place ? pool_.apply(target, productions_of(target)[*place]) : nullptr;
    if (applied == nullptr || applied->children.size() != expr.children.size()) return;
    for (size_t i = 0; i < expr.children.size(); ++i) make_known(applied->children[i], expr.children[i]);
  }

  std::optional<uint32_t> place_of(uint32_t target, const dsl::Expr& expr) {
    const auto& productions = productions_of(target);
    for (uint32_t i = 0; i < productions.size(); ++i)
      if (productions[i].op == expr.op && productions[i].params == expr.params)
        if (const Applied* applied = pool_.apply(target, productions[i]);
            applied != nullptr && applied->children.size() == expr.children.size())
          return i;
    return std::nullopt;
  }

  // The states on the way to an incumbent, so that what is near it is near at hand.
  void start_from(uint32_t state, const dsl::Expr& incumbent) {
    std::vector<const dsl::Expr*> open{&incumbent};
    while (!open.empty()) {
      const dsl::Expr* expr = open.back();
      open.pop_back();
      const Stack hole = stacks_[states_[state].stack];
      uint32_t choice = 0;
      if (expr->op != dsl::OpId::literal) {
        const auto place = place_of(hole.target, *expr);
        if (!place) return;
        choice = *place + 1;
      }
      const auto next = follow(state, hole, choice, 0);
      if (!next) return;
      if (choice != 0) {
        const auto& order = pool_.by_size(hole.target, productions_of(hole.target)[choice - 1]);
        for (size_t i = order.size(); i-- > 0;) open.push_back(&expr->children[order[i]]);
      }
      state = add_state(*next);
    }
  }

  // The order in which the productions of a hole are tried: likeliest first, ties as the operators gave them.
  const std::vector<std::pair<uint32_t, uint32_t>>& order_of(const Stack& hole) {
    auto [at, fresh] = orders_.try_emplace({hole.target, hole.parent, hole.slot, hole.depth});
    if (!fresh) return at->second;
    const auto costs =
        prior_.costs(context(hole.target, hole.parent, hole.slot, hole.depth), productions_of(hole.target));
    for (uint32_t i = 0; i < costs.size(); ++i) at->second.emplace_back(costs[i], i);
    std::stable_sort(at->second.begin(), at->second.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    return at->second;
  }

  // What closing the first hole of a stack costs at least.
  uint64_t least_of(const Stack& stack) const {
    return stack.literals - (stack.below == kNone ? 0 : stacks_[stack.below].literals);
  }

  uint64_t priority(const State& state, uint32_t surprise) const {
    uint64_t expected = state.closed;
    if (state.stack != kNone) {
      const Stack& top = stacks_[state.stack];
      expected += top.expected;
      // Nobody knows better: the larger a hole the more there is to find in it.
      if (prior_.uniform()) expected -= std::min(expected, least_of(top) / kHopeOf);
    }
    const uint64_t bits = state.surprise + surprise;
    return expected + (unit_ >> kSurpriseShift) * bits / Prior::kBit;
  }

  // The least that a state can end with: every open hole is one node at least.
  uint64_t bound(const State& state) const {
    return state.closed + (state.stack == kNone ? 0 : stacks_[state.stack].count * kNodeCost);
  }

  // Complete programs from this cost on need not be found.
  uint64_t most() const { return best_.empty() ? limits_.below : std::min(limits_.below, best_.front().cost); }

  void queue(uint32_t state, uint32_t next) {
    const auto& order = order_of(stacks_[states_[state].stack]);
    if (next == order.size()) return;
    open_at(state).push({priority(states_[state], order[next].first), serial_++, state, next, false});
    ++waiting_;
  }

  // A state of which nothing was tried yet. Most never have their turn, and asking operators takes longer than the
  // rest.
  void queue_new(uint32_t state) {
    open_at(state).push({priority(states_[state], 0), serial_++, state, 0, true});
    ++waiting_;
  }

  std::priority_queue<Open>& open_at(uint32_t state) {
    const unsigned level = states_[state].operators;
    if (open_.size() <= level) open_.resize(level + 1);
    return open_[level];
  }

  // Gives the first state of a level its true place; false where it has that.
  bool settle(size_t level) {
    Open top = open_[level].top();
    if (!top.rough) return false;
    open_[level].pop();
    top.priority = priority(states_[top.state], order_of(stacks_[states_[top.state].stack]).front().first);
    top.rough = false;
    open_[level].push(top);
    return true;
  }

  size_t most_promising() const {
    size_t level = open_.size();
    for (size_t i = 0; i < open_.size(); ++i)
      if (!open_[i].empty() && (level == open_.size() || open_[level].top() < open_[i].top())) level = i;
    return level;
  }

  // In turn the most promising state of all, and the most promising one with so many operators: what costs least after
  // one step is not always on the way to what costs least in the end.
  Open next_open() {
    size_t level;
    if (++turns_ % 2 == 0) {
      do {
        level_ = (level_ + 1) % open_.size();
      } while (open_[level_].empty());
      level = level_;
      while (settle(level)) continue;
    } else {
      do level = most_promising();
      while (settle(level));
    }
    const Open top = open_[level].top();
    open_[level].pop();
    --waiting_;
    return top;
  }

  // Whether every hole of stack a stands no deeper than that of b (the same targets).
  bool no_deeper(uint32_t a, uint32_t b) const {
    for (; a != kNone && a != b; a = stacks_[a].below, b = stacks_[b].below)
      if (stacks_[a].depth > stacks_[b].depth) return false;
    return true;
  }

  // Another state with the same targets open that is no worse in any respect; kNone when this one is to be added.
  uint32_t dominating(const State& state) {
    std::vector<uint32_t> targets;
    for (uint32_t at = state.stack; at != kNone; at = stacks_[at].below) targets.push_back(stacks_[at].target);
    auto& others = by_targets_[targets];
    for (const uint32_t id : others) {
      const State& other = states_[id];
      if (other.closed <= state.closed && other.nodes <= state.nodes && no_deeper(other.stack, state.stack)) return id;
    }
    others.push_back(static_cast<uint32_t>(states_.size()));
    return kNone;
  }

  // The state's number, or that of one that is as good.
  uint32_t add_state(State state) {
    if (const uint32_t other = dominating(state); other != kNone) {
      ++trace_.dominated;
      return other;
    }
    states_.push_back(state);
    const auto id = static_cast<uint32_t>(states_.size() - 1);
    if (state.production != 0 || state.parent == kNone) complete(id);
    if (state.stack != kNone) queue_new(id);
    return id;
  }

  // Takes the most promising state and tries what is no less likely than even odds for its first hole, all of it: what
  // the first of them led to says little about the others. The rest waits for its turn.
  void step() {
    const Open top = next_open();
    const Stack hole = stacks_[states_[top.state].stack];
    const auto& order = order_of(hole);
    const uint32_t even = prior_.even(order.size());
    uint32_t at = top.next;
    do {
      if (bound(states_[top.state]) >= most()) {
        ++trace_.pruned;
        return;
      }
      take(top.state, hole, order[at]);
      ++at;
    } while (at < order.size() && order[at].first <= even && may_go_on());
    queue(top.state, at);
  }

  bool may_go_on() {
    if (!best_.empty() && best_.front().cost <= noted_ - noted_ / kNoteworthyOf) {
      noted_ = best_.front().cost;
      noted_at_ = trace_.expansions;
    }
    return trace_.expansions < limits_.expansions && pool_.work() < limits_.work &&
           trace_.expansions - noted_at_ < limits_.patience;
  }

  void take(uint32_t from, const Stack& hole, std::pair<uint32_t, uint32_t> way) {
    const auto [surprise, choice] = way;
    if (choice == 0) {
      if (bound({states_[from].closed + pool_.least_leaf(hole.target), 0, hole.below, 0, 0, 0, 0}) >= most()) {
        ++trace_.pruned;
        return;
      }
    } else {
      if (hole.depth + size_t{1} >= limits_.depth) return;
      ++trace_.expansions;
    }
    if (const auto next = follow(from, hole, choice, surprise))
      add_state(*next);
    else
      ++trace_.refused;
  }

  // The state after a choice for its first hole; nullopt when the operator cannot stand there.
  std::optional<State> follow(uint32_t from, const Stack& hole, uint32_t choice, uint32_t surprise) {
    const State& state = states_[from];
    State next{state.closed, state.surprise + surprise, hole.below, state.nodes, state.operators, from, choice};
    if (choice == 0) {
      next.closed += pool_.leaf(hole.target).cost;
      return next;
    }
    if (hole.depth + size_t{1} >= limits_.depth) return std::nullopt;
    const Production production = productions_of(hole.target)[choice - 1];
    const Applied* applied = pool_.apply(hole.target, production);
    if (applied == nullptr || state.nodes + applied->children.size() > limits_.nodes) return std::nullopt;
    next.closed += applied->own;
    next.nodes += static_cast<uint32_t>(applied->children.size());
    next.operators += 1;
    const auto& by_size = pool_.by_size(hole.target, production);
    for (size_t i = applied->children.size(); i-- > 0;) {
      const uint8_t child = by_size[i];
      next.stack = push(applied->children[child], next.stack, static_cast<uint8_t>(production.op), child,
                        static_cast<uint8_t>(hole.depth + 1));
    }
    return next;
  }

  // The state's holes filled with literals.
  void complete(uint32_t id) {
    const State& state = states_[id];
    const bool full = best_.size() == limits_.keep;
    const uint64_t limit = best_.empty() ? kNever : std::min(limits_.below, full ? best_.back().cost : kNever);
    // Hole by hole what is known to be needed at least gives way to what it costs.
    uint64_t cost = state.closed + (state.stack == kNone ? 0 : stacks_[state.stack].literals);
    for (uint32_t at = state.stack; at != kNone && cost < limit; at = stacks_[at].below) {
      cost += pool_.leaf(stacks_[at].target).cost - least_of(stacks_[at]);
    }
    if (cost >= limit) return;
    std::vector<uint32_t> path;
    for (uint32_t at = id; states_[at].parent != kNone; at = states_[at].parent) path.push_back(at);
    std::reverse(path.begin(), path.end());
    size_t used = 0;
    uint64_t hits = 0;
    dsl::Expr expr = build(TargetPool::kRoot, path, used, hits);
    const bool first = best_.empty() || cost < best_.front().cost;
    if (keep({std::move(expr), cost, false}) && first) {
      trace_.holes = path.size();
      trace_.prior_hits = hits;
    }
  }

  // Decisions stand in pre-order, children by their size, since the first hole is always the one that is expanded.
  dsl::Expr build(uint32_t target, const std::vector<uint32_t>& path, size_t& used, uint64_t& hits) {
    if (used == path.size()) return pool_.leaf(target).expr;
    const State& state = states_[path[used++]];
    const Stack& hole = stacks_[states_[state.parent].stack];
    hits += order_of(hole).front().second == state.production;
    if (state.production == 0) return pool_.leaf(target).expr;
    const Production production = productions_of(target)[state.production - 1];
    dsl::Expr out{production.op, production.params, {}};
    const Applied* applied = pool_.apply(target, production);
    out.children.resize(applied->children.size());
    for (const uint8_t child : pool_.by_size(target, production))
      out.children[child] = build(applied->children[child], path, used, hits);
    return out;
  }

  bool keep(Found found) {
    for (const Found& other : best_)
      if (other.expr == found.expr) return false;
    const auto at = std::upper_bound(best_.begin(), best_.end(), found,
                                     [](const Found& a, const Found& b) { return a.cost < b.cost; });
    if (at == best_.begin()) trace_.curve.push_back({trace_.expansions, found.cost});
    best_.insert(at, std::move(found));
    if (best_.size() > limits_.keep) best_.pop_back();
    return true;
  }

  TargetPool& pool_;
  const Grammar& grammar_;
  const Prior& prior_;
  const SearchLimits limits_;
  const uint64_t unit_;
  std::vector<State> states_;
  std::vector<Stack> stacks_;
  std::map<std::tuple<uint32_t, uint32_t, uint8_t, uint8_t, uint8_t>, uint32_t> stack_ids_;
  std::map<std::tuple<uint32_t, uint8_t, uint8_t, uint8_t>, Context> contexts_;
  std::map<std::tuple<uint32_t, uint8_t, uint8_t, uint8_t>, std::vector<std::pair<uint32_t, uint32_t>>> orders_;
  std::map<uint32_t, std::vector<Production>> productions_;
  std::map<std::vector<uint32_t>, std::vector<uint32_t>> by_targets_;
  std::vector<std::priority_queue<Open>> open_;  // by the operators of their states
  size_t waiting_ = 0, level_ = 0;
  uint64_t turns_ = 0;
  uint64_t noted_ = kNever, noted_at_ = 0;  // the last best that was much better than the one before, and when
  uint64_t serial_ = 0;
  std::vector<Found> best_;
  SearchTrace trace_;
};

}  // namespace

Searched search(TargetPool& pool, const Grammar& grammar, const Prior& prior, std::span<const dsl::Expr> incumbents,
                const SearchLimits& limits) {
  return Searcher(pool, grammar, prior, limits).run(incumbents);
}

namespace {

void learn_hole(TargetPool& pool, const Grammar& grammar, uint32_t target, const dsl::Expr& expr, uint8_t parent,
                uint8_t slot, uint8_t depth, Prior& prior) {
  const Context context = context_of(pool, target, parent, slot, depth);
  const uint64_t literal = pool.leaf(target).cost;
  if (expr.op == dsl::OpId::literal) return prior.learn(context, nullptr, literal, literal);
  for (const Production& production : grammar.region(pool.target(target))) {
    if (production.op != expr.op || production.params != expr.params) continue;
    const Applied* applied = pool.apply(target, production);
    if (applied == nullptr || applied->children.size() != expr.children.size()) return;
    prior.learn(context, &production, pool.score(target, expr).value_or(literal), literal);
    for (size_t i = 0; i < expr.children.size(); ++i)
      learn_hole(pool, grammar, applied->children[i], expr.children[i], static_cast<uint8_t>(expr.op),
                 static_cast<uint8_t>(i), static_cast<uint8_t>(depth + 1), prior);
    return;
  }
}

}  // namespace

void learn_from(TargetPool& pool, const Grammar& grammar, const dsl::Expr& winner, Prior& prior) {
  learn_hole(pool, grammar, TargetPool::kRoot, winner, 255, 0, 0, prior);
}

}  // namespace brevis::synth
