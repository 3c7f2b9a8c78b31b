// SPDX-License-Identifier: Apache-2.0
//
// What the user asked for: one table of options (option_table.cc) that feeds the command line, the environment
// (BREVIS_NAME), the configuration file, `-o NAME=VALUE` and the help text. The command line wins over the environment,
// the environment over the file.
//
// Errors:  invalid_argument, naming the option and what it takes; not_found and io for the configuration file.
// Threads: start-up only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "brevis/error.h"
#include "brevis/living.h"
#include "brevis/log.h"

namespace brevis::fs {

enum class CacheMode : uint8_t { automatic, always, off };
enum class LogFormat : uint8_t { text, json };

struct Options {
  std::string source;      // directory of archives, as given
  std::string mountpoint;  // empty: over the source itself
  std::string config;      // configuration file
  bool foreground = false;
  uint64_t memory = uint64_t{512} << 20;  // bytes
  unsigned jobs = 0;                      // 0: the Volume's choice
  unsigned loop_threads = 0;              // 0: cores, at least 2
  unsigned max_background = 64;
  uint64_t readahead = uint64_t{16} << 20;  // bytes
  std::string cache_dir;                    // absolute; empty: none
  bool cache_dir_said = false;
  uint64_t cache_size = uint64_t{20} << 30;
  CacheMode cache = CacheMode::automatic;
  bool show_archives = false;
  std::vector<std::string> base_paths;  // where bases of archives may be, outside of the source
  bool allow_other = false;
  bool allow_root = false;
  unsigned grace_seconds = 10;
  LogFormat log_format = LogFormat::text;
  std::string log_file;
  std::string control;                     // path of the control socket, "none", empty: the default place
  std::string metrics;                     // HOST:PORT, unix:PATH; empty or "none": no metrics
  unsigned rescan_seconds = kRescanAuto;   // 0: never
  int verbosity = 0;                       // -1 quiet, 0, 1 verbose
  std::vector<std::string> mount_options;  // for the kernel: noatime, noexec ...
  bool unmount = false;
  bool help = false;
  bool version = false;

  LogLevel log_level() const;
  // Where the tree is shown.
  const std::string& target() const { return mountpoint.empty() ? source : mountpoint; }
};

// A row of the table.
struct OptionRow {
  const char* name;    // long name: --NAME, BREVIS_NAME, NAME = ... in the file, -o NAME=...
  const char* letter;  // short form without the dash, or nullptr
  const char* value;   // what it takes, or nullptr for a switch
  const char* help;
  bool command_only;  // makes sense on the command line only
  Status (*set)(Options& options, const std::string& value);
};

const std::vector<OptionRow>& option_table();
const OptionRow* find_option(std::string_view name);
// A row's value, from anywhere: the error names the place.
Status set_option(Options& options, const OptionRow& row, const std::string& value, std::string_view place);
// The comma-separated list of -o.
Status set_mount_options(Options& options, const std::string& list);

// What a configuration file says, in its order; all names are known ones.
using NamedValues = std::vector<std::pair<std::string, std::string>>;
Result<NamedValues> read_config(const std::string& path);

using Environment = std::function<const char*(const std::string& name)>;
Result<Options> parse_options(int argc, const char* const* argv, const Environment& environment);

// 80 columns.
std::string help_text();

// 512MiB, 2GB, 65536: bytes. Errors: invalid_argument.
Result<uint64_t> parse_size(const std::string& text);

}  // namespace brevis::fs
