// SPDX-License-Identifier: Apache-2.0
//
// Going to the background before anything is mounted: the parent stays in front until the child says that the mount
// answers, or ends with the child's exit code. The child keeps the terminal's stderr until then, so that its message
// is seen. (The FUSE library's own way forks after mounting, too late to report a failure of what follows.)
//
// Errors:  io when the system has no process to give. Threads: none may run yet when start() is called.
// Owns:    the pipe to the parent.
#pragma once

#include <utility>

#include "brevis/error.h"

namespace brevis::fs {

class Background {
 public:
  // Forks; only the child returns. The parent leaves the process in here.
  static Result<Background> start();
  // The process stays as it is: ready() does nothing.
  static Background in_front() { return Background(-1); }

  Background(Background&& other) noexcept : pipe_(other.pipe_) { other.pipe_ = -1; }
  Background& operator=(Background&& other) noexcept {
    std::swap(pipe_, other.pipe_);
    return *this;
  }
  ~Background();

  // We leave the parent's session, terminal and standard streams; the log goes elsewhere from here on.
  void leave_terminal();
  // The parent ends with 0. After leave_terminal(), or whoever waits for our output to end waits for the daemon.
  void ready();

 private:
  explicit Background(int pipe) : pipe_(pipe) {}
  int pipe_;
};

}  // namespace brevis::fs
