// SPDX-License-Identifier: Apache-2.0
//
// One line at the foot of a terminal while long work goes on: bytes done, speed, ratio so far, time left. It is for
// people: drawn on stderr, only when that is a terminal unless asked for, and gone when the work is done.
//
// Threads: update() from any thread. Owns: the last line of the terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace brevis::tools {

enum class ProgressMode : uint8_t { automatic, always, never };

class ProgressBar {
 public:
  // `mode` automatic: only when stderr is a terminal.
  ProgressBar(ProgressMode mode, bool quiet);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  bool shown() const { return shown_; }
  // At most ten times a second something is drawn. `packed` 0: no ratio to show.
  void update(const std::string& file, uint64_t done, uint64_t total, uint64_t packed = 0);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  std::mutex mutex_;
  bool shown_;
  Clock::time_point start_ = Clock::now(), last_drawn_{};
};

// The line itself, `width` columns at most, for tests.
std::string progress_line(const std::string& file, uint64_t done, uint64_t total, uint64_t packed, double seconds,
                          size_t width);

}  // namespace brevis::tools
