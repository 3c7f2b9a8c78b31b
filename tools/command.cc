// SPDX-License-Identifier: Apache-2.0
#include "command.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "brevis/log.h"
#include "brevis/version.h"
#include "output.h"
#include "sizes.h"

extern "C" char** environ;

namespace brevis::tools {
namespace {

constexpr size_t kColumns = 80, kHelpColumn = 26;
constexpr unsigned kMostJobs = 1024;  // a slip of the finger must not starve the machine

// Every option of every command, as a name in the environment: one command's option is no mistake in another.
constexpr std::array kKnownNames = {"ALLOW_TRUNCATED",
                                    "CONTINUE_ON_ERROR",
                                    "DIGEST",
                                    "DRY_RUN",
                                    "FOLLOW",
                                    "FORCE",
                                    "FRAME_SIZE",
                                    "JOBS",
                                    "JSON",
                                    "LENGTH",
                                    "MEMORY",
                                    "NO_VERIFY",
                                    "OFFSET",
                                    "OPAQUE_MIN",
                                    "OUTPUT",
                                    "PROGRAM",
                                    "PROGRESS",
                                    "QUICK",
                                    "QUIET",
                                    "REPORT",
                                    "ROUNDS",
                                    "SECONDS",
                                    "STRICT",
                                    "TENSOR",
                                    "VERBOSE",
                                    "VERIFY",
                                    "WATCH",
                                    "INTERVAL",
                                    "TO",
                                    "MOVE",
                                    "PROFILE",
                                    "SEARCH",
                                    "EXPANSIONS",
                                    "PRIOR",
                                    "SAVE_PRIOR",
                                    "WITHOUT",
                                    "TRACE",
                                    "BASE",
                                    "BASE_PATH",
                                    "CHAIN",
                                    "DEDUPE",
                                    "FLATTEN",
                                    "NEEDED_BY",
                                    "REBASE",
                                    "REPLACE",
                                    "RESUME",
                                    "SHARD"};
// Names that others of the house read: kernels, tests, scripts, the mount.
constexpr std::array kOtherNames = {
    "CPU",        "BUILD",     "CORPUS",       "FAULT",          "TEST_DATA",     "ACCEPT",      "SOURCE", "MOUNTPOINT",
    "FOREGROUND", "CACHE_DIR", "LOOP_THREADS", "MAX_BACKGROUND", "SHOW_ARCHIVES", "ALLOW_OTHER", "GRACE",  "LOG_FORMAT",
    "LOG_FILE",   "OPTION",    "CONFIG",       "CONTROL",        "METRICS",       "RESCAN"};

std::string environment_name(const std::string& long_name) {
  std::string name = "BREVIS_";
  for (const char c : long_name)
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

// "-j, --jobs N" of an option.
std::string option_names(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) names += "-" + name + ", ";
  for (const std::string& name : option.get_lnames()) names += "--" + name + ", ";
  names.resize(names.size() - 2);
  if (option.get_snames().empty()) names = "    " + names;
  if (const std::string value = option.get_type_name(); !value.empty() && option.get_items_expected_max() > 0)
    names += " " + value;
  return names;
}

}  // namespace

std::string wrapped(const std::string& text, size_t width, size_t indent) {
  std::string out;
  size_t column = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (column != 0 && column + 1 + (end - at) > width) {
      out += "\n" + std::string(indent, ' ');
      column = 0;
    } else if (column != 0) {
      out += ' ';
      ++column;
    }
    out.append(text, at, end - at);
    column += end - at;
    at = end + 1;
  }
  return out;
}

CommandLine::CommandLine(std::string program, std::string usage, std::string summary)
    : app_(summary, program), usage_(std::move(usage)), summary_(std::move(summary)) {
  app_.set_help_flag();
  app_.allow_windows_style_options(false);
  app_.option_defaults()->always_capture_default(false);
  app_.add_flag("-q,--quiet", quiet_, "errors only");
  app_.add_flag("-v,--verbose", verbose_, "say more; twice: everything");
  app_.add_flag("-h,--help", help_, "show this help");
  app_.add_flag("--version", version_, "show the version");
}

