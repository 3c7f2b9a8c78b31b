// SPDX-License-Identifier: Apache-2.0
#include "sizes.h"

#include <strings.h>

#include <charconv>
#include <cstdio>
#include <cstring>

namespace brevis::tools {

Result<uint64_t> parse_size(const std::string& text) {
  constexpr struct {
    const char* name;
    uint64_t factor;
  } kUnits[] = {
      {"", 1},
      {"B", 1},
      {"K", uint64_t{1} << 10},
      {"M", uint64_t{1} << 20},
      {"G", uint64_t{1} << 30},
      {"T", uint64_t{1} << 40},
      {"KiB", uint64_t{1} << 10},
      {"MiB", uint64_t{1} << 20},
      {"GiB", uint64_t{1} << 30},
      {"TiB", uint64_t{1} << 40},
      {"KB", 1'000},
      {"MB", 1'000'000},
      {"GB", 1'000'000'000},
      {"TB", 1'000'000'000'000},
  };
  const Error wrong =
      make_error(Errc::invalid_argument, "'" + text + "' is no size; write 65536, 512KiB, 2GiB, 4GB ...");
  uint64_t number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, fault] = std::from_chars(text.data(), last, number);
  if (fault != std::errc()) return wrong;
  const char* unit = end;
  while (unit != last && *unit == ' ') ++unit;
  for (const auto& known : kUnits) {
    if (strcasecmp(unit, known.name) != 0 || std::strlen(unit) != static_cast<size_t>(last - unit)) continue;
    if (__builtin_mul_overflow(number, known.factor, &number)) return wrong;
    return number;
  }
  return wrong;
}

std::string human_size(uint64_t bytes) {
  if (bytes < 1000) return std::to_string(bytes) + " B";
  constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (value /= 1000; value >= 999.5 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  char text[32];
  std::snprintf(text, sizeof text,
                value < 9.95   ? "%.2f %s"
                : value < 99.5 ? "%.1f %s"
                               : "%.0f %s",
                value, kUnits[unit]);
  return text;
}

std::string grouped(uint64_t number) {
  std::string digits = std::to_string(number);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string counted(uint64_t number, const std::string& noun) {
  return grouped(number) + " " + noun + (number == 1 ? "" : "s");
}

std::string percent(uint64_t part, uint64_t whole) {
  if (whole == 0) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f%%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return text;
}

std::string ratio_text(uint64_t original, uint64_t packed) {
  if (packed == 0 || original == 0) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", static_cast<double>(original) / static_cast<double>(packed));
  return text;
}

}  // namespace brevis::tools
