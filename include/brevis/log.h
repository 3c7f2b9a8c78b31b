// SPDX-License-Identifier: Apache-2.0
//
// The one way in which the libraries speak to a person. Libraries never print: they hand lines to the sink that the
// program installed (by default: warnings and errors to stderr).
//
// Errors:  logging never fails.
// Threads: any thread may log; `set_log_sink` and `set_log_level` are called before threads start.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace brevis {

enum class LogLevel { debug, info, warning, error };

std::string_view log_level_name(LogLevel level);

// Named facts of a line (archive, tensor, offset ...), kept apart from the text so that JSON logs can show them so.
using LogFields = std::vector<std::pair<std::string_view, std::string>>;

// Receives every line at or above the level. Called under no lock of ours; must be safe from several threads.
using LogSink = std::function<void(LogLevel, std::string_view message, const LogFields&)>;

void set_log_sink(LogSink sink);
void set_log_level(LogLevel level);

void log(LogLevel level, std::string_view message, const LogFields& fields = {});

}  // namespace brevis
