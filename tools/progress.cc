// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "output.h"
#include "sizes.h"

namespace brevis::tools {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(100);
size_t terminal_width() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20) return size.ws_col;
  return 80;
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<uint64_t>(std::min(seconds, 359'999.0));
  char text[32];
  if (whole >= 3600)
    std::snprintf(text, sizeof text, "%u:%02u:%02u", static_cast<unsigned>(whole / 3600),
                  static_cast<unsigned>(whole / 60 % 60), static_cast<unsigned>(whole % 60));
  else
    std::snprintf(text, sizeof text, "%u:%02u", static_cast<unsigned>(whole / 60), static_cast<unsigned>(whole % 60));
  return text;
}

}  // namespace

std::string progress_line(const std::string& file, uint64_t done, uint64_t total, uint64_t packed, double seconds,
                          size_t width) {
  std::string line = total == 0 ? "" : percent(done, total) + "  ";
  line += human_size(done);
  if (total != 0) line += " of " + human_size(total);
  if (seconds > 0.2 && done > 0) {
    const double rate = static_cast<double>(done) / seconds;
    line += "  " + human_size(static_cast<uint64_t>(rate)) + "/s";
    if (packed != 0) line += "  ratio " + ratio_text(done, packed);
    if (total > done) line += "  " + clock_text(static_cast<double>(total - done) / rate) + " left";
  }
  const std::string name = printable(file.substr(file.find_last_of('/') + 1));
  if (line.size() + 2 + name.size() < width) line += "  " + name;
  return line.substr(0, width > 0 ? width - 1 : 0);
}

ProgressBar::ProgressBar(ProgressMode mode, bool quiet)
    : shown_(mode == ProgressMode::always || (mode == ProgressMode::automatic && !quiet && isatty(STDERR_FILENO))) {}

ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::update(const std::string& file, uint64_t done, uint64_t total, uint64_t packed) {
  if (!shown_) return;
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (now - last_drawn_ < kInterval) return;
  last_drawn_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  draw_foot_line(progress_line(file, done, total, packed, seconds, terminal_width()));
}

void ProgressBar::clear() {
  if (shown_) clear_foot_line();
}

}  // namespace brevis::tools
