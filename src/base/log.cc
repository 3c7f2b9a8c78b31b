// SPDX-License-Identifier: Apache-2.0
#include "brevis/log.h"

#include <unistd.h>

#include <atomic>

namespace brevis {
namespace {

// One write per line, so that lines of several threads never mix.
void write_to_stderr(LogLevel level, std::string_view message, const LogFields& fields) {
  std::string line = "brevis: ";
  line.append(log_level_name(level)).append(": ").append(message);
  for (const auto& [name, value] : fields) line.append(" ").append(name).append("=").append(value);
  line += '\n';
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

std::atomic<LogLevel> g_level{LogLevel::warning};

LogSink& sink() {
  // Never destroyed: threads may log while the program ends.
  static LogSink& installed = *new LogSink(write_to_stderr);
  return installed;
}

}  // namespace

std::string_view log_level_name(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return "debug";
    case LogLevel::info: return "info";
    case LogLevel::warning: return "warning";
    case LogLevel::error: return "error";
  }
  return "error";
}

void set_log_sink(LogSink new_sink) { sink() = new_sink ? std::move(new_sink) : LogSink(write_to_stderr); }

void set_log_level(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }

void log(LogLevel level, std::string_view message, const LogFields& fields) {
  if (level < g_level.load(std::memory_order_relaxed)) return;
  try {
    sink()(level, message, fields);
  } catch (...) {
    // A line that cannot be written must not fail the work it tells about.
  }
}

}  // namespace brevis
