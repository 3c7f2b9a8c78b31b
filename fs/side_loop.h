// SPDX-License-Identifier: Apache-2.0
//
// The daemon's side doors, apart from FUSE: the control socket and the metrics endpoint, on one thread of their own
// (Boost.Asio), with a second one for requests that take long. Callers are strangers: every line, wait and number of
// connections is bounded.
//
//   control  a line of JSON each way (control_protocol.h); only the user of this process and root get an answer
//   metrics  GET /metrics over HTTP, for anybody who reaches the address
//
// Errors:  internal when threads cannot be had. Trouble with one caller ends his connection, nothing else.
// Threads: start and stop from one thread; the actions are called on the threads of this room.
// Owns:    its connections and threads; the listening sockets are lent for its life.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "brevis/error.h"
#include "control_protocol.h"

namespace brevis::fs {

// What a request that takes long may ask and tell.
struct ControlJob {
  int file_fd = -1;                 // passed beside the request, or -1
  std::function<bool()> cancelled;  // the caller has gone, or we are to end
  std::function<void(uint64_t done, uint64_t all)> progress;
};

struct SideActions {
  // At once, on the loop's thread: stats, rescan. A line with its newline.
  std::function<std::string(const ControlRequest&)> answer;
  // On the second thread, one after the other: put, remove.
  std::function<std::string(const ControlRequest&, const ControlJob&)> work;
  std::function<std::string()> metrics;
};

class SideLoop {
 public:
  // -1: no such door.
  static Result<std::unique_ptr<SideLoop>> start(int control_fd, int metrics_fd, SideActions actions);
  virtual ~SideLoop() = default;  // after stop() said true
  // No new callers; work under way is cancelled. False when it still hangs after `limit`: nothing may be destroyed
  // then.
  virtual bool stop(std::chrono::milliseconds limit) = 0;
};

}  // namespace brevis::fs
