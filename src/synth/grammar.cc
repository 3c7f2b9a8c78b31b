// SPDX-License-Identifier: Apache-2.0
#include "synth/grammar.h"

#include <algorithm>

namespace brevis::synth {

std::vector<Production> Grammar::ask(const dsl::Target& target, bool skeleton) const {
  std::vector<Production> out;
  for (const dsl::OpSpec* spec : dsl::all_ops()) {
    if (spec->propose == nullptr || spec->slot == dsl::SlotKind::codec_table) continue;
    if (skeleton ? spec->place != dsl::Place::skeleton : spec->place == dsl::Place::skeleton) continue;
    if (without_.count(spec->name) != 0) continue;
    std::vector<dsl::Proposal> proposals;
    spec->propose(target, proposals);
    for (auto& proposal : proposals)
      out.push_back({spec->id, std::move(proposal.params), std::move(proposal.child_dtypes)});
  }
  return out;
}

std::vector<Production> Grammar::region(const dsl::Target& target) const { return ask(target, false); }

std::vector<Production> Grammar::skeleton(const dsl::Target& target) const { return ask(target, true); }

bool Grammar::allows(const dsl::Expr& expr) const {
  if (without_.empty()) return true;
  if (without_.count(dsl::spec_of(expr.op).name) != 0) return false;
  return std::all_of(expr.children.begin(), expr.children.end(), [&](const dsl::Expr& child) { return allows(child); });
}

}  // namespace brevis::synth
