// SPDX-License-Identifier: Apache-2.0
//
// Threads as Brevis uses them: data that can only be reached under its lock, a pool of workers, and a token that asks
// work to stop. The only place that names Boost.Asio outside fs/.
//
// Rules (docs/architecture.md): no lock is held over I/O, decoding or a reply; no pool task waits for another task.
// Errors:  a task's exceptions end at the pool: logged as internal faults, never lost silently, never fatal.
// Threads: everything here may be used from any thread.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "brevis/error.h"

namespace brevis {

// A T behind its mutex: guarded.with([](T& value) { ... }).
template <class T>
class Guarded {
 public:
  template <class... Args>
  explicit Guarded(Args&&... args) : value_(std::forward<Args>(args)...) {}
  template <class F>
  decltype(auto) with(F&& f) {
    const std::lock_guard lock(mutex_);
    return f(value_);
  }
  template <class F>
  decltype(auto) with(F&& f) const {
    const std::lock_guard lock(mutex_);
    return f(static_cast<const T&>(value_));
  }

 private:
  mutable std::mutex mutex_;
  T value_;
};

class CancelToken {
 public:
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  // `cancelled` once cancel() was called.
  Status check() const {
    if (cancelled()) return make_error(Errc::cancelled, "stopped on request");
    return {};
  }

 private:
  std::atomic<bool> cancelled_{false};
};

// A fixed number of worker threads. The destructor finishes what was posted.
class Pool {
 public:
  explicit Pool(unsigned threads);
  ~Pool();
  unsigned threads() const { return threads_; }
  void post(std::function<void()> task);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  unsigned threads_;
};

// What `work` gives, a Result or Status; an exception that it ends with is an internal error, for whoever waits.
template <class Work>
auto caught(Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& e) {
    return make_error(Errc::internal, std::string("exception in a worker: ") + e.what());
  }
}

// Runs make(i) for i in [0, count) on the pool, at most `window` results in flight, and hands each result to
// take(i, result) in ascending order on the calling thread (which must not be a pool thread). The first Error from
// either stops the rest and is returned.
template <class R, class Make, class Take>
Status ordered_parallel(Pool& pool, size_t count, size_t window, Make make, Take take);

// Processors this process may use, at least 1.
unsigned available_cores();

// Processor time of the calling thread: what work costs whoever else is running.
uint64_t thread_cpu_ns();

}  // namespace brevis

#include "base/threads_ordered.h"
