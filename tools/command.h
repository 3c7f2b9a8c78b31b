// SPDX-License-Identifier: Apache-2.0
//
// What every command line of ours shares: options that are also BREVIS_NAME in the environment, help that fits 80
// columns, usage errors that end with 2, and --json, -q, -v, --progress where they mean something.
//
// Errors:  a command line that makes no sense is printed and becomes an exit code. Threads: start-up only.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "progress.h"

namespace brevis::tools {

class CommandLine {
 public:
  // `usage` follows the program's name: "ls [options] PATH...".
  CommandLine(std::string program, std::string usage, std::string summary);

  CLI::App& app() { return app_; }
  // A number of bytes with a unit.
  CLI::Option* add_size(const std::string& names, uint64_t& target, const std::string& help);
  // --base-path: directories where bases of archives are looked for.
  void add_base_paths(std::vector<std::string>& paths);
  void add_jobs(unsigned& target);
  void add_json();
  void add_progress();

  // An exit code when the program is to end at once (help, version, usage errors); installs the log sink.
  std::optional<int> parse(int argc, char** argv);

  bool json() const { return json_; }
  bool quiet() const { return quiet_; }
  int verbosity() const { return quiet_ ? -1 : verbose_; }
  ProgressMode progress() const { return progress_; }

 private:
  std::string help_text() const;

  CLI::App app_;
  std::string usage_, summary_;
  bool json_ = false, quiet_ = false, version_ = false, help_ = false;
  int verbose_ = 0;
  ProgressMode progress_ = ProgressMode::automatic;
};

// BREVIS_ names in the environment that no program of ours knows: said at -v, otherwise ignored.
void warn_of_unknown_environment();

// `words` of any length as lines of at most `width` columns, all but the first indented.
std::string wrapped(const std::string& text, size_t width, size_t indent);

}  // namespace brevis::tools
