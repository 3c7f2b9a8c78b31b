// SPDX-License-Identifier: Apache-2.0
//
// What the search expects before it looks: how likely each production is at a hole, and how far below its literal a
// hole's cost will fall, given the hole's context. A probabilistic grammar whose contexts back off from fine to coarse
// ones, learned by counting the productions of programs that won on some tensors of the same file.
//
// A prior orders the search and nothing else; what a program costs is TargetPool's to say. Integer arithmetic from
// tables. Threads: immutable while searches use it. Errors: none.
#pragma once

#include <array>
#include <map>
#include <span>
#include <vector>

#include "synth/grammar.h"
#include "synth/targets.h"

namespace brevis::synth {

// Of a hole: where it stands and what its target looks like. Small integers, coarse on purpose.
struct Context {
  uint8_t parent = 255;  // operator, 255: none
  uint8_t slot = 0;      // which of its children
  uint8_t depth = 0;
  uint8_t dtype = 0;
  uint8_t width = 0;
  uint8_t size = 0;      // log2 of the words, in steps of 4
  uint8_t entropy = 0;   // of the words, eighths of the width
  uint8_t zeros = 0;     // share: 0 none, 1 some, 2 a tenth or more, 3 nine tenths
  uint8_t distinct = 0;  // log2 of how many, in steps of 2
  uint8_t delta = 0;     // whether neighbours' differences are: 0 harder to code, 1 alike, 2 easier
  uint8_t column = 0;    // the same against the word a row before, 3 without rows
};

Context context_of(TargetPool& pool, uint32_t target, uint8_t parent, uint8_t slot, uint8_t depth);

class Prior {
 public:
  static constexpr uint32_t kBit = 1024;  // cost of one bit of surprise
  static constexpr uint32_t kWhole = 1024;

  // Cost of closing the hole with a literal, then of each production, 1/1024 bits.
  std::vector<uint32_t> costs(const Context& context, std::span<const Production> productions) const;
  // Expected cost of the hole as a share of its literal's, 1/1024.
  uint32_t expected(const Context& context) const;
  // Cost of each of so many, all as likely.
  static uint32_t even(size_t choices);
  bool uniform() const { return counts_.empty(); }

  // Counts one hole of a program that won: what stood there (nullptr: a literal) and its final and its literal's cost.
  void learn(const Context& context, const Production* production, uint64_t cost, uint64_t literal_cost);

  // A context at a level of back-off, 0 the finest, and what stood there.
  static constexpr size_t kLevels = 4;
  using Symbol = std::vector<uint64_t>;  // operator and parameters; empty: a literal
  struct Node {
    uint64_t total = 0;
    uint64_t share = 0;  // sum of final over literal cost, 1/1024
    std::map<Symbol, uint64_t> counts;
    friend bool operator==(const Node&, const Node&) = default;
  };
  using Key = std::array<uint8_t, 12>;  // level first, then the context's fields that the level keeps
  const std::map<Key, Node>& nodes() const { return counts_; }
  void set_nodes(std::map<Key, Node> nodes) { counts_ = std::move(nodes); }
  void add(const Prior& other);
  static Key key_of(const Context& context, size_t level);

 private:
  std::map<Key, Node> counts_;
};

}  // namespace brevis::synth
