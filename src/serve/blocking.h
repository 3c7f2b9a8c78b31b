// SPDX-License-Identifier: Apache-2.0
//
// Work that waits for storage, kept off the threads that answer readers. Jobs belong to a source (an archive, a plain
// file) on a device. A source may keep half of the workers waiting and a device three quarters, so that storage which
// has stopped answering never takes the last worker from the rest. Sources take turns. What is done ahead of need comes
// after what somebody waits for, and leaves one of its source's workers to that.
//
// Errors:  a job's exceptions are logged and go no further.
// Threads: any. The destructor finishes what was posted. Owns: the workers.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <unordered_map>

#include "base/threads.h"

namespace brevis::serve {

class Blocking {
 public:
  explicit Blocking(unsigned workers);

  struct Source {
    uint64_t id = 0;
    uint64_t device = 0;
  };
  void post(Source source, std::function<void()> job, bool ahead = false);

 private:
  struct Queue {
    uint64_t device = 0;
    unsigned running = 0, running_ahead = 0;
    std::deque<std::function<void()>> jobs, ahead;
    bool idle() const { return jobs.empty() && ahead.empty(); }
  };
  struct State {
    std::unordered_map<uint64_t, Queue> queues;  // of sources with jobs waiting or running
    std::unordered_map<uint64_t, unsigned> running_on;
    std::list<uint64_t> turns;  // sources with jobs waiting
    unsigned running = 0;
  };
  struct Job {
    Source source;
    bool ahead = false;
    std::function<void()> run;
  };
  bool next(State& state, Job& job) const;
  static void finished(State& state, const Job& job);
  void work(Job job);

  const unsigned workers_, per_source_, per_device_, ahead_per_source_;
  Guarded<State> state_;
  Pool pool_;  // last: its destructor still uses the state
};

}  // namespace brevis::serve
