// SPDX-License-Identifier: Apache-2.0
#include "serve/blocking.h"

#include <algorithm>

#include "brevis/log.h"

namespace brevis::serve {

Blocking::Blocking(unsigned workers)
    : workers_(std::max(workers, 1u)),
      per_source_(std::max(workers_ / 2, 1u)),
      per_device_(std::max(workers_ - workers_ / 4, 1u)),
      pool_(workers_) {}

// The next job that may run, if a worker is free; counts it as running.
bool Blocking::next(State& state, Job& job) const {
  if (state.running >= workers_) return false;
  for (auto turn = state.turns.begin(); turn != state.turns.end(); ++turn) {
    Queue& queue = state.queues[*turn];
    unsigned& on_device = state.running_on[queue.device];
    if (queue.running >= per_source_ || on_device >= per_device_) continue;
    job = {{*turn, queue.device}, std::move(queue.jobs.front())};
    queue.jobs.pop_front();
    ++queue.running, ++on_device, ++state.running;
    if (queue.jobs.empty()) {
      state.turns.erase(turn);
    } else {
      state.turns.splice(state.turns.end(), state.turns, turn);
    }
    return true;
  }
  return false;
}

void Blocking::finished(State& state, Source source) {
  --state.running;
  if (--state.running_on[source.device] == 0) state.running_on.erase(source.device);
  const auto queue = state.queues.find(source.id);
  if (--queue->second.running == 0 && queue->second.jobs.empty()) state.queues.erase(queue);
}

void Blocking::post(Source source, std::function<void()> job) {
  Job ready;
  const bool start = state_.with([&](State& state) {
    Queue& queue = state.queues[source.id];
    queue.device = source.device;
    queue.jobs.push_back(std::move(job));
    if (queue.jobs.size() == 1) state.turns.push_back(source.id);
    return next(state, ready);
  });
  if (start) pool_.post([this, ready = std::move(ready)]() mutable { work(std::move(ready)); });
}

// Runs a job, and then whatever its end allows to run.
void Blocking::work(Job job) {
  for (;;) {
    try {
      job.run();
    } catch (const std::exception& e) {
      log(LogLevel::error, std::string("internal fault in a worker: ") + e.what());
    }
    job.run = nullptr;  // what it captured dies before its slot is given away
    const bool more = state_.with([&](State& state) {
      finished(state, job.source);
      return next(state, job);
    });
    if (!more) return;
  }
}

}  // namespace brevis::serve
