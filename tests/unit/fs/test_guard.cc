// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "guard.h"

using brevis::fs::Guard;

namespace {

// A daemon whose guard writes to a pipe in place of the kernel's file.
class Watched {
 public:
  explicit Watched(const std::function<void(Guard&)>& life) {
    int ends[2], told[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    REQUIRE(pipe2(told, O_CLOEXEC) == 0);
    daemon_ = fork();
    if (daemon_ == 0) {
      Guard guard = Guard::start();
      const bool given = guard.hand_over(ends[1]);
      close(ends[1]);
      [[maybe_unused]] const ssize_t wrote = write(told[1], &given, 1);
      life(guard);
      _exit(0);
    }
    close(ends[1]);
    close(told[1]);
    bool given = false;
    CHECK(read(told[0], &given, 1) == 1);
    CHECK(given);
    close(told[0]);
    written_ = ends[0];
  }
  ~Watched() {
    close(written_);
    kill(daemon_, SIGKILL);
    waitpid(daemon_, nullptr, 0);
  }
  pid_t daemon() const { return daemon_; }
  // What the guard has written when it has ended: everything until the pipe is closed by all.
  std::string last_words() {
    std::string words;
    for (;;) {
      pollfd ready{written_, POLLIN, 0};
      char part[16];
      if (poll(&ready, 1, 10'000) <= 0) return words + " and did not end";
      const ssize_t got = read(written_, part, sizeof part);
      if (got <= 0) return words;
      words.append(part, static_cast<size_t>(got));
    }
  }
  bool silent() {
    pollfd ready{written_, POLLIN, 0};
    return poll(&ready, 1, 200) == 0;
  }

 private:
  pid_t daemon_;
  int written_;
};

void wait_for_ever(Guard&) {
  for (;;) pause();
}

}  // namespace

TEST_CASE("a guard writes when its daemon is killed, and not before") {
  Watched process(wait_for_ever);
  CHECK(process.silent());
  kill(process.daemon(), SIGKILL);
  CHECK(process.last_words() == "1");
}

TEST_CASE("a guard writes when its daemon leaves in a hurry") {
  Watched process([](Guard&) { _exit(0); });
  CHECK(process.last_words() == "1");
}

TEST_CASE("a guard writes when its daemon is about to die of a fault, though it has not ended") {
  Watched process([](Guard& guard) {
    Guard::alarm();
    wait_for_ever(guard);
  });
  CHECK(process.last_words() == "1");
}

TEST_CASE("a guard that is dismissed is gone and writes nothing") {
  Watched process([](Guard& guard) {
    guard.end();
    if (waitpid(-1, nullptr, 0) != -1) _exit(1);  // no child is left
    wait_for_ever(guard);
  });
  CHECK(process.last_words().empty());
}

TEST_CASE("a guard without anything to write ends with its daemon") {
  int ends[2];
  REQUIRE(pipe2(ends, 0) == 0);
  const pid_t daemon = fork();
  if (daemon == 0) {
    const Guard guard = Guard::start();  // closes its end of the pipe
    _exit(guard.ended_fd() < 0);
  }
  close(ends[1]);
  int status = 1;
  waitpid(daemon, &status, 0);
  CHECK(status == 0);
  char byte = 0;
  CHECK(read(ends[0], &byte, 1) == 0);
  close(ends[0]);
}
