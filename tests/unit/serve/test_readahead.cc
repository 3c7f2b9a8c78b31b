// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "serve/readahead.h"

using namespace brevis;
using serve::Streams;

namespace {

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB, kFile = 1024 * kMiB, kLimit = 16 * kMiB;

// Walks a stream and returns the bytes that were advised; checks that they are ahead, once each and without a gap.
uint64_t walk(Streams& streams, uint64_t from, uint64_t requests, uint64_t step, bool falling) {
  uint64_t advised = 0, front = 0;
  for (uint64_t i = 0; i < requests; ++i) {
    const uint64_t at = falling ? from - (i + 1) * step : from + i * step;
    const auto advice = streams.note({at, step}, kFile, kLimit);
    if (advice.range.length == 0) continue;
    CHECK(advice.falling == falling);
    if (falling) {
      CHECK(advice.range.end() == (advised == 0 ? at : front));
      CHECK(at - advice.range.offset <= kLimit);
      front = advice.range.offset;
    } else {
      CHECK(advice.range.offset == (advised == 0 ? at + step : front));
      CHECK(advice.range.end() - (at + step) <= kLimit);
      front = advice.range.end();
    }
    advised += advice.range.length;
  }
  return advised;
}

// A mapped file before its reader: a fault asks for the pages of 128 KiB around it that are missing, and what is
// advised is in the page cache at once, but for a hole in each 4 MiB.
class Mapped {
 public:
  // As memcpy copies downwards: the first page, then from the last one down.
  void copy_down(uint64_t from, uint64_t bytes) {
    touch(from / kPage);
    for (uint64_t page = (from + bytes - 1) / kPage; page > from / kPage; --page) touch(page);
  }
  // The page cache loses it.
  void forget() {
    present_.assign(kPages, false);
    requests = asked = pushed = pushed_again = recognised = 0;
  }

  uint64_t requests = 0, asked = 0, pushed = 0, pushed_again = 0, recognised = 0;
  Streams streams;

 private:
  static constexpr uint64_t kPage = 4096, kPages = kFile / kPage, kHole = 16;

  void touch(uint64_t page) {
    if (present_[page]) return;
    const uint64_t begin = std::max<uint64_t>(page, 16) - 16, end = std::min(begin + 32, kPages);
    for (uint64_t at = begin; at < end;) {
      const uint64_t first = at;
      while (at < end && !present_[at]) present_[at++] = true;
      if (at > first) ask({first * kPage, (at - first) * kPage});
      while (at < end && present_[at]) ++at;
    }
  }
  void ask(Range request) {
    ++requests;
    asked += request.length;
    const auto advice = streams.note(request, kFile, 8 * kMiB);
    recognised += advice.is_new;
    for (uint64_t at = (advice.range.offset + kPage - 1) / kPage; at < advice.range.end() / kPage; ++at) {
      const uint64_t in_block = at % (4 * kMiB / kPage);
      if (advice.falling ? in_block >= 4 * kMiB / kPage - kHole : in_block < kHole) continue;
      (present_[at] ? pushed_again : pushed) += kPage;
      present_[at] = true;
    }
  }

  std::vector<bool> present_ = std::vector<bool>(kPages);
};

}  // namespace

TEST_CASE("a rising reader is read ahead of, and so is a falling one") {
  for (const uint64_t step : {64 * kKiB, 128 * kKiB, kMiB})
    for (const bool falling : {false, true}) {
      Streams streams;
      const uint64_t advised = walk(streams, 512 * kMiB, 64 * kMiB / step, step, falling);
      CHECK(advised >= 64 * kMiB);
      CHECK(advised <= 64 * kMiB + kLimit);
      CHECK(streams.active() == 1);
    }
}

TEST_CASE("rising streams of large requests have a limit of their own, and say how far they have come") {
  for (const uint64_t step : {128 * kKiB, kMiB})
    for (const bool falling : {false, true}) {
      Streams streams;
      uint64_t most = 0;
      for (uint64_t i = 0; i < 64; ++i) {
        const uint64_t at = 512 * kMiB + (falling ? (63 - i) : i) * step;
        const auto advice = streams.note({at, step}, kFile, kLimit, 4 * kMiB);
        if (i > 0) CHECK(advice.bytes == (i + 1) * step);
        if (advice.range.length == 0) continue;
        most = std::max(most, falling ? at - advice.range.offset : advice.range.end() - (at + step));
      }
      CHECK(most == (step == kMiB && !falling ? 4 * kMiB : kLimit));
    }
}

