// SPDX-License-Identifier: Apache-2.0
//
// What fair timing needs: memory that is warm and on huge pages before anything is timed, threads that stay on their
// core, and medians.
//
// Errors:  the first of the tasks run. A thread that may not be pinned runs where it is put.
// Threads: a Crew is used by the thread that made it. Owns: its workers, joined by the destructor; the caller's own
//          affinity is restored then.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "brevis/error.h"
#include "brevis/types.h"

namespace brevis::bench {

// Bytes on huge pages where the system gives them, each page touched: neither allocation nor page faults are timed.
class WarmBuffer {
 public:
  WarmBuffer() = default;
  explicit WarmBuffer(size_t size);
  size_t size() const { return size_; }
  uint8_t* data() const { return data_.get(); }
  MutByteSpan span() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(uint8_t* data) const { std::free(data); }
  };
  std::unique_ptr<uint8_t[], Free> data_;
  size_t size_ = 0;
};

// One of `count` jobs, on the worker of that number: workers keep scratch memory apart by it.
using Task = std::function<Status(unsigned worker, size_t job)>;

// A worker on each core; the thread that made the crew is worker 0.
class Crew {
 public:
  Crew();
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  unsigned size() const { return static_cast<unsigned>(cpus_.size()); }

  // All jobs `repeats` times on worker 0: seconds of CPU time for each time.
  Result<double> on_one(const Task& task, size_t count, size_t repeats);
  // The same on all workers, by the clock on the wall. A job is never run by two of them at once.
  Result<double> on_all(const Task& task, size_t count, size_t repeats);

 private:
  struct Shift;  // what is being worked on
  void serve(unsigned worker);
  static Status work(Shift& shift, unsigned worker, unsigned workers);

  std::vector<int> cpus_;
  std::vector<int> cpus_before_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  Shift* shift_ = nullptr;
  uint64_t number_ = 0;  // of shifts so far
  unsigned working_ = 0;
  Status fault_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

// The middle one; the mean of both where there are two. Of nothing: 0.
double median(std::vector<double> values);

}  // namespace brevis::bench
