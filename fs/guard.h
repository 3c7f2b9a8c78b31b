// SPDX-License-Identifier: Apache-2.0
//
// A process beside the daemon that outlives it by a moment and has the kernel cut the mount's connection then.
//
// A daemon that is killed may leave a thread behind in the kernel: one that stores into the page cache waits there for
// a page whose request the daemon will never answer, no signal wakes it, and while it waits, the connection stays open.
// So nobody is told that nobody answers, and whoever reads or unmounts waits for ever (ADR 26). The guard holds the
// connection's `abort` file and writes to it when the daemon's first thread ends. After any usual end the connection is
// gone by then and the write does nothing.
//
// Errors:  none: where there is no `abort` file for us, or no process to be had, the mount is served without a guard.
// Threads: one, the process' first, and start() before there are others.
// Owns:    the child process and the socket to it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <utility>

#include "mounts.h"

namespace brevis::fs {

class Guard {
 public:
  // Forks. What is open then, the child closes; its name in the table of processes is brevis-guard.
  static Guard start();
  Guard(Guard&& other) noexcept : child_(std::exchange(other.child_, -1)), socket_(std::exchange(other.socket_, -1)) {}
  Guard& operator=(Guard&&) = delete;
  ~Guard() { end(); }

  // From now on. `connection_fd`: of a mount that is made and not yet pushed to. `entry`: its line in the table.
  void watch(int connection_fd, const std::optional<MountEntry>& entry);
  // What watch() does with the file it finds: "1" is written to it at the end. False: there is no guard.
  bool hand_over(int file);
  // The end has come: a dump of a crashed process waits for all its threads, also for one that is left behind, and
  // until then its first thread has not ended. For handlers of signals.
  static void alarm() noexcept;
  // Readable when the guard has ended before its time; -1 without one.
  int ended_fd() const { return socket_; }
  // No more guarding.
  void end();

 private:
  Guard(pid_t child, int socket) : child_(child), socket_(socket) {}
  pid_t child_;
  int socket_;
};

}  // namespace brevis::fs
