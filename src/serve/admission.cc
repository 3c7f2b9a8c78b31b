// SPDX-License-Identifier: Apache-2.0
#include "serve/admission.h"

#include <algorithm>

#include "serve/request.h"

namespace brevis::serve {
namespace {

constexpr uint64_t kMinBudget = uint64_t{1} << 20;
// By how much sources that hold nothing yet may go over the budget together.
constexpr uint64_t kGrace = uint64_t{16} << 20;

}  // namespace

Admission::Admission(uint64_t budget) : budget_(std::max(budget, kMinBudget)) {}

bool Admission::fits(const State& state, const Source& source, uint64_t bytes) const {
  if (state.held == 0) return true;
  if (source.held == 0) return state.held + bytes <= budget_ + kGrace;
  return state.held + bytes <= budget_ && source.held + bytes <= budget_ / 2;
}

bool Admission::enter(uint64_t source, uint64_t bytes, const RequestPtr& request) {
  return state_.with([&](State& state) {
    Source& mine = state.sources[source];
    if (mine.waiting.empty() && fits(state, mine, bytes)) {
      state.held += bytes;
      mine.held += bytes;
      return true;
    }
    mine.waiting.push_back({bytes, request});
    if (mine.waiting.size() == 1) state.turns.push_back(source);
    return false;
  });
}

void Admission::leave(uint64_t source, uint64_t bytes, Ready& admitted) {
  state_.with([&](State& state) {
    const auto mine = state.sources.find(source);
    state.held -= bytes;
    mine->second.held -= bytes;
    if (mine->second.held == 0 && mine->second.waiting.empty()) state.sources.erase(mine);
    // In turns, one request a source, until a whole round admits nobody.
    for (bool any = true; any && !state.turns.empty();) {
      any = false;
      for (auto turn = state.turns.begin(); turn != state.turns.end();) {
        Source& next = state.sources[*turn];
        Waiting& first = next.waiting.front();
        if (!fits(state, next, first.bytes)) {
          ++turn;
          continue;
        }
        any = true;
        state.held += first.bytes;
        next.held += first.bytes;
        admitted.push_back(std::move(first.request));
        next.waiting.pop_front();
        turn = next.waiting.empty() ? state.turns.erase(turn) : std::next(turn);
      }
    }
  });
}

uint64_t Admission::held() const {
  return state_.with([](const State& state) { return state.held; });
}

}  // namespace brevis::serve
