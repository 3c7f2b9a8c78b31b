// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/threads.h"
#include "serve/pusher.h"

using namespace brevis;
using serve::Pusher;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20, kHole = uint64_t{64} << 10;

bool until(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return condition();
}

// Reads that are answered when the test says so.
struct Reads {
  struct One {
    Range range;
    ReadDone done;
  };
  Guarded<std::vector<One>> waiting;
  std::atomic<size_t> begun{0};

  Pusher::Read taker() {
    return [this](const std::shared_ptr<serve::OpenArchive>&, Range range, ReadDone done) {
      waiting.with([&](auto& all) { all.push_back({range, std::move(done)}); });
      ++begun;
    };
  }
  void fail_all() {
    for (const One& one : waiting.with([](auto& all) { return std::exchange(all, {}); }))
      one.done(make_error(Errc::corrupt, "on purpose, in a test"));
  }
};

Pusher::Job job(const std::shared_ptr<const void>& open, Range range) {
  Pusher::Job job;
  job.node = 7;
  job.open = open;
  job.range = range;
  job.file_size = range.end();
  return job;
}

}  // namespace

TEST_CASE("pieces go in the reader's order, to the file's end, and leave holes") {
  const auto open = std::make_shared<const char>('x');
  Guarded<std::vector<Range>> stored;
  const auto bytes = std::make_shared<const ByteVector>(kMiB, uint8_t{1});
  Pusher pusher(1, [&](const auto&, Range range, const ReadDone& done) {
    ReadResult result;
    result.parts.push_back(ByteSpan(*bytes).first(range.length));
    result.owners.push_back(bytes);
    done(std::move(result));
  });
  const Range all{9 * kMiB, 6 * kMiB + 1234};
  CHECK(!pusher.push(job(open, all)));  // not started
  pusher.start([&](NodeId node, uint64_t offset, const ReadResult& result) {
    stored.with([&](auto& ranges) { ranges.push_back({offset, result.bytes()}); });
    return node == 7;
  });
  REQUIRE(pusher.push(job(open, all)));
  const auto pushed = [&] {
    VolumeCounters counters;
    pusher.count(counters);
    return counters.pushed_bytes;
  };
  CHECK(until([&] { return pushed() == all.length - kHole; }));
  uint64_t at = all.offset;
  for (const Range& range : stored.with([](const auto& ranges) { return ranges; })) {
    if (at == 12 * kMiB) at += kHole;
    CHECK(range.offset == at);
    CHECK(range.length <= kMiB);
    at = range.end();
  }
  CHECK(at == all.end());
  CHECK(pusher.stop(std::chrono::milliseconds::max()));
  CHECK(!pusher.push(job(open, all)));
}

TEST_CASE("reads that fail make room for the next ones") {
  const auto open = std::make_shared<const char>('x');
  Reads reads;
  Pusher pusher(2, reads.taker());
  pusher.start([](NodeId, uint64_t, const ReadResult&) { return true; });
  REQUIRE(pusher.push(job(open, {4 * kMiB, 12 * kMiB})));
  CHECK(until([&] { return reads.begun == 4; }));  // as many as may be under way
  for (size_t done = 4; done < 12; done += 4) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // for both threads to fall asleep
    reads.fail_all();
    CHECK(until([&] { return reads.begun >= done + 4; }));
  }
  reads.fail_all();
  CHECK(pusher.stop(std::chrono::milliseconds::max()));
}

TEST_CASE("the end waits for reads under way, and a read that throws is none") {
  const auto open = std::make_shared<const char>('x');
  Reads reads;
  std::atomic<int> thrown{0};
  const auto take = reads.taker();
  Pusher pusher(1, [&](const std::shared_ptr<serve::OpenArchive>& archive, Range range, ReadDone done) {
    if (range.offset < 6 * kMiB) {
      ++thrown;
      throw std::bad_alloc();
    }
    take(archive, range, std::move(done));
  });
  pusher.start([](NodeId, uint64_t, const ReadResult&) { return true; });
  REQUIRE(pusher.push(job(open, {4 * kMiB, 4 * kMiB})));
  CHECK(until([&] { return reads.begun == 2; }));
  CHECK(thrown == 2);
  CHECK(!pusher.stop(std::chrono::milliseconds(30)));
  reads.fail_all();
  CHECK(pusher.stop(std::chrono::milliseconds::max()));
}

TEST_CASE("nothing is pushed to a file that nobody has open, nor near to its reader") {
  auto open = std::make_shared<const char>('x');
  Reads reads;
  Pusher pusher(1, reads.taker());
  pusher.start([](NodeId, uint64_t, const ReadResult&) { return true; });
  const auto position = std::make_shared<std::atomic<uint64_t>>(6 * kMiB);
  Pusher::Job near = job(open, {4 * kMiB, 4 * kMiB});
  near.position = position;
  REQUIRE(pusher.push(near));
  CHECK(until([&] { return reads.begun == 1; }));  // that of the last MiB
  CHECK(reads.waiting.with([](auto& all) { return all.front().range.offset; }) == 7 * kMiB);
  Pusher::Job closed = job(open, {8 * kMiB, 4 * kMiB});
  open.reset();
  REQUIRE(pusher.push(closed));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(reads.begun == 1);
  reads.fail_all();
  CHECK(pusher.stop(std::chrono::milliseconds::max()));
}
