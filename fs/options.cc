// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <strings.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstring>

namespace brevis::fs {

namespace {

constexpr const char* kUsage =
    "usage: brevis-mount [options] SOURCE [MOUNTPOINT]\n"
    "       brevis-mount --unmount MOUNTPOINT\n"
    "\n"
    "Shows the directory SOURCE at MOUNTPOINT, every Brevis archive NAME.brv in it as\n"
    "the original file NAME, read-only. Without MOUNTPOINT the tree is mounted over\n"
    "SOURCE itself, and the archives are to be seen under SOURCE/.brevis/.\n"
    "\n"
    "Exit 0 means that the mount answers. SIGTERM unmounts and ends, SIGHUP looks\n"
    "again at the tree, SIGUSR1 logs the counters.\n"
    "\n"
    "Options:\n";

constexpr const char* kFooter =
    "\n"
    "Every option can also come from the environment as BREVIS_NAME (BREVIS_MEMORY,\n"
    "BREVIS_LOG_FILE ...) and from the file of --config, where SOURCE and MOUNTPOINT\n"
    "are source and mountpoint. The command line wins, then the environment.\n";

constexpr size_t kColumns = 80, kHelpColumn = 28;

bool positional(const OptionRow& row) { return *row.help == '\0'; }

// "memory" -> "BREVIS_MEMORY".
std::string environment_name(const OptionRow& row) {
  std::string name = "BREVIS_";
  for (const char* c = row.name; *c; ++c) name += *c == '-' ? '_' : static_cast<char>(toupper(*c));
  return name;
}

// Which rows have been said, by table place, and how.
using Said = std::map<const OptionRow*, std::vector<std::string>>;

Result<Said> read_command_line(int argc, const char* const* argv) {
  CLI::App app;
  app.set_help_flag();
  std::map<const OptionRow*, CLI::Option*> made;
  for (const OptionRow& row : option_table()) {
    const std::string long_name = std::string(positional(row) ? "" : "--") + row.name;
    const std::string names = row.letter ? std::string("-") + row.letter + "," + long_name : long_name;
    CLI::Option* option = row.value ? app.add_option(names) : app.add_flag(names);
    if (row.value) option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    made[&row] = option;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Error& e) {
    return make_error(Errc::invalid_argument, std::string(e.what()) + " (see brevis-mount --help)");
  }
  Said said;
  for (const auto& [row, option] : made)
    if (option->count() > 0) said[row] = row->value ? option->results() : std::vector<std::string>{"true"};
  return said;
}

Status apply_environment(Options& options, const Said& said, const Environment& environment) {
  for (const OptionRow& row : option_table()) {
    if (row.command_only || said.count(&row)) continue;
    const std::string name = environment_name(row);
    if (const char* value = environment(name)) BREVIS_TRY(set_option(options, row, value, name));
  }
  return {};
}

Status apply_config(Options& options, const std::string& path) {
  BREVIS_ASSIGN(const NamedValues values, read_config(path));
  for (const auto& [name, value] : values) {
    BREVIS_TRY(set_option(options, *find_option(name), value, path + ": " + name));
  }
  return {};
}

// The file's name is needed before anything else is applied.
Result<std::string> config_path(const Said& said, const Environment& environment) {
  const OptionRow* row = find_option("config");
  if (const auto it = said.find(row); it != said.end()) return it->second.back();
  if (const char* value = environment(environment_name(*row))) return std::string(value);
  return std::string();
}

Status check_whole(const Options& o) {
  if (o.help || o.version) return {};
  if (o.source.empty() && (!o.unmount || o.mountpoint.empty()))
    return make_error(Errc::invalid_argument, o.unmount ? "--unmount needs a MOUNTPOINT"
                                                        : "SOURCE is missing: which directory is to be served? (see "
                                                          "brevis-mount --help)");
  if (o.allow_other && o.allow_root)
    return make_error(Errc::invalid_argument, "allow_root and --allow-other exclude each other");
  return {};
}

// Appends words to `text`, broken before `kColumns`, later lines indented.
void wrap(std::string& text, size_t column, const std::string& words) {
  size_t start = 0;
  bool first = true;
  while (start < words.size()) {
    size_t end = words.find(' ', start);
    if (end == std::string::npos) end = words.size();
    const size_t length = end - start;
    if (!first && column + 1 + length > kColumns) {
      text += "\n" + std::string(kHelpColumn, ' ');
      column = kHelpColumn;
      first = true;
    }
    if (!first) text += ' ', ++column;
    text.append(words, start, length);
    column += length;
    first = false;
    start = end + 1;
  }
  text += '\n';
}

}  // namespace

LogLevel Options::log_level() const {
  return verbosity < 0 ? LogLevel::error : verbosity > 0 ? LogLevel::debug : LogLevel::info;
}

Result<Options> parse_options(int argc, const char* const* argv, const Environment& environment) {
  BREVIS_ASSIGN(const Said said, read_command_line(argc, argv));
  Options options;
  BREVIS_ASSIGN(const std::string config, config_path(said, environment));
  if (!config.empty()) BREVIS_TRY(apply_config(options, config));
  const bool source_said = said.count(find_option("source")) > 0;
  BREVIS_TRY(apply_environment(options, said, environment));
  // A SOURCE alone on the command line means "over itself", whatever the others call a mount point.
  if (source_said) options.mountpoint.clear();
  for (const OptionRow& row : option_table()) {
    const auto it = said.find(&row);
    if (it == said.end()) continue;
    const std::string place = positional(row) ? std::string(row.name) : std::string("--") + row.name;
    for (const std::string& value : it->second) BREVIS_TRY(set_option(options, row, value, place));
  }
  // The directory that systemd made for the unit, unless somebody said another.
  if (const char* given = options.cache_dir_said ? nullptr : environment("CACHE_DIRECTORY")) options.cache_dir = given;
  BREVIS_TRY(check_whole(options));
  return options;
}

std::string help_text() {
  std::string text = kUsage;
  for (const OptionRow& row : option_table()) {
    if (positional(row)) continue;
    std::string line =
        row.letter ? std::string("  -") + row.letter + ", --" + row.name : std::string("      --") + row.name;
    if (row.value) line += std::string(" ") + row.value;
    if (line.size() + 2 > kHelpColumn)
      line += "\n" + std::string(kHelpColumn, ' ');
    else
      line.resize(kHelpColumn, ' ');
    text += line;
    wrap(text, kHelpColumn, row.help);
  }
  return text + kFooter;
}

}  // namespace brevis::fs