CLI::Option* CommandLine::add_size(const std::string& names, uint64_t& target, const std::string& help) {
  return app_
      .add_option_function<std::string>(
          names,
          [&target](const std::string& text) {
            const auto size = parse_size(text);
            if (!size) throw CLI::ValidationError(size.error().message());
            target = *size;
          },
          help)
      ->type_name("SIZE");
}

void CommandLine::add_base_paths(std::vector<std::string>& paths) {
  app_.add_option("--base-path", paths, "look for bases of archives in this directory, too; may be given again")
      ->type_name("DIR")
      ->allow_extra_args(false);
}

void CommandLine::add_jobs(unsigned& target) {
  app_.add_option_function<unsigned>(
          "-j,--jobs",
          [&target](unsigned jobs) {
            if (jobs < 1 || jobs > kMostJobs)
              throw CLI::ValidationError("--jobs takes a number from 1 to " + std::to_string(kMostJobs));
            target = jobs;
          },
          "workers (default: one for each core)")
      ->type_name("N");
}

void CommandLine::add_json() { app_.add_flag("--json", json_, "one JSON object on standard output"); }

void CommandLine::add_progress() {
  const std::map<std::string, ProgressMode> modes = {
      {"auto", ProgressMode::automatic}, {"always", ProgressMode::always}, {"never", ProgressMode::never}};
  app_.add_option_function<std::string>(
          "--progress",
          [this, modes](const std::string& text) {
            const auto mode = modes.find(text);
            if (mode == modes.end())
              throw CLI::ValidationError("--progress takes auto, always or never, not '" + text + "'");
            progress_ = mode->second;
          },
          "auto, always or never (auto: on a terminal)")
      ->type_name("WHEN");
}

std::string CommandLine::help_text() const {
  std::string text = "usage: " + app_.get_name() + " " + wrapped(usage_, kColumns - 20, 10) + "\n\n";
  text += wrapped(summary_, kColumns - 1, 0) + "\n\noptions:\n";
  for (const CLI::Option* option : app_.get_options()) {
    if (option->get_positional()) continue;
    std::string line = "  " + option_names(*option);
    if (line.size() + 2 > kHelpColumn)
      line += "\n" + std::string(kHelpColumn, ' ');
    else
      line.resize(kHelpColumn, ' ');
    text += line + wrapped(option->get_description(), kColumns - kHelpColumn, kHelpColumn) + "\n";
  }
  return text;
}

std::optional<int> CommandLine::parse(int argc, char** argv) {
  for (CLI::Option* option : app_.get_options()) {
    if (option->get_lnames().empty() || option->get_lnames()[0] == "help" || option->get_lnames()[0] == "version")
      continue;
    option->envname(environment_name(option->get_lnames()[0]));
  }
  // Asked for help, the rest of the line need not make sense; "--" ends the options.
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view word = argv[i];
    if (word == "--help" || word == "-h") return std::fputs(help_text().c_str(), stdout), kExitFine;
    if (word == "--version") return std::printf("%s %s\n", app_.get_name().c_str(), BREVIS_VERSION), kExitFine;
  }
  try {
    app_.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    print_error(std::string(error.what()) + " (see " + app_.get_name() + " --help)");
    return kExitUsage;
  }
  install_log_sink(verbosity());
  warn_of_unknown_environment();
  return std::nullopt;
}

void warn_of_unknown_environment() {
  const auto known = [](std::string_view name) {
    return std::find(kKnownNames.begin(), kKnownNames.end(), name) != kKnownNames.end() ||
           std::find(kOtherNames.begin(), kOtherNames.end(), name) != kOtherNames.end();
  };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with("BREVIS_")) continue;
    const std::string_view name = text.substr(7, text.find('=') - 7);
    if (!known(name)) log(LogLevel::info, "BREVIS_" + std::string(name) + " in the environment is no option, ignored");
  }
}

}  // namespace brevis::tools
