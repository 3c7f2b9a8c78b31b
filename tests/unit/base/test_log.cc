// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <stdexcept>

#include "brevis/log.h"

using namespace brevis;

TEST_CASE("lines at or above the level reach the sink with their fields") {
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel level, std::string_view message, const LogFields& fields) {
    std::string line = std::string(log_level_name(level)).append(" ").append(message);
    for (const auto& [name, value] : fields) line.append(" ").append(name).append("=").append(value);
    lines.push_back(line);
  });
  log(LogLevel::info, "unseen");
  log(LogLevel::warning, "seen", {{"archive", "a.brv"}, {"offset", "12"}});
  set_log_level(LogLevel::debug);
  log(LogLevel::debug, "now seen");
  set_log_level(LogLevel::error);
  log(LogLevel::warning, "unseen again");
  set_log_level(LogLevel::warning);
  CHECK(lines == std::vector<std::string>{"warning seen archive=a.brv offset=12", "debug now seen"});
  set_log_sink(nullptr);
}

TEST_CASE("a sink that throws does not fail the caller") {
  set_log_sink([](LogLevel, std::string_view, const LogFields&) { throw std::runtime_error("full"); });
  log(LogLevel::error, "x");
  set_log_sink(nullptr);
}
