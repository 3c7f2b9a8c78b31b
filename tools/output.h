// SPDX-License-Identifier: Apache-2.0
//
// How the programs speak: data on stdout, everything else on stderr; tables; text that cannot steer a terminal;
// exit codes.
//
// Errors:  a stdout that cannot be written is found by finish_output(). Threads: print_error and the log sink may be
//          called from any thread; the rest from one.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "brevis/error.h"

namespace brevis::tools {

// Exit codes of the programs' contract beyond those of to_exit_code().
constexpr int kExitFine = 0, kExitDifferent = 1, kExitUsage = 2, kExitInternal = 70, kExitCannotCreate = 73,
              kExitWrite = 74;

// "brevis" or "brevis-pack": what messages begin with.
void set_program_name(std::string_view name);

// Lines of the libraries to stderr, from `verbosity` on: -1 errors, 0 warnings, 1 information, 2 all.
void install_log_sink(int verbosity);

// "program: message" on stderr, in place of the foot line when there is one.
void print_error(std::string_view message);
void print_warning(std::string_view message);
// The same for an Error, and its exit code; a stop on a signal says nothing and gives the signal's code.
int report(const Error& error);

// The exit code of one file's failure: 73 when it is the target that could not be made (it exists, or its directory
// does not), else as the error says.
int file_exit_code(const Error& error, const std::string& source, const std::string& target);

// A line that stays below the others on stderr until the next call; any other line takes its place.
void draw_foot_line(std::string_view line);
void clear_foot_line();

// Control characters as \x1b and so on: names come from files that anybody may have made.
std::string printable(std::string_view text);

// Rows of cells in columns as wide as needed; numbers lean right.
class Table {
 public:
  enum class Lean : uint8_t { left, right };
  struct Column {
    std::string title;
    Lean lean = Lean::left;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // To stdout, the titles bold on a terminal (not with NO_COLOR).
  void print() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

bool stdout_has_color();

// Writes what stdout still holds. `exit_code`, or 74 with a message when the output could not be written.
int finish_output(int exit_code);

// main() of a program: what is thrown within ends with 70 (out of memory: 70 too, said so), output is flushed.
int run_guarded(const std::function<int()>& body);

}  // namespace brevis::tools
