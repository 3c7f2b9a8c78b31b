// SPDX-License-Identifier: Apache-2.0
//
// Who may take memory for a read. A request says beforehand what it will hold at most; when that does not fit beside
// what others hold, it waits its turn, without a thread. This is what keeps many readers inside a small cap: decoded
// frames that a reply still needs cannot be evicted.
//
// A source (archive or plain file) may hold half of the budget, so that one whose storage has stopped does not starve
// the rest. A source that holds nothing may go a little over the budget, and a request alone always goes: everybody
// makes progress whatever the cap.
//
// Errors:  none. Threads: any. Owns: the requests that wait.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <unordered_map>

#include "base/threads.h"

namespace brevis::serve {

struct Request;
class Ready;
using RequestPtr = std::shared_ptr<Request>;

class Admission {
 public:
  explicit Admission(uint64_t budget);
  // False: it waits, and leave() of somebody else gives it out.
  bool enter(uint64_t source, uint64_t bytes, const RequestPtr& request);
  // Gives back what enter() took. The requests that may go on now are added to `admitted`.
  void leave(uint64_t source, uint64_t bytes, Ready& admitted);
  uint64_t held() const;

 private:
  struct Waiting {
    uint64_t bytes;
    RequestPtr request;
  };
  struct Source {
    uint64_t held = 0;
    std::deque<Waiting> waiting;
  };
  struct State {
    uint64_t held = 0;
    std::unordered_map<uint64_t, Source> sources;  // that hold or wait
    std::list<uint64_t> turns;                     // that wait
  };
  bool fits(const State& state, const Source& source, uint64_t bytes) const;

  const uint64_t budget_;
  Guarded<State> state_;
};

}  // namespace brevis::serve
