// SPDX-License-Identifier: Apache-2.0
#include "base/apart.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>

namespace brevis {
namespace {

bool tell_pipe(int fd, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(wrote));
  }
  return true;
}

[[noreturn]] void be_the_child(int pipe, pid_t parent, const std::function<bool(const Tell&)>& work) {
  // Should the parent be killed, nobody waits for the work any more; and its locks must not live on in here.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  if (pipe > STDERR_FILENO + 1) ::close_range(STDERR_FILENO + 1, static_cast<unsigned>(pipe) - 1, 0);
  ::close_range(static_cast<unsigned>(std::max(pipe, STDERR_FILENO)) + 1, UINT_MAX, 0);
  // A crash is expected: by default action, without a core file, without a word.
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGPIPE}) ::signal(number, SIG_DFL);
  const struct rlimit none {};
  ::setrlimit(RLIMIT_CORE, &none);
  const int quiet = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (quiet >= 0) ::dup2(quiet, STDERR_FILENO);
  if (quiet > STDERR_FILENO) ::close(quiet);
  bool fine = false;
  try {
    fine = work([pipe](ByteSpan bytes) { return tell_pipe(pipe, bytes); });
  } catch (...) {
    fine = false;
  }
  ::_exit(fine ? 0 : 1);  // not through the parent's exit handlers
}

// Everything until the child closes its end. False: too much, or too late.
bool listen(int fd, size_t limit, unsigned seconds, ByteVector& heard) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  constexpr size_t kStep = size_t{64} << 10;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return false;
    pollfd ready{fd, POLLIN, 0};
    const int found = ::poll(&ready, 1, static_cast<int>(left));
    if (found < 0 && errno == EINTR) continue;
    if (found <= 0) return false;
    const size_t before = heard.size();
    heard.resize(before + kStep);
    const ssize_t got = ::read(fd, heard.data() + before, kStep);
    heard.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || heard.size() > limit) return false;
    if (got == 0) return true;
  }
}

}  // namespace

Result<ByteVector> run_apart(const std::function<bool(const Tell&)>& work, size_t limit_bytes, unsigned seconds) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno(errno, "making a pipe");
  const pid_t self = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    const int failed = errno;
    ::close(ends[0]), ::close(ends[1]);
    return Error::from_errno(failed, "starting a process");
  }
  if (child == 0) {
    be_the_child(ends[1], self, work);
  }
  ::close(ends[1]);
  ByteVector heard;
  const bool whole = listen(ends[0], limit_bytes, seconds, heard);
  ::close(ends[0]);
  if (!whole) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!whole || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return make_error(Errc::corrupt, "the work ended with a crash or without a result");
  return heard;
}

}  // namespace brevis
