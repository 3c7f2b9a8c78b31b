// SPDX-License-Identifier: Apache-2.0
//
// brevis stats: the live counters of a mount's daemon, once or again and again.
#include <chrono>
#include <cstdio>
#include <thread>

#include "command.h"
#include "commands.h"
#include "daemon.h"
#include "output.h"
#include "signals.h"
#include "sizes.h"

namespace brevis::tools {
namespace {

using std::chrono::milliseconds;

constexpr unsigned kMostSeconds = 86400;

uint64_t number(const Json& json, const char* name) {
  const auto at = json.find(name);
  return at != json.end() && at->is_number_unsigned() ? at->get<uint64_t>() : 0;
}

std::string text(const Json& json, const char* name) {
  const auto at = json.find(name);
  return at != json.end() && at->is_string() ? printable(at->get<std::string>()) : std::string("?");
}

const Json& group(const Json& json, const char* name) {
  static const Json kEmpty = Json::object();
  const auto at = json.find(name);
  return at != json.end() && at->is_object() ? *at : kEmpty;
}

std::string duration_text(uint64_t seconds) {
  char out[48];
  std::snprintf(out, sizeof out, "%llu:%02llu:%02llu", static_cast<unsigned long long>(seconds / 3600),
                static_cast<unsigned long long>(seconds / 60 % 60), static_cast<unsigned long long>(seconds % 60));
  return out;
}

std::string decimal(double value, int digits) {
  char out[48];
  std::snprintf(out, sizeof out, "%.*f", digits, value);
  return out;
}

void print_counters(const Json& now, const Json* before, double seconds) {
  using enum Table::Lean;
  std::vector<Table::Column> columns = {{"COUNTER"}, {"NOW", right}, {""}};
  if (before) columns.push_back({"PER SECOND", right});
  Table table(columns);
  const Json& counters = group(now, "counters");
  for (const auto& [name, value] : counters.items()) {
    if (!value.is_number_unsigned()) continue;
    const auto count = value.get<uint64_t>();
    const bool size = name.ends_with("bytes") || name.starts_with("bytes");
    std::vector<std::string> cells = {printable(name), grouped(count), size ? human_size(count) : ""};
    if (before) {
      const uint64_t then = number(group(*before, "counters"), name.c_str());
      const double rate = seconds > 0 ? (static_cast<double>(count) - static_cast<double>(then)) / seconds : 0;
      const std::string shown =
          size && rate >= 0 ? human_size(static_cast<uint64_t>(rate)) : decimal(rate, rate < 10 && rate > -10 ? 1 : 0);
      cells.push_back(count == then ? "" : shown);
    }
    table.add(std::move(cells));
  }
  table.print();
}

void print_requests(const Json& now) {
  using enum Table::Lean;
  Table table({{"REQUEST"}, {"COUNT", right}, {"MEAN MS", right}, {"HALF BELOW", right}, {"99% BELOW", right}});
  size_t rows = 0;
  for (const auto& [name, value] : group(now, "requests").items()) {
    if (!value.is_object() || number(value, "count") == 0) continue;
    const auto ms = [&value = value](const char* field) {
      const auto at = value.find(field);
      return at != value.end() && at->is_number() ? decimal(at->get<double>(), 3) : std::string("?");
    };
    table.add(
        {printable(name), grouped(number(value, "count")), ms("mean_ms"), ms("p50_below_ms"), ms("p99_below_ms")});
    ++rows;
  }
  if (rows > 0) {
    std::printf("\n");
    table.print();
  }
}

void print_stats(const Json& now, const Json* before, double seconds) {
  std::printf("mount   %s\nsource  %s\n", text(now, "mountpoint").c_str(), text(now, "source").c_str());
  std::printf("daemon  brevis-mount %s, pid %s, up %s, memory cap %s\n", text(now, "version").c_str(),
              std::to_string(number(now, "pid")).c_str(), duration_text(number(now, "uptime_seconds")).c_str(),
              human_size(number(now, "memory")).c_str());
  const bool told = now.value("tree_events", false);
  std::printf("tree    %s\n", told ? "the file system tells of changes" : "changes are found by looking again");
  if (const uint64_t damaged = number(group(now, "counters"), "damaged_frames"); damaged > 0)
    std::printf("DAMAGE  %s could not be served: see the log, then brevis fsck\n", counted(damaged, "frame").c_str());
  std::printf("\n");
  print_counters(now, before, seconds);
  print_requests(now);
}

// False when a signal came first.
bool wait(double seconds) {
  constexpr milliseconds kLook{50};
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (stop_requested()) return false;
    std::this_thread::sleep_for(kLook);
  }
  return !stop_requested();
}

Result<int> show(ControlClient& client, bool watch, double interval, bool json) {
  std::optional<Json> before;
  auto then = std::chrono::steady_clock::now();
  for (;;) {
    BREVIS_ASSIGN(DaemonAnswer answer, ask_daemon(client, {{"command", "stats"}}));
    if (answer.error) return std::move(*answer.error);
    const auto now = std::chrono::steady_clock::now();
    if (json) {
      print_json(answer.json);
    } else {
      if (watch && stdout_has_color()) std::printf("\033[H\033[2J");
      print_stats(answer.json, before ? &*before : nullptr, std::chrono::duration<double>(now - then).count());
      if (watch && !stdout_has_color()) std::printf("\n");
    }
    if (!watch) return kExitFine;
    if (std::fflush(stdout) != 0) return kExitFine;  // finish_output() says why
    before = std::move(answer.json);
    then = now;
    if (!wait(interval)) return signal_exit_code();
  }
}

}  // namespace

int cmd_stats(int argc, char** argv) {
  CommandLine line(
      "brevis stats", "[options] MOUNT",
      "Shows what the daemon of a mount has done so far: reads, frames decoded and found in memory, damage, "
      "changes of the tree, how long requests took. For the user who mounted, and root.");
  std::string mount;
  bool watch = false;
  double interval = 2;
  line.app().add_option("mount", mount, "the mount, anything in it, or its control socket")->required();
  line.app().add_flag("--watch", watch, "go on until interrupted, with rates");
  line.app()
      .add_option_function<double>(
          "--interval",
          [&interval](double seconds) {
            if (!(seconds >= 0.1 && seconds <= kMostSeconds))
              throw CLI::ValidationError("--interval takes seconds from 0.1 to " + std::to_string(kMostSeconds));
            interval = seconds;
          },
          "with --watch: seconds between two looks (2)")
      ->type_name("SECONDS");
  line.add_json();
  if (const auto code = line.parse(argc, argv)) return *code;
  auto client = ControlClient::connect(mount, stop_requested);
  if (!client) return report(client.error(), line.json());
  const auto shown = show(*client, watch, interval, line.json());
  return shown ? *shown : report(shown.error(), line.json());
}

}  // namespace brevis::tools
