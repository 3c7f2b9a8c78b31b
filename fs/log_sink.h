// SPDX-License-Identifier: Apache-2.0
//
// Where the daemon's log lines go: stderr in front, a file when one is named, syslog from the background. One write per
// line, so that threads do not mix. Fatal signals leave a last line the same way.
//
// Errors:  opening the log file only; a line that cannot be written is dropped.
// Threads: install and redirect before threads start; lines and reopen from any.
// Owns:    one descriptor for the life of the process.
#pragma once

#include <string>

#include "brevis/error.h"
#include "brevis/log.h"
#include "options.h"

namespace brevis::fs {

// Becomes the log sink of the libraries.
Status install_log(const Options& options);
// From now on stderr is nobody's: lines that went there go to syslog.
void log_without_terminal();
// Opens the log file anew (after a rotation). Without a log file: nothing.
void reopen_log();
// A line for SIGSEGV, SIGBUS, SIGABRT ... before the process dies of it; then `last`, which may do what a signal's
// handler may.
void log_fatal_signals(void (*last)() noexcept);

// One line as it is written, without the newline; for tests.
std::string format_text(LogLevel level, std::string_view message, const LogFields& fields);
std::string format_json(LogLevel level, std::string_view message, const LogFields& fields);

}  // namespace brevis::fs
