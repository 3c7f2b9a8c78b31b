// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

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

TEST_CASE("a servant: answers one after the other, of any size, keeping what it knows") {
  auto servant = Servant::start([]() -> Servant::Answer {
    return [sum = uint64_t{0}](ByteSpan question) mutable {
      for (const uint8_t byte : question) sum += byte;
      return ByteVector(question.size(), static_cast<uint8_t>(sum));
    };
  });
  REQUIRE(servant);
  CHECK(servant->ask({}, 60).value().empty());
  const ByteVector few{1, 2}, many(5'000'000, 0);
  CHECK(servant->ask(few, 60).value() == ByteVector{3, 3});
  CHECK(servant->ask(many, 60).value() == ByteVector(many.size(), 3));
  CHECK(servant->ask(few, 60).value() == ByteVector{6, 6});
}

TEST_CASE("a servant that crashes, or does not come back, is an error from then on") {
  for (const uint8_t how : {uint8_t{0}, uint8_t{1}, uint8_t{2}}) {
    auto servant = Servant::start([]() -> Servant::Answer {
      return [](ByteSpan question) -> ByteVector {
        if (question[0] == 0) ::raise(SIGBUS);
        if (question[0] == 1) ::pause();
        throw 1;
      };
    });
    REQUIRE(servant);
    for (int i = 0; i < 2; ++i) CHECK(servant->ask({&how, 1}, 1).error().kind() == Errc::corrupt);
  }
  auto servant = Servant::start([]() -> Servant::Answer { throw 1; });
  REQUIRE(servant);
  CHECK(!servant->ask({}, 60));
}

TEST_CASE("a servant is not ended by what ends its group, but with its owner") {
  const pid_t self = ::getpid();
  {
    auto servant = Servant::start([]() -> Servant::Answer {
      return [](ByteSpan) {
        for (const int number : {SIGTERM, SIGINT, SIGHUP}) ::kill(::getpid(), number);
        const pid_t pid = ::getpid();
        return ByteVector(reinterpret_cast<const uint8_t*>(&pid), reinterpret_cast<const uint8_t*>(&pid) + sizeof pid);
      };
    });
    REQUIRE(servant);
    pid_t pid = 0;
    std::memcpy(&pid, servant->ask({}, 60).value().data(), sizeof pid);
    CHECK(pid != self);
    CHECK(::kill(pid, 0) == 0);
  }
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // no child is left
}
