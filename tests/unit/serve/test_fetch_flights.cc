// SPDX-License-Identifier: Apache-2.0
//
// Flights that land between the two looks of somebody else, at memory and at the flights. These looks are a few
// instructions apart; a timer's signal, which makes the thread that gets it sleep, keeps them apart now and then.
#include <doctest/doctest.h>

#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "archive/layout.h"
#include "served_tree.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::test;

namespace {

// Every few microseconds a thread falls asleep wherever it is, but not the one that makes this.
class Pauses {
 public:
  Pauses() {
    sigemptyset(&alarm_);
    sigaddset(&alarm_, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm_, nullptr);
    struct sigaction action = {};
    action.sa_handler = [](int) {
      const int fault = errno;
      const timespec pause{0, 100'000};
      nanosleep(&pause, nullptr);
      errno = fault;
    };
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, nullptr);
    const itimerval every{{0, 30}, {0, 30}};
    setitimer(ITIMER_REAL, &every, nullptr);
  }
  ~Pauses() {
    const itimerval never{};
    setitimer(ITIMER_REAL, &never, nullptr);
    signal(SIGALRM, SIG_IGN);  // one may still be on its way
    pthread_sigmask(SIG_UNBLOCK, &alarm_, nullptr);
    signal(SIGALRM, SIG_DFL);
  }

 private:
  sigset_t alarm_;
};

}  // namespace

TEST_CASE("M18: frames decoded beside others and ahead of readers are decoded once, too") {
  constexpr uint64_t kFrame = 4096;
  ServedTree tree;
  const ByteVector bytes = gaussian_words(Dtype::BF16, size_t{1} << 19, 1);
  tree.pack("m", bytes, kFrame);
  const uint64_t frames = archive::Reader::open(File::open(tree / "m.brv").value()).value()->manifest().frames.size();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (std::chrono::steady_clock::now() < end) {
    Volume& volume = tree.serve({.memory = uint64_t{256} << 20, .jobs = 2});
    const auto file = tree.open("m");
    std::atomic<int> wrong{0};
    const auto read_all = [&](uint64_t length) {
      for (uint64_t at = 0; at < bytes.size(); at += length) {
        const auto got = read_now(volume, file, {at, length}, true);
        if (!got || !std::equal(got->begin(), got->end(), bytes.begin() + static_cast<ptrdiff_t>(at))) ++wrong;
      }
    };
    {
      std::vector<std::thread> readers;
      for (uint64_t i = 0; i < 8; ++i) readers.emplace_back(read_all, (2 + i % 4) * kFrame);
      const Pauses pauses;
      for (std::thread& reader : readers) reader.join();
    }
    CHECK(wrong == 0);
    CHECK(volume.counters().frames_decoded == frames);
  }
}
