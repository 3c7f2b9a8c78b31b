// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <future>
#include <thread>

#include "serve/blocking.h"

using namespace brevis;
using serve::Blocking;

namespace {

// Jobs that wait until they are let go.
class Dam {
 public:
  std::function<void()> job() {
    auto future = future_;
    return [this, future] {
      ++waiting;
      future.wait();
    };
  }
  void open() { open_.set_value(); }
  std::atomic<int> waiting{0};

 private:
  std::promise<void> open_;
  std::shared_future<void> future_ = open_.get_future().share();
};

void until(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(condition());
}

}  // namespace

TEST_CASE("every job runs once, with any number of workers") {
  for (const unsigned workers : {0u, 1u, 2u, 8u}) {
    std::atomic<int> ran{0};
    {
      Blocking blocking(workers);
      for (uint64_t i = 0; i < 500; ++i) blocking.post({i % 7, i % 3}, [&] { ++ran; });
    }
    CHECK(ran == 500);
  }
}

TEST_CASE("M24: a source that never answers leaves workers to others, a device too") {
  Dam dam;
  std::atomic<int> others{0};
  {
    Blocking blocking(8);
    for (int i = 0; i < 50; ++i) blocking.post({1, 1}, dam.job());
    until([&] { return dam.waiting == 4; });
    // Another source of the same device, then one of another device while that one stalls as well.
    blocking.post({2, 1}, [&] { ++others; });
    until([&] { return others == 1; });
    for (int i = 0; i < 50; ++i) blocking.post({3, 1}, dam.job());
    until([&] { return dam.waiting == 6; });
    blocking.post({4, 2}, [&] { ++others; });
    until([&] { return others == 2; });
    CHECK(dam.waiting == 6);
    dam.open();
  }
  CHECK(dam.waiting == 100);
}

TEST_CASE("sources take turns") {
  std::vector<int> order;
  std::promise<void> go;
  {
    Blocking blocking(1);
    blocking.post({9, 9}, [&] { go.get_future().wait(); });
    for (int i = 0; i < 3; ++i) blocking.post({1, 1}, [&] { order.push_back(1); });
    for (int i = 0; i < 3; ++i) blocking.post({2, 1}, [&] { order.push_back(2); });
    go.set_value();
  }
  CHECK(order == std::vector<int>{1, 2, 1, 2, 1, 2});
}

TEST_CASE("a job that throws takes nobody with it, and jobs may post jobs") {
  std::atomic<int> ran{0};
  {
    Blocking blocking(2);
    blocking.post({1, 1}, [] { throw std::runtime_error("on purpose, in a test"); });
    blocking.post({1, 1}, [&] { blocking.post({1, 1}, [&] { blocking.post({2, 1}, [&] { ++ran; }); }); });
  }
  CHECK(ran == 1);
}
