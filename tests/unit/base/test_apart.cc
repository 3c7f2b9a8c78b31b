// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/apart.h"

using namespace brevis;

TEST_CASE("work apart: what it tells comes back; crashes and too many words are errors") {
  const uint8_t words[] = {1, 2, 3};
  CHECK(run_apart([&](const Tell& tell) { return tell(words) && tell(words); }, 100, 60).value().size() == 6);
  CHECK(run_apart([&](const Tell& tell) { return tell(words); }, 2, 60).error().kind() == Errc::corrupt);
  CHECK(run_apart([](const Tell&) { return ::raise(SIGKILL) == 0; }, 100, 60).error().kind() == Errc::corrupt);
  CHECK(run_apart([](const Tell&) { return ::pause() == 0; }, 100, 1).error().kind() == Errc::corrupt);
}

TEST_CASE("work apart: open files, and so locks, are not held there") {
  const int file = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  REQUIRE(file >= 0);
  const auto told = run_apart(
      [&](const Tell& tell) {
        const uint8_t open = ::fcntl(file, F_GETFD) >= 0;
        return tell({&open, 1});
      },
      100, 60);
  REQUIRE(told);
  CHECK(told.value() == ByteVector{0});
  ::close(file);
}

TEST_CASE("work apart: ends with its parent") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  REQUIRE(::dup2(ends[1], STDIN_FILENO) >= 0);  // the one kind of file that the work has, too: open while it lives
  ::close(ends[1]);
  const pid_t parent = ::fork();
  REQUIRE(parent >= 0);
  if (parent == 0) {
    (void)run_apart(
        [](const Tell&) {
          (void)!::write(STDIN_FILENO, "x", 1);
          return ::pause() == 0;
        },
        100, 600);
    ::_exit(0);
  }
  ::close(STDIN_FILENO);
  char got = 0;
  CHECK(::read(ends[0], &got, 1) == 1);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  pollfd ready{ends[0], POLLIN, 0};
  CHECK(::poll(&ready, 1, 60'000) == 1);
  CHECK(::read(ends[0], &got, 1) == 0);
  ::close(ends[0]);
  ::open("/dev/null", O_RDONLY);
}
