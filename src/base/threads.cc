// SPDX-License-Identifier: Apache-2.0
#include "base/threads.h"

#include <sched.h>

#include <ctime>
#include <thread>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include "brevis/log.h"

namespace brevis {

struct Pool::Impl {
  explicit Impl(unsigned threads) : workers(threads) {}
  boost::asio::thread_pool workers;
};

Pool::Pool(unsigned threads) : threads_(threads == 0 ? 1 : threads) { impl_ = std::make_unique<Impl>(threads_); }

Pool::~Pool() { impl_->workers.join(); }

void Pool::post(std::function<void()> task) {
  boost::asio::post(impl_->workers, [task = std::move(task)] {
    try {
      task();
    } catch (const std::exception& e) {
      log(LogLevel::error, "internal fault: a task ended with an exception", {{"exception", e.what()}});
    } catch (...) {
      log(LogLevel::error, "internal fault: a task ended with an exception of unknown type");
    }
  });
}

uint64_t thread_cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

unsigned available_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    const int count = CPU_COUNT(&set);
    if (count > 0) return static_cast<unsigned>(count);
  }
  // More processors than a cpu_set_t can name.
  const unsigned count = std::thread::hardware_concurrency();
  return count > 0 ? count : 1;
}

}  // namespace brevis
