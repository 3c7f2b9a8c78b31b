// SPDX-License-Identifier: Apache-2.0
#include "background.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "log_sink.h"

namespace brevis::fs {

namespace {

constexpr int kExitInternal = 70;

// Waits for the child's word; its silence and end are its failure.
[[noreturn]] void wait_as_parent(pid_t child, int pipe) {
  char word = 0;
  ssize_t got = 0;
  do got = read(pipe, &word, 1);
  while (got < 0 && errno == EINTR);
  if (got == 1) _exit(0);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) _exit(WEXITSTATUS(status));
  // An end with 0 before it was ready: stopped by a signal while starting.
  if (WIFEXITED(status)) _exit(143);
  fprintf(stderr, "brevis-mount: died while starting: %s\n", strsignal(WTERMSIG(status)));
  _exit(kExitInternal);
}

}  // namespace

Result<Background> Background::start() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno(errno, "cannot make a pipe");
  fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) {
    const int fault = errno;
    close(ends[0]);
    close(ends[1]);
    return Error::from_errno(fault, "cannot go to the background");
  }
  if (child > 0) {
    close(ends[1]);
    wait_as_parent(child, ends[0]);
  }
  close(ends[0]);
  return Background(ends[1]);
}

Background::~Background() {
  if (pipe_ >= 0) close(pipe_);
}

void Background::leave_terminal() {
  if (pipe_ < 0) return;
  setsid();
  log_without_terminal();
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
  if (null > STDERR_FILENO) close(null);
}

void Background::ready() {
  if (pipe_ < 0) return;
  const char word = 1;
  [[maybe_unused]] const ssize_t written = write(pipe_, &word, 1);
  close(pipe_);
  pipe_ = -1;
}

}  // namespace brevis::fs
