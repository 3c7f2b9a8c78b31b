// SPDX-License-Identifier: Apache-2.0
#include "bench/timing.h"

#include <doctest/doctest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>

using namespace brevis;
using namespace brevis::bench;

TEST_CASE("timing: medians") {
  CHECK(median({}) == 0);
  CHECK(median({7}) == 7);
  CHECK(median({9, 1, 5}) == 5);
  CHECK(median({9, 1, 5, 6}) == 5.5);
}

TEST_CASE("timing: a warm buffer of any size is there and zero") {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4096}, (size_t{2} << 20) + 1}) {
    const WarmBuffer buffer(size);
    REQUIRE(buffer.size() == size);
    REQUIRE(buffer.data() != nullptr);
    const MutByteSpan all = buffer.span();
    CHECK(std::all_of(all.begin(), all.end(), [](uint8_t byte) { return byte == 0; }));
  }
}

TEST_CASE("timing: every job is done as often as asked, by workers in range") {
  Crew crew;
  REQUIRE(crew.size() >= 1);
  for (const size_t repeats : {1u, 3u})
    for (const size_t count : {0u, 1u, 2u, 7u, 100u}) {
      std::vector<std::atomic<size_t>> done(count);
      std::atomic<bool> in_range{true};
      const Task task = [&](unsigned worker, size_t job) -> Status {
        if (worker >= crew.size()) in_range = false;
        ++done[job];
        return {};
      };
      const auto all = crew.on_all(task, count, repeats), one = crew.on_one(task, count, repeats);
      REQUIRE((all && one));
      CHECK(*all >= 0);
      CHECK(*one >= 0);
      for (const auto& times : done) CHECK(times == 2 * repeats);
      CHECK(in_range);
    }
}

TEST_CASE("timing: a job's Error and exception come back, and the crew works on") {
  Crew crew;
  for (int round = 0; round < 3; ++round) {
    for (const size_t repeats : {1u, 2u}) {
      const auto failed = crew.on_all(
          [](unsigned, size_t job) -> Status {
            if (job == 5) return make_error(Errc::corrupt, "five");
            return {};
          },
          20, repeats);
      REQUIRE(!failed);
      CHECK(failed.error().message() == "five");
      const auto thrown =
          crew.on_all([](unsigned, size_t) -> Status { throw std::runtime_error("thrown"); }, 3, repeats);
      REQUIRE(!thrown);
      CHECK(thrown.error().kind() == Errc::internal);
    }
    CHECK(crew.on_all([](unsigned, size_t) { return Status(); }, 9, 1));
  }
}

TEST_CASE("timing: the caller's cores are its own again") {
  cpu_set_t before, after;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  { const Crew crew; }
  REQUIRE(sched_getaffinity(0, sizeof after, &after) == 0);
  CHECK(CPU_EQUAL(&before, &after));
}
