// SPDX-License-Identifier: Apache-2.0
//
// Which operators may stand for a hole of a program: the answers of the operator table, gathered in a fixed order. The
// search knows operators through this alone and names none of them; only the bare literal, which expresses anything,
// is its own.
//
// Threads: immutable once built; propose functions are pure. Errors: none. Determinism: same target, same productions.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "dsl/op.h"

namespace brevis::synth {

// One operator with its parameters, standing for the whole of a target.
struct Production {
  dsl::OpId op = dsl::OpId::literal;
  std::vector<uint64_t> params;
  std::vector<Dtype> child_dtypes;  // may be shorter than the children: the rest is unknown
};

// That of an expression's root, whose children may mean anything.
inline Production production_of(const dsl::Expr& expr) {
  return {expr.op, expr.params, std::vector<Dtype>(expr.children.size(), Dtype::unknown)};
}

class Grammar {
 public:
  // Leaves out the operators of these names (`brevis-pack --without`: what is one operator worth?).
  explicit Grammar(std::set<std::string, std::less<>> without = {}) : without_(std::move(without)) {}
  virtual ~Grammar() = default;

  // Below a region's root, or as it.
  virtual std::vector<Production> region(const dsl::Target& target) const;
  // At the root of a program or below other skeleton nodes.
  virtual std::vector<Production> skeleton(const dsl::Target& target) const;
  // Whether an expression does without the operators left out.
  bool allows(const dsl::Expr& expr) const;
  const std::set<std::string, std::less<>>& without() const { return without_; }

 private:
  std::vector<Production> ask(const dsl::Target& target, bool skeleton) const;
  std::set<std::string, std::less<>> without_;
};

}  // namespace brevis::synth
