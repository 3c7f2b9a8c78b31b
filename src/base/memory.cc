// SPDX-License-Identifier: Apache-2.0
#include "base/memory.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "base/io.h"

namespace brevis {
namespace {

constexpr uint64_t kMaxText = uint64_t{1} << 16;

// Files of the kernel say a size of 0: read until they end.
std::string text_of(const std::string& path) {
  const auto file = File::open(path);
  if (!file) return {};
  ByteVector bytes(kMaxText);
  const auto got = file->read_some(0, bytes);
  return got ? std::string(reinterpret_cast<const char*>(bytes.data()), *got) : std::string();
}

// The number after `name` in a text of lines.
std::optional<uint64_t> number_of(std::string_view text, std::string_view name) {
  size_t at = 0;
  while ((at = text.find(name, at)) != std::string_view::npos && at != 0 && text[at - 1] != '\n') at += name.size();
  if (at == std::string_view::npos) return std::nullopt;
  at += name.size();
  while (at < text.size() && text[at] == ' ') ++at;
  uint64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data() + at, text.data() + text.size(), value);
  if (fault != std::errc{}) return std::nullopt;
  return value;
}

// What a kind of control groups calls its files.
struct GroupKind {
  const char* mark;   // of its line in /proc/self/cgroup, before the path
  const char* below;  // /sys/fs/cgroup
  const char *limit, *used;
  const char *idle_files, *busy_files;  // in memory.stat
};
constexpr GroupKind kKinds[] = {
    {"0::", "", "memory.max", "memory.current", "inactive_file ", "active_file "},
    {":memory:", "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ",
     "total_active_file "},
};

// The path of this process's group of a kind.
std::optional<std::string> group_path(std::string_view groups, const GroupKind& kind) {
  while (!groups.empty()) {
    const std::string_view line = groups.substr(0, groups.find('\n'));
    groups.remove_prefix(std::min(groups.size(), line.size() + 1));
    const std::string_view mark = kind.mark;
    const size_t at = mark.front() == ':' ? line.find(mark) : line.starts_with(mark) ? 0 : line.npos;
    if (at != line.npos) return std::string(line.substr(at + mark.size()));
  }
  return std::nullopt;
}

void apply_limit(const std::string& group, const GroupKind& kind, MemoryState& state) {
  const auto limit = number_of(text_of(group + "/" + kind.limit), "");
  const auto used = number_of(text_of(group + "/" + kind.used), "");
  if (!limit || !used) return;
  const std::string stat = text_of(group + "/memory.stat");
  const uint64_t files = number_of(stat, kind.idle_files).value_or(0) + number_of(stat, kind.busy_files).value_or(0);
  const uint64_t left = *limit > *used ? *limit - *used : 0;
  state.total = std::min(state.total, *limit);
  state.available = std::min(state.available, left + files);
}

}  // namespace

MemoryState memory_state(const std::string& root) {
  MemoryState state;
  const std::string machine = text_of(root + "/proc/meminfo");
  constexpr uint64_t kKiB = 1024;
  if (const auto total = number_of(machine, "MemTotal:")) state.total = *total * kKiB;
  if (const auto available = number_of(machine, "MemAvailable:")) state.available = *available * kKiB;
  const std::string groups = text_of(root + "/proc/self/cgroup");
  for (const GroupKind& kind : kKinds) {
    auto path = group_path(groups, kind);
    if (!path) continue;
    // A limit of a group above holds for all below it. In a container the path may not exist, and the top is its own.
    const std::string top = root + "/sys/fs/cgroup" + kind.below;
    for (std::string at = *path == "/" ? "" : *path;; at.erase(at.rfind('/'))) {
      apply_limit(top + at, kind, state);
      if (at.find('/') == at.npos) break;
    }
  }
  return state;
}

}  // namespace brevis
