// SPDX-License-Identifier: Apache-2.0
#include "serve/blocking.h"

#include <algorithm>

#include "brevis/log.h"

namespace brevis::serve {

Blocking::Blocking(unsigned workers)
    : workers_(std::max(workers, 1u)),
      per_source_(std::max(workers_ / 2, 1u)),
      per_device_(std::max(workers_ - workers_ / 4, 1u)),
      ahead_per_source_(std::max(per_source_ - 1, 1u)),
      pool_(workers_) {}

// The next job that may run, if a worker is free; counts it as running.
bool Blocking::next(State& state, Job& job) const {
  if (state.running >= workers_) return false;
  for (auto turn = state.turns.begin(); turn != state.turns.end(); ++turn) {
    Queue& queue = state.queues[*turn];
    unsigned& on_device = state.running_on[queue.device];
    if (queue.running >= per_source_ || on_device >= per_device_) continue;
    const bool ahead = queue.jobs.empty();
    if (ahead && queue.running_ahead >= ahead_per_source_) continue;
    auto& from = ahead ? queue.ahead : queue.jobs;
    job = {{*turn, queue.device}, ahead, std::move(from.front())};
    from.pop_front();
    queue.running_ahead += ahead;
    ++queue.running, ++on_device, ++state.running;
    if (queue.idle()) {
      state.turns.erase(turn);
    } else {
      state.turns.splice(state.turns.end(), state.turns, turn);
    }
    return true;
  }
  return false;
}

void Blocking::finished(State& state, const Job& job) {
  --state.running;
  if (--state.running_on[job.source.device] == 0) state.running_on.erase(job.source.device);
  const auto queue = state.queues.find(job.source.id);
  queue->second.running_ahead -= job.ahead;
  if (--queue->second.running == 0 && queue->second.idle()) state.queues.erase(queue);
}

void Blocking::post(Source source, std::function<void()> job, bool ahead) {
  Job ready;
  const bool start = state_.with([&](State& state) {
    Queue& queue = state.queues[source.id];
    queue.device = source.device;
    if (queue.idle()) state.turns.push_back(source.id);
    (ahead ? queue.ahead : queue.jobs).push_back(std::move(job));
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
      finished(state, job);
      return next(state, job);
    });
    if (!more) return;
  }
}

}  // namespace brevis::serve
