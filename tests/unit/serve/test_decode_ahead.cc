// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/threads.h"
#include "brevis/log.h"
#include "serve/decode_ahead.h"

using namespace brevis;
using serve::DecodeAhead;

namespace {

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB;

bool until(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return condition();
}

DecodeAhead::Job job(const std::shared_ptr<const void>& open, Range range,
                     const std::shared_ptr<std::atomic<uint64_t>>& position) {
  DecodeAhead::Job job;
  job.open = open;
  job.range = range;
  job.advice.position = position;
  return job;
}

// Where the thread stands still until it is let go on.
struct Gate {
  std::mutex mutex;
  std::condition_variable moved;
  bool is_open = false, reached = false;
  void pass() {
    std::unique_lock lock(mutex);
    reached = true;
    moved.notify_all();
    moved.wait(lock, [&] { return is_open; });
  }
  void wait_for_it() {
    std::unique_lock lock(mutex);
    moved.wait(lock, [&] { return reached; });
  }
  void open() {
    const std::lock_guard lock(mutex);
    is_open = true;
    moved.notify_all();
  }
};

}  // namespace

TEST_CASE("what is ahead is done in order, in pieces, each byte once") {
  const auto open = std::make_shared<const char>('x');
  const auto position = std::make_shared<std::atomic<uint64_t>>(0);
  Guarded<std::vector<Range>> done;
  DecodeAhead ahead([&](const DecodeAhead::Job& piece) { done.with([&](auto& all) { all.push_back(piece.range); }); });
  const Range first{3 * kMiB + 1000, 2 * kMiB}, second{first.end(), 700 * kKiB + 1};
  ahead.add(job(open, first, position));
  ahead.add(job(open, second, position));
  const auto covered = [&] {
    return done.with([&](auto& all) {
      uint64_t at = first.offset;
      for (const Range& piece : all) {
        CHECK(piece.offset == at);
        CHECK(piece.length <= 512 * kKiB);
        at = piece.end();
      }
      return at;
    });
  };
  CHECK(until([&] { return done.with([&](auto& all) { return !all.empty() && all.back().end() == second.end(); }); }));
  CHECK(covered() == second.end());
}

TEST_CASE("where the reader has been, and of files that were closed, nothing is done any more") {
  const auto position = std::make_shared<std::atomic<uint64_t>>(0);
  auto open = std::make_shared<const char>('x');
  Gate gate;
  std::atomic<uint64_t> pieces{0};
  DecodeAhead ahead([&](const DecodeAhead::Job& piece) {
    if (piece.range.offset == 0) gate.pass();
    ++pieces;
  });
  ahead.add(job(open, {0, 4 * kMiB}, position));
  gate.wait_for_it();
  *position = 3 * kMiB;
  SUBCASE("passed") {
    gate.open();
    CHECK(until([&] { return pieces == 3; }));  // the first, and the last two
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(pieces == 3);
  }
  SUBCASE("closed") {
    open.reset();
    const auto other = std::make_shared<const char>('y');
    ahead.add(job(other, {8 * kMiB, kMiB}, position));
    gate.open();
    CHECK(until([&] { return pieces == 3; }));  // the first, and the other file's two
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(pieces == 3);
  }
}

TEST_CASE("the end waits for the piece at hand and for no other, and what throws ends nothing") {
  set_log_sink([](LogLevel, std::string_view, const LogFields&) {});
  const auto open = std::make_shared<const char>('x');
  const auto position = std::make_shared<std::atomic<uint64_t>>(0);
  Gate gate;
  std::atomic<uint64_t> pieces{0};
  DecodeAhead ahead([&](const DecodeAhead::Job& piece) {
    ++pieces;
    if (piece.range.offset == 0) throw std::runtime_error("on purpose, in a test");
    gate.pass();
  });
  ahead.add(job(open, {0, 16 * kMiB}, position));
  gate.wait_for_it();
  CHECK(pieces == 2);
  std::atomic<bool> stopped{false};
  std::thread stopping([&] {
    ahead.stop();
    stopped = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(!stopped);
  gate.open();
  stopping.join();
  CHECK(pieces == 2);
  ahead.add(job(open, {0, 16 * kMiB}, position));  // too late
  CHECK(pieces == 2);
  set_log_sink(nullptr);
}

TEST_CASE("no more waits than a few jobs") {
  const auto open = std::make_shared<const char>('x');
  const auto position = std::make_shared<std::atomic<uint64_t>>(0);
  Gate gate;
  std::atomic<uint64_t> pieces{0};
  DecodeAhead ahead([&](const DecodeAhead::Job&) {
    gate.pass();
    ++pieces;
  });
  for (uint64_t i = 0; i < 1000; ++i) ahead.add(job(open, {i * kMiB, 512 * kKiB}, position));
  gate.open();
  const auto settled = [&] {
    const uint64_t before = pieces;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return before >= 64 && pieces == before;
  };
  CHECK(until(settled));
  CHECK(pieces <= 70);
}