TEST_CASE("a walk backwards in blocks, each read upwards, is a falling stream") {
  for (const uint64_t block : {512 * kKiB, kMiB, 2 * kMiB}) {
    Streams streams;
    uint64_t below = 0, above = 0, lowest = kFile;
    for (uint64_t at = kFile; at > kFile - 128 * kMiB; at -= block)
      for (uint64_t step = 0; step < block; step += 128 * kKiB) {
        const Range request{at - block + step, 128 * kKiB};
        lowest = std::min(lowest, request.offset);
        const auto advice = streams.note(request, kFile, kLimit);
        if (advice.range.length == 0) continue;
        (advice.range.end() <= lowest ? below : above) += advice.range.length;
      }
    CHECK(below >= 100 * kMiB);
    CHECK(above <= block);  // of the first, of which nothing is known
    CHECK(streams.active() <= 2);
  }
}

TEST_CASE("a mapped file is pushed once and seldom asked for, whichever way its blocks are copied") {
  constexpr uint64_t kHeader = 5000, kRead = 512 * kMiB;
  const auto walk_in_blocks = [](Mapped& file, uint64_t block, bool falling, uint64_t most_again) {
    CAPTURE(block);
    CAPTURE(falling);
    file.forget();
    for (uint64_t at = 0; at + block <= kRead; at += block)
      file.copy_down(kHeader + (falling ? kRead - at - block : at), block);
    CHECK(file.requests < 400);
    CHECK(file.asked < kRead / 16);
    CHECK(file.pushed > kRead / 16 * 15);
    CHECK(file.pushed_again < most_again);
    CHECK(file.recognised <= (block > 4 * kMiB ? kRead / block : 2));
    CHECK(file.streams.active() <= 4);
  };
  Mapped all;  // read in all ways: what was read before is no hindrance
  for (const uint64_t block : {256 * kKiB, 512 * kKiB, kMiB, 2 * kMiB, 3 * kMiB, 64 * kMiB, kRead})
    for (const bool falling : {false, true}) {
      Mapped file;
      walk_in_blocks(file, block, falling, 2 * kMiB);
      walk_in_blocks(file, block, falling, 2 * kMiB);
      walk_in_blocks(all, block, falling, 16 * kMiB);
    }
}

TEST_CASE("a stream that turns ends what is on its way") {
  Streams streams;
  std::shared_ptr<const std::atomic<uint64_t>> before;
  for (uint64_t i = 0; i < 8; ++i) {
    const auto advice = streams.note({9 * kMiB - (i + 1) * 128 * kKiB, 128 * kKiB}, kFile, kLimit);
    if (i > 0) CHECK(advice.falling);
    before = advice.position;
  }
  CHECK(before->load() == 8 * kMiB);
  const auto advice = streams.note({10 * kMiB - 128 * kKiB, 128 * kKiB}, kFile, kLimit);  // the next block above
  CHECK_FALSE(advice.falling);
  CHECK(advice.range.offset == 10 * kMiB);
  REQUIRE(advice.position);
  CHECK(advice.position->load() == 10 * kMiB);
  CHECK(before->load() == 0);
  Streams other;
  for (uint64_t at = 8 * kMiB; at < 9 * kMiB; at += 128 * kKiB)
    before = other.note({at, 128 * kKiB}, kFile, kLimit).position;
  CHECK(other.note({7 * kMiB, 128 * kKiB}, kFile, kLimit).falling);  // the next block below
  CHECK(before->load() >= kFile);
  CHECK(before->load() + kFile > before->load());
}

