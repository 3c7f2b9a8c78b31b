// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/threads.h"
#include "brevis/log.h"

using namespace brevis;

TEST_CASE("the destructor of a pool finishes what was posted, also from tasks") {
  std::atomic<int> done{0};
  {
    Pool pool(3);
    CHECK(pool.threads() == 3);
    for (int i = 0; i < 100; ++i) {
      pool.post([&pool, &done] {
        ++done;
        pool.post([&done] { ++done; });
      });
    }
  }
  CHECK(done == 200);
}

TEST_CASE("a pool has at least one thread") {
  std::atomic<int> done{0};
  {
    Pool pool(0);
    CHECK(pool.threads() == 1);
    pool.post([&] { ++done; });
  }
  CHECK(done == 1);
}

TEST_CASE("exceptions end at the pool: logged, the rest goes on") {
  Guarded<std::vector<std::string>> lines;
  set_log_sink([&](LogLevel level, std::string_view, const LogFields& fields) {
    lines.with([&](auto& all) {
      all.push_back(std::string(log_level_name(level)) + (fields.empty() ? "" : fields[0].second));
    });
  });
  std::atomic<int> done{0};
  {
    Pool pool(1);
    pool.post([] { throw std::runtime_error("boom"); });
    pool.post([] { throw 3; });
    pool.post([&] { ++done; });
  }
  set_log_sink(nullptr);
  CHECK(done == 1);
  CHECK(lines.with([](auto& all) { return all; }) == std::vector<std::string>{"errorboom", "error"});
}

TEST_CASE("ordered_parallel hands results on in order, the window bounds what runs") {
  Pool pool(4);
  for (const size_t count : {0u, 1u, 3u, 50u}) {
    for (const size_t window : {0u, 1u, 4u, 100u}) {
      std::atomic<size_t> ahead{0}, most{0};
      std::vector<size_t> seen;
      const Status status = ordered_parallel<size_t>(
          pool, count, window,
          [&](size_t i) -> Result<size_t> {
            const size_t now = ++ahead;
            size_t before = most;
            while (now > before && !most.compare_exchange_weak(before, now)) {
            }
            return i * i;
          },
          [&](size_t i, size_t square) -> Status {
            CHECK(square == i * i);
            seen.push_back(i);
            --ahead;
            return {};
          });
      CHECK(status.has_value());
      REQUIRE(seen.size() == count);
      for (size_t i = 0; i < count; ++i) CHECK(seen[i] == i);
      CHECK(most <= std::max<size_t>(window, 1));
    }
  }
}

TEST_CASE("ordered_parallel ends with the first error of either side") {
  Pool pool(2);
  const auto run = [&](size_t bad_make, size_t bad_take) {
    return ordered_parallel<int>(
        pool, 20, 4,
        [&](size_t i) -> Result<int> {
          if (i == 13) throw std::runtime_error("thrown");
          if (i == bad_make) return make_error(Errc::corrupt, "make " + std::to_string(i));
          return 1;
        },
        [&](size_t i, int) -> Status {
          if (i == bad_take) return make_error(Errc::no_space, "take " + std::to_string(i));
          return {};
        });
  };
  CHECK(run(5, 99).error().message() == "make 5");
  CHECK(run(99, 0).error().message() == "take 0");
  CHECK(run(99, 99).error().kind() == Errc::internal);
}

TEST_CASE("a token stays cancelled") {
  CancelToken token;
  CHECK(token.check().has_value());
  token.cancel();
  CHECK(token.check().error().kind() == Errc::cancelled);
  CHECK(available_cores() >= 1);
}
