// SPDX-License-Identifier: Apache-2.0
#include "base/apart.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
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

// In the child, of which `kept` stays open beside the standard files.
void leave_parent(int kept, pid_t parent) {
  // Should the parent be killed, nobody waits for the work any more; and its locks must not live on in here.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  if (kept > STDERR_FILENO + 1) ::close_range(STDERR_FILENO + 1, static_cast<unsigned>(kept) - 1, 0);
  ::close_range(static_cast<unsigned>(std::max(kept, STDERR_FILENO)) + 1, UINT_MAX, 0);
  // A crash is expected: by default action, without a core file, without a word.
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGPIPE}) ::signal(number, SIG_DFL);
  const struct rlimit none {};
  ::setrlimit(RLIMIT_CORE, &none);
  const int quiet = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (quiet >= 0) ::dup2(quiet, STDERR_FILENO);
  if (quiet > STDERR_FILENO) ::close(quiet);
}

[[noreturn]] void be_the_child(int pipe, pid_t parent, const std::function<bool(const Tell&)>& work) {
  leave_parent(pipe, parent);
  bool fine = false;
  try {
    fine = work([pipe](ByteSpan bytes) { return tell_pipe(pipe, bytes); });
  } catch (...) {
    fine = false;
  }
  ::_exit(fine ? 0 : 1);  // not through the parent's exit handlers
}

using Clock = std::chrono::steady_clock;
constexpr uint64_t kMaxMessage = uint64_t{1} << 30;

// Until the socket can be read or written; false when that takes too long.
bool wait_for(int socket, short what, Clock::time_point end) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return false;
    pollfd ready{socket, what, 0};
    const int found = ::poll(&ready, 1, static_cast<int>(std::min<int64_t>(left, INT_MAX)));
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) return false;
  }
}

// A message: its length, then its bytes.
bool send_bytes(int socket, ByteSpan bytes, Clock::time_point end) {
  while (!bytes.empty()) {
    if (!wait_for(socket, POLLOUT, end)) return false;
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
  return true;
}

bool send_message(int socket, ByteSpan bytes, Clock::time_point end) {
  const uint64_t length = bytes.size();
  return send_bytes(socket, {reinterpret_cast<const uint8_t*>(&length), sizeof length}, end) &&
         send_bytes(socket, bytes, end);
}

bool receive_bytes(int socket, MutByteSpan bytes, Clock::time_point end) {
  while (!bytes.empty()) {
    if (!wait_for(socket, POLLIN, end)) return false;
    const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return true;
}

bool receive_message(int socket, ByteVector& bytes, Clock::time_point end) {
  uint64_t length = 0;
  if (!receive_bytes(socket, {reinterpret_cast<uint8_t*>(&length), sizeof length}, end) || length > kMaxMessage)
    return false;
  bytes.resize(length);
  return receive_bytes(socket, bytes, end);
}

[[noreturn]] void be_the_servant(int socket, pid_t parent, const std::function<Servant::Answer()>& make) {
  leave_parent(socket, parent);
  // Who waits for the parent's output to end shall not wait for this one, too.
  const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (standard != socket && nowhere >= 0) ::dup2(nowhere, standard);
  if (nowhere > STDERR_FILENO && nowhere != socket) ::close(nowhere);
  // Those who end a group of processes mean the parent, which still has things to write down here.
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) ::signal(number, SIG_IGN);
  try {
    const auto never = Clock::time_point::max();
    const Servant::Answer answer = make();
    for (ByteVector question; receive_message(socket, question, never);)
      if (!send_message(socket, answer(question), never)) break;
  } catch (...) {
    ::_exit(1);
  }
  ::_exit(0);
}

// Everything until the child closes its end. False: too much, or too late.
bool listen(int fd, size_t limit, unsigned seconds, ByteVector& heard) {
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

Result<Servant> Servant::start(const std::function<Answer()>& make) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Error::from_errno(errno, "making a pair of sockets");
  const pid_t self = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) be_the_servant(ends[1], self, make);
  const int failed = errno;
  ::close(ends[1]);
  if (child > 0) return Servant(ends[0], child);
  ::close(ends[0]);
  return Error::from_errno(failed, "starting a process");
}

Servant::~Servant() { end(true); }

void Servant::end(bool in_peace) {
  if (child_ < 0) return;
  constexpr std::chrono::seconds kPatience{10};
  ::shutdown(socket_, SHUT_WR);
  if (!in_peace || !wait_for(socket_, POLLHUP, Clock::now() + kPatience)) ::kill(child_, SIGKILL);
  ::close(socket_);
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
  socket_ = child_ = -1;
}

Result<ByteVector> Servant::ask(ByteSpan question, unsigned seconds) {
  const auto limit = Clock::now() + std::chrono::seconds(seconds);
  ByteVector answer;
  if (child_ >= 0 && send_message(socket_, question, limit) && receive_message(socket_, answer, limit)) return answer;
  end(false);
  return make_error(Errc::corrupt, "the process for it crashed or takes too long");
}

}  // namespace brevis
