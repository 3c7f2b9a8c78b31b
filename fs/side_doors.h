// SPDX-License-Identifier: Apache-2.0
//
// What is beside the mount while it serves: the watch over its source, the control socket and the metrics, and what is
// done when they are asked; pushing into the page cache, too, which like the watch speaks to the kernel unasked. Opened
// before the mount, so that a place that cannot be had ends the start with a message; begun when the session answers;
// ended before it goes.
//
// Errors:  those of listening.h for places that were asked for by name; a default place that cannot be had is a
// warning. Threads: open, begin and end from one thread. Owns: the sockets, the watch and their threads.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "brevis/living.h"
#include "brevis/volume.h"
#include "listening.h"
#include "metrics.h"
#include "options.h"
#include "session.h"
#include "side_loop.h"

namespace brevis::fs {

class SideDoors {
 public:
  // `source_fd` is borrowed.
  static Result<std::unique_ptr<SideDoors>> open(const Options& options, int source_fd, const std::string& mountpoint);

  // Path of the control socket, or empty.
  std::string control_path() const { return control_ ? control_->address() : std::string(); }

  Status begin(Session& session, Volume& volume);
  // Looks at the whole tree again.
  void rescan();
  Numbers numbers() const;
  // Work for callers ends; the watch goes on. A caller whose work was cut off is told so.
  bool end_work(std::chrono::milliseconds limit);
  // Everything ends. False when something hangs in storage: then nothing may be destroyed.
  bool end(std::chrono::milliseconds limit);

 private:
  SideDoors(const Options& options, int source_fd) : options_(options), source_fd_(source_fd) {}
  void forget_names(const std::vector<ChangedName>& names);
  std::string answer(const ControlRequest& request);
  std::string work(const ControlRequest& request, const ControlJob& job);
  std::string put(const ControlRequest& request, const ControlJob& job);
  std::string remove(const ControlRequest& request);

  const Options options_;
  const int source_fd_;
  Session* session_ = nullptr;
  Volume* volume_ = nullptr;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::optional<Listening> control_, metrics_;
  std::unique_ptr<TreeWatch> watch_;
  std::unique_ptr<SideLoop> loop_;
};

}  // namespace brevis::fs