TEST_CASE("nothing is ahead where another stream has been") {
  Streams streams;
  (void)walk(streams, 100 * kMiB, 40, 128 * kKiB, false);  // up to 105
  uint64_t end = 0;
  for (uint64_t at = 90 * kMiB; at < 100 * kMiB; at += 128 * kKiB) {
    const auto advice = streams.note({at, 128 * kKiB}, kFile, kLimit);
    end = std::max(end, advice.range.end());
  }
  CHECK(end >= 99 * kMiB);
  CHECK(end <= 101 * kMiB);
}

TEST_CASE("one request, and a header's length with its header, are no stream") {
  Streams streams;
  CHECK(streams.note({0, 8}, kFile, kLimit).range.length == 0);
  CHECK(streams.note({8, 40 * kKiB}, kFile, kLimit).range.length == 0);
  CHECK(streams.note({400 * kMiB, kMiB}, kFile, kLimit).range.length == 0);
  CHECK(streams.active() == 0);
}

TEST_CASE("random readers get nothing") {
  std::mt19937_64 source(5);
  for (const uint64_t size : {4 * kKiB, 128 * kKiB}) {
    Streams streams;
    uint64_t advised = 0;
    for (int i = 0; i < 20'000; ++i)
      advised += streams.note({source() % (64 * kFile / size) * size, size}, 64 * kFile, kLimit).range.length;
    CHECK(advised < 64 * kMiB);  // neighbours by chance: of 20,000 places
  }
}

TEST_CASE("streams that are interleaved on one descriptor are told apart") {
  Streams streams;
  uint64_t advised = 0;
  for (uint64_t i = 0; i < 64; ++i)
    for (uint64_t stream = 0; stream < 8; ++stream) {
      const uint64_t start = stream * 128 * kMiB;
      const bool falling = stream % 2 == 1;
      const uint64_t at = falling ? start + 100 * kMiB - (i + 1) * 256 * kKiB : start + i * 256 * kKiB;
      const auto advice = streams.note({at, 256 * kKiB}, kFile, kLimit);
      advised += advice.range.length;
      if (advice.range.length == 0) continue;
      CHECK(advice.falling == falling);
      CHECK(advice.range.offset >= start);
      CHECK(advice.range.end() <= start + 128 * kMiB);
    }
  CHECK(streams.active() == 8);
  CHECK(advised >= 8 * 16 * kMiB);
}

TEST_CASE("requests that overtake each other stay one stream") {
  Streams streams;
  uint64_t recognised = 0, advised = 0;
  for (uint64_t i = 0; i < 32; ++i) {
    const uint64_t at = (i ^ 1) * kMiB;  // each pair the other way round
    const auto advice = streams.note({at, kMiB}, kFile, kLimit);
    recognised += advice.is_new;
    advised += advice.range.length;
  }
  CHECK(recognised == 1);
  CHECK(advised >= 30 * kMiB);
}

TEST_CASE("a request in what is ahead already tells how far the reader has come") {
  Streams streams;
  walk(streams, 0, 64, 256 * kKiB, false);
  // What follows is in the page cache: the next request comes from a hole far on.
  const auto advice = streams.note({24 * kMiB, 64 * kKiB}, kFile, kLimit);
  CHECK(advice.range.length > 0);
  CHECK(advice.range.end() == 24 * kMiB + 64 * kKiB + kLimit);
  CHECK(advice.position->load() == 24 * kMiB + 64 * kKiB);
}

TEST_CASE("the file's ends are ends, and no limit is none") {
  Streams streams;
  uint64_t last = 0;
  for (uint64_t at = kFile - 8 * kMiB; at < kFile; at += kMiB)
    if (const auto advice = streams.note({at, kMiB}, kFile, kLimit); advice.range.length > 0) last = advice.range.end();
  CHECK(last == kFile);
  Streams down;
  uint64_t first = kFile;
  for (uint64_t at = 8 * kMiB; at > 0; at -= kMiB)
    if (const auto advice = down.note({at - kMiB, kMiB}, kFile, kLimit); advice.range.length > 0)
      first = advice.range.offset;
  CHECK(first == 0);
  Streams none;
  for (uint64_t i = 0; i < 16; ++i) CHECK(none.note({i * kMiB, kMiB}, kFile, 0).range.length == 0);
}
