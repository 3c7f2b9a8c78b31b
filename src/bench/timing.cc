// SPDX-License-Identifier: Apache-2.0
#include "bench/timing.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>

namespace brevis::bench {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr int kMostCpus = CPU_SETSIZE;

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int cpu = 0; cpu < kMostCpus; ++cpu)
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  if (cpus.empty()) cpus.push_back(-1);
  return cpus;
}

// Of the calling thread.
void pin_to(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus)
    if (cpu >= 0) CPU_SET(cpu, &set);
  if (CPU_COUNT(&set) > 0) (void)sched_setaffinity(0, sizeof set, &set);
}

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

WarmBuffer::WarmBuffer(size_t size) : size_(size) {
  const size_t whole = std::max<size_t>(1, (size + kHugePage - 1) / kHugePage) * kHugePage;
  void* const data = std::aligned_alloc(kHugePage, whole);
  if (data == nullptr) throw std::bad_alloc();
  (void)madvise(data, whole, MADV_HUGEPAGE);
  std::memset(data, 0, whole);
  data_.reset(static_cast<uint8_t*>(data));
}

struct Crew::Shift {
  const Task& task;
  size_t count, repeats;
  std::atomic<size_t> next{0};
};

// Many short repeats are dealt out by number, so that no two workers meet in one job; a single pass as workers come.
Status Crew::work(Shift& shift, unsigned worker, unsigned workers) try {
  if (shift.repeats > 1) {
    for (size_t i = 0; i < shift.repeats; ++i)
      for (size_t job = worker; job < shift.count; job += workers) BREVIS_TRY(shift.task(worker, job));
    return {};
  }
  for (size_t job; (job = shift.next.fetch_add(1, std::memory_order_relaxed)) < shift.count;)
    BREVIS_TRY(shift.task(worker, job));
  return {};
} catch (const std::exception& e) {
  return make_error(Errc::internal, std::string("exception in a worker: ") + e.what());
}

Crew::Crew() : cpus_(allowed_cpus()), cpus_before_(cpus_) {
  // The core that this thread is on already is as good as any, and warm.
  const auto own = std::find(cpus_.begin(), cpus_.end(), sched_getcpu());
  if (own != cpus_.end()) std::iter_swap(cpus_.begin(), own);
  pin_to({cpus_.front()});
  for (unsigned worker = 1; worker < size(); ++worker) threads_.emplace_back([this, worker] { serve(worker); });
}

Crew::~Crew() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  pin_to(cpus_before_);
}

void Crew::serve(unsigned worker) {
  pin_to({cpus_[worker]});
  for (uint64_t seen = 0;;) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return stop_ || number_ != seen; });
    if (stop_) return;
    seen = number_;
    lock.unlock();
    Status status = work(*shift_, worker, size());
    lock.lock();
    if (!status && fault_) fault_ = std::move(status);
    if (--working_ == 0) done_.notify_one();
  }
}

Result<double> Crew::on_one(const Task& task, size_t count, size_t repeats) {
  const double start = thread_seconds();
  for (size_t i = 0; i < repeats; ++i)
    for (size_t job = 0; job < count; ++job) BREVIS_TRY(task(0, job));
  return (thread_seconds() - start) / static_cast<double>(repeats);
}

Result<double> Crew::on_all(const Task& task, size_t count, size_t repeats) {
  Shift shift{task, count, repeats};
  const double start = wall_seconds();
  {
    const std::lock_guard lock(mutex_);
    shift_ = &shift;
    working_ = size() - 1;
    fault_ = Status{};
    ++number_;
  }
  wake_.notify_all();
  Status own = work(shift, 0, size());
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return working_ == 0; });
  const double seconds = (wall_seconds() - start) / static_cast<double>(repeats);
  BREVIS_TRY(own);
  BREVIS_TRY(std::move(fault_));
  return seconds;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace brevis::bench
