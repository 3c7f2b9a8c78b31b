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

// Where the group of this process is in the unified hierarchy.
std::string group_path() {
  const std::string text = text_of("/proc/self/cgroup");
  const size_t at = text.find("0::");
  if (at == std::string::npos || (at != 0 && text[at - 1] != '\n')) return {};
  return "/sys/fs/cgroup" + text.substr(at + 3, text.find('\n', at) - at - 3);
}

}  // namespace

MemoryState memory_state() {
  MemoryState state;
  const std::string machine = text_of("/proc/meminfo");
  constexpr uint64_t kKiB = 1024;
  if (const auto total = number_of(machine, "MemTotal:")) state.total = *total * kKiB;
  if (const auto available = number_of(machine, "MemAvailable:")) state.available = *available * kKiB;
  const std::string group = group_path();
  if (group.empty()) return state;
  const auto limit = number_of(text_of(group + "/memory.max"), "");
  const auto used = number_of(text_of(group + "/memory.current"), "");
  if (!limit || !used) return state;
  const uint64_t files = number_of(text_of(group + "/memory.stat"), "file ").value_or(0);
  const uint64_t left = *limit > *used ? *limit - *used : 0;
  state.total = std::min(state.total, *limit);
  state.available = std::min(state.available, left + files);
  return state;
}

}  // namespace brevis
