// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>

#include "options.h"

namespace brevis::fs {

namespace {

Error bad(std::string message) { return make_error(Errc::invalid_argument, std::move(message)); }

Status set_switch(bool& target, const std::string& value) {
  if (value == "true" || value == "1" || value == "yes" || value == "on") return target = true, Status{};
  if (value == "false" || value == "0" || value == "no" || value == "off") return target = false, Status{};
  return bad("takes yes or no, not '" + value + "'");
}

Status set_count(unsigned& target, const std::string& value, unsigned least, unsigned most) {
  unsigned number = 0;
  const auto [end, fault] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (fault != std::errc{} || end != value.data() + value.size() || number < least || number > most)
    return bad("takes a number from " + std::to_string(least) + " to " + std::to_string(most) + ", not '" + value +
               "'");
  target = number;
  return {};
}

// Added to those named before.
Status add_base_paths(Options& options, const std::string& value) {
  for (size_t at = 0; at <= value.size();) {
    const size_t colon = std::min(value.find(':', at), value.size());
    if (colon == at) return make_error(Errc::invalid_argument, "takes directories with a colon between them");
    options.base_paths.push_back(value.substr(at, colon - at));
    at = colon + 1;
  }
  return {};
}

Status set_text(std::string& target, const std::string& value) {
  if (value.empty()) return bad("must not be empty");
  target = value;
  return {};
}

Status set_memory(Options& o, const std::string& value) {
  BREVIS_ASSIGN(o.memory, parse_size(value));
  return {};
}

Status set_cache_dir(Options& o, const std::string& value) {
  BREVIS_TRY(set_text(o.cache_dir, value));
  o.cache_dir_said = true;
  if (value == "none") return o.cache_dir.clear(), Status{};
  // The daemon leaves the current directory.
  std::error_code failed;
  const auto absolute = std::filesystem::absolute(value, failed);
  if (failed) return bad("names '" + value + "', and the current directory cannot be found");
  o.cache_dir = absolute.string();
  return {};
}

Status set_cache_size(Options& o, const std::string& value) {
  BREVIS_ASSIGN(o.cache_size, parse_size(value));
  return {};
}

Status set_cache_mode(Options& o, const std::string& value) {
  if (value == "auto") return o.cache = CacheMode::automatic, Status{};
  if (value == "always") return o.cache = CacheMode::always, Status{};
  if (value == "off") return o.cache = CacheMode::off, Status{};
  return bad("takes auto, always or off, not '" + value + "'");
}

Status set_readahead(Options& o, const std::string& value) {
  BREVIS_ASSIGN(o.readahead, parse_size(value));
  return {};
}

Status set_verbosity(Options& o, const std::string& value, int level) {
  bool on = false;
  BREVIS_TRY(set_switch(on, value));
  if (on) o.verbosity = level;
  return {};
}

Status set_log_format(Options& o, const std::string& value) {
  if (value == "text") return o.log_format = LogFormat::text, Status{};
  if (value == "json") return o.log_format = LogFormat::json, Status{};
  return bad("takes text or json, not '" + value + "'");
}

Status set_rescan(Options& o, const std::string& value) {
  if (value == "auto") return o.rescan_seconds = kRescanAuto, Status{};
  constexpr unsigned kMostSeconds = 7 * 86400;
  if (Status set = set_count(o.rescan_seconds, value, 0, kMostSeconds); !set)
    return bad("takes auto, or a number of seconds up to a week, 0 for never; not '" + value + "'");
  return {};
}

Status set_metrics(Options& o, const std::string& value) {
  const bool is_path = value.starts_with("unix:");
  if (value != "none" && (value.find(':') == value.npos || (is_path && !value.starts_with("unix:/"))))
    return bad("takes HOST:PORT, :PORT, unix:/PATH or none, not '" + value + "'");
  return set_text(o.metrics, value);
}

Status set_control(Options& o, const std::string& value) {
  if (value != "none" && !value.starts_with('/')) return bad("takes an absolute path or none, not '" + value + "'");
  return set_text(o.control, value);
}

// Bounds that keep a slip of the finger from starving the machine; nothing else depends on them.
constexpr unsigned kMostThreads = 1024;
constexpr unsigned kMostBackground = 65535;  // 16 bits in the protocol
constexpr unsigned kMostGrace = 86400;

const std::vector<OptionRow> kTable = {
    {"source", nullptr, "DIR", "", false, [](Options& o, const std::string& v) { return set_text(o.source, v); }},
    {"mountpoint", nullptr, "DIR", "", false,
     [](Options& o, const std::string& v) { return set_text(o.mountpoint, v); }},
    {"foreground", "f", nullptr, "stay in front instead of going to the background", false,
     [](Options& o, const std::string& v) { return set_switch(o.foreground, v); }},
    {"memory", nullptr, "SIZE", "cap on decoded data kept in memory (512MiB)", false, set_memory},
    {"readahead", nullptr, "SIZE", "decode ahead of each sequential reader (16MiB); 0: not at all", false,
     set_readahead},
    {"cache-dir", nullptr, "DIR", "keep decoded data on this disk across restarts (none)", false, set_cache_dir},
    {"cache-size", nullptr, "SIZE", "of the cache on disk; at most half of what is free (20GiB)", false,
     set_cache_size},
    {"cache", nullptr, "WHEN", "auto: where it beats decoding again, as measured; always; off (auto)", false,
     set_cache_mode},
    {"jobs", nullptr, "N", "threads that wait for storage and decode (cores + 6)", false,
     [](Options& o, const std::string& v) { return set_count(o.jobs, v, 1, kMostThreads); }},
    {"loop-threads", nullptr, "N", "threads that answer the kernel (cores, at least 2)", false,
     [](Options& o, const std::string& v) { return set_count(o.loop_threads, v, 1, kMostThreads); }},
    {"max-background", nullptr, "N", "read-ahead requests the kernel may have under way (64)", false,
     [](Options& o, const std::string& v) { return set_count(o.max_background, v, 1, kMostBackground); }},
    {"show-archives", nullptr, nullptr, "list the archives, NAME.brv, beside the files they hold", false,
     [](Options& o, const std::string& v) { return set_switch(o.show_archives, v); }},
    {"base-path", nullptr, "DIR", "look for bases of archives here, too; DIR:DIR for several", false, add_base_paths},
    {"allow-other", nullptr, nullptr, "let other users in, each as far as file modes allow", false,
     [](Options& o, const std::string& v) { return set_switch(o.allow_other, v); }},
    {"grace", nullptr, "SECONDS", "after SIGTERM, serve open files for so long (10)", false,
     [](Options& o, const std::string& v) { return set_count(o.grace_seconds, v, 0, kMostGrace); }},
    {"rescan", nullptr, "SECONDS",
     "look at the whole tree again every so often; 0: never (auto: every 60 where the file system does not tell of "
     "changes, as those of a network)",
     false, set_rescan},
    {"control", nullptr, "PATH", "the control socket, or none (/run/brevis/MOUNTPOINT.sock)", false, set_control},
    {"metrics", nullptr, "ADDRESS", "serve metrics to Prometheus at HOST:PORT, :PORT or unix:/PATH", false,
     set_metrics},
    {"log-format", nullptr, "FORMAT", "text or json (text)", false, set_log_format},
    {"log-file", nullptr, "PATH", "log there; otherwise to stderr, or syslog from the background", false,
     [](Options& o, const std::string& v) { return set_text(o.log_file, v); }},
    {"quiet", "q", nullptr, "log errors only", false,
     [](Options& o, const std::string& v) { return set_verbosity(o, v, -1); }},
    {"verbose", "v", nullptr, "log more", false,
     [](Options& o, const std::string& v) { return set_verbosity(o, v, 1); }},
    {"option", "o", "LIST",
     "mount options as in fstab: noexec,noatime,allow_other ..., and any option here as NAME=VALUE", false,
     set_mount_options},
    {"config", nullptr, "FILE", "read options from a TOML file: a line NAME = VALUE each", false,
     [](Options& o, const std::string& v) { return set_text(o.config, v); }},
    {"unmount", nullptr, nullptr, "unmount the tree at MOUNTPOINT", true,
     [](Options& o, const std::string& v) { return set_switch(o.unmount, v); }},
    {"help", "h", nullptr, "show this help", true,
     [](Options& o, const std::string& v) { return set_switch(o.help, v); }},
    {"version", nullptr, nullptr, "show the version", true,
     [](Options& o, const std::string& v) { return set_switch(o.version, v); }},
};

// Words of -o that say what the mount is anyway, or that speak to mount(8) and only pass through here.
bool needs_nothing(std::string_view word) {
  static constexpr const char* kWords[] = {"ro",         "rw",       "default_permissions",
                                           "defaults",   "auto",     "noauto",
                                           "nofail",     "_netdev",  "user",
                                           "users",      "nouser",   "nousers",
                                           "owner",      "group",    "atime",
                                           "relatime",   "diratime", "async",
                                           "silent",     "loud",     "strictatime",
                                           "nolazytime", "lazytime", "subtype=brevis"};
  for (const char* w : kWords)
    if (word == w) return true;
  return word.starts_with("x-") || word.starts_with("X-") || word.starts_with("comment=");
}

// Words that the kernel is told.
bool is_kernel_option(std::string_view word) {
  static constexpr const char* kWords[] = {"dev",  "nodev",   "suid",    "nosuid",     "exec",       "noexec",
                                           "sync", "dirsync", "noatime", "nodiratime", "norelatime", "nostrictatime"};
  for (const char* w : kWords)
    if (word == w) return true;
  return word.starts_with("fsname=") && word.size() > std::strlen("fsname=");
}

Status set_mount_option(Options& options, const std::string& word) {
  if (word.empty() || needs_nothing(word)) return {};
  if (is_kernel_option(word)) return options.mount_options.push_back(word), Status{};
  if (word == "allow_root") return options.allow_root = true, Status{};
  const size_t equals = word.find('=');
  std::string name = word.substr(0, equals);
  for (char& c : name)
    if (c == '_') c = '-';
  const OptionRow* row = find_option(name);
  if (!row || row->command_only || name == "option" || name == "config") return bad("does not know '" + word + "'");
  if (!row->value && equals == std::string::npos) return row->set(options, "true");
  if (equals == std::string::npos) return bad("'" + word + "' needs a value: " + word + "=" + row->value);
  return set_option(options, *row, word.substr(equals + 1), "-o " + name);
}

}  // namespace

const std::vector<OptionRow>& option_table() { return kTable; }

const OptionRow* find_option(std::string_view name) {
  for (const OptionRow& row : kTable)
    if (row.name == name) return &row;
  return nullptr;
}

Status set_option(Options& options, const OptionRow& row, const std::string& value, std::string_view place) {
  Status status = row.set(options, value);
  if (status) return {};
  const Error& error = status.error();
  // "--memory takes ...": the message reads on from the place.
  return Error(error.kind(), std::string(place) + " " + error.message(), error.os_errno());
}

Status set_mount_options(Options& options, const std::string& list) {
  size_t start = 0;
  while (start <= list.size()) {
    size_t end = list.find(',', start);
    if (end == std::string::npos) end = list.size();
    BREVIS_TRY(set_mount_option(options, list.substr(start, end - start)));
    start = end + 1;
  }
  return {};
}

Result<uint64_t> parse_size(const std::string& text) {
  static constexpr struct {
    const char* name;
    uint64_t factor;
  } kUnits[] = {{"", 1},
                {"B", 1},
                {"KiB", uint64_t{1} << 10},
                {"MiB", uint64_t{1} << 20},
                {"GiB", uint64_t{1} << 30},
                {"TiB", uint64_t{1} << 40},
                {"K", uint64_t{1} << 10},
                {"M", uint64_t{1} << 20},
                {"G", uint64_t{1} << 30},
                {"T", uint64_t{1} << 40},
                {"KB", 1000},
                {"MB", 1000'000},
                {"GB", 1000'000'000},
                {"TB", 1000'000'000'000}};
  uint64_t number = 0;
  const char* last = text.data() + text.size();
  const auto [end, fault] = std::from_chars(text.data(), last, number);
  const Error wrong = bad("takes a size such as 512MiB, 2GiB or 65536, not '" + text + "'");
  if (fault != std::errc{}) return wrong;
  std::string_view unit(end, static_cast<size_t>(last - end));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const auto& u : kUnits) {
    if (unit.size() != std::strlen(u.name) || strncasecmp(unit.data(), u.name, unit.size()) != 0) continue;
    if (number > std::numeric_limits<uint64_t>::max() / u.factor) return wrong;
    return number * u.factor;
  }
  return wrong;
}

}  // namespace brevis::fs
