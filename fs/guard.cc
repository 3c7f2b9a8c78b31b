// SPDX-License-Identifier: Apache-2.0
//
// The guard is told of the daemon's end by the signal for a parent's death, which the kernel sends when the thread that
// forked has ended. Not by the end of a pipe or socket, and not by a look at the parent's number: the thread that is
// left behind keeps the daemon's files open and the guard's parent alive.
//
// It is forked before the first thread and long before the mount, when the process is small: pages that the daemon
// changes later are the guard's own. The `abort` file comes to it by a socket. The daemon opens it while the mount is
// there for certain: the kernel gives numbers of connections to others when they are free again, but an open file means
// one connection for ever.
#include "guard.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "brevis/log.h"

namespace brevis::fs {

namespace {

// Process-wide because a signal's handler has no other way to find it.
std::atomic<pid_t> g_guard{-1};

// Signals of this kind are queued: one from somebody else cannot hide the kernel's.
int death_signal() { return SIGRTMIN + 1; }

union Control {
  cmsghdr header;
  char space[CMSG_SPACE(sizeof(int))];
};

bool send_file(int socket, int file) {
  char word = 1;
  iovec part{&word, 1};
  Control control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = &control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof file);
  std::memcpy(CMSG_DATA(header), &file, sizeof file);
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

// -1: the other end was closed.
int receive_file(int socket) {
  char word = 0;
  iovec part{&word, 1};
  Control control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = &control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (!header || header->cmsg_type != SCM_RIGHTS) return -1;
  int file = -1;
  std::memcpy(&file, CMSG_DATA(header), sizeof file);
  return file;
}

// Memory and locks are those of the parent at some moment: nothing here but system calls.
[[noreturn]] void stand_guard(int socket, pid_t daemon) {
  prctl(PR_SET_PDEATHSIG, death_signal());
  bool ended = getppid() != daemon;  // before the signal was asked for
  prctl(PR_SET_NAME, "brevis-guard");
  setsid();
  if (socket > 0) close_range(0, static_cast<unsigned>(socket) - 1, 0);
  close_range(static_cast<unsigned>(socket) + 1, UINT_MAX, 0);
  const int abort_file = receive_file(socket);
  if (abort_file < 0) _exit(0);
  sigset_t death;
  sigemptyset(&death);
  sigaddset(&death, death_signal());
  while (!ended) {
    siginfo_t info = {};
    ended = sigwaitinfo(&death, &info) > 0 && info.si_pid == daemon;  // others may send that signal, too
  }
  [[maybe_unused]] const ssize_t written = write(abort_file, "1", 1);
  _exit(0);
}

// As the kernel itself says of the connection, where it is new enough to say it.
std::optional<unsigned> number_of(int connection_fd) {
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(connection_fd));
  for (std::string name; info >> name;) {
    unsigned number = 0;
    if (name == "fuse_connection:" && info >> number) return number;
  }
  return std::nullopt;
}

bool is_cut(int connection_fd) {
  pollfd connection{connection_fd, 0, 0};
  return poll(&connection, 1, 0) > 0 && (connection.revents & POLLERR) != 0;
}

void tell_of_none(const std::string& cause) {
  log(LogLevel::info, "no guard: should the daemon be killed, the mount may hang until its connection is cut by hand",
      {{"cause", cause}});
}

}  // namespace

Guard Guard::start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    tell_of_none(Error::from_errno(errno, "making a pair of sockets").message());
    return {-1, -1};
  }
  // The guard keeps them blocked: who signals a whole group, or all that look the same, means the daemon.
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t daemon = getpid();
  const pid_t child = fork();
  if (child == 0) stand_guard(ends[1], daemon);
  const int fault = errno;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  close(ends[1]);
  if (child > 0) {
    g_guard = child;
    return {child, ends[0]};
  }
  close(ends[0]);
  tell_of_none(Error::from_errno(fault, "starting a process").message());
  return {-1, -1};
}

void Guard::watch(int connection_fd, const std::optional<MountEntry>& entry) {
  if (child_ < 0) return;
  std::optional<unsigned> number = number_of(connection_fd);
  if (!number && entry && entry->is_brevis()) number = entry->minor;
  if (!number) {
    tell_of_none("the number of the connection is not known");
    return end();
  }
  const auto file = open_abort_file(*number);
  if (!file) {
    tell_of_none(file.error().message());
    return end();
  }
  // A connection that lives has had its number all the time.
  const bool given = !is_cut(connection_fd) && hand_over(*file);
  close(*file);
  if (!given) end();
}

bool Guard::hand_over(int file) { return child_ >= 0 && send_file(socket_, file); }

void Guard::alarm() noexcept {
  if (const pid_t guard = g_guard; guard > 0) kill(guard, death_signal());
}

void Guard::end() {
  if (child_ < 0) return;
  g_guard = -1;
  kill(child_, SIGKILL);
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
  close(socket_);
  child_ = socket_ = -1;
}

}  // namespace brevis::fs
