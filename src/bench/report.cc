// SPDX-License-Identifier: Apache-2.0
//
// The page of a benchmark: tables, and plots drawn as SVG in the page itself. No script, no font, no picture from
// anywhere. Text that comes from files is escaped.
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "brevis/bench.h"

namespace brevis {
namespace {

constexpr const char* kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#222;background:#fff}"
    "h1{font-size:1.5em}h2{font-size:1.2em;margin-top:2.5em;overflow-wrap:anywhere}h3{font-size:1em;margin-bottom:.3em}"
    "table{border-collapse:collapse;font-size:13px}td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid "
    "#ddd}"
    "th{font-weight:600;vertical-align:bottom}td:first-child,th:first-child,td.t,th.t{text-align:left}"
    "td.t{font-family:ui-monospace,monospace;font-size:12px}.s{overflow-x:auto}.n{color:#666;font-size:13px}"
    "svg{display:block;max-width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:#222}"
    ".a{fill:#1f6f8b}.b{fill:#99c4d1}.z{fill:#c77d2e}.m{fill:#888}.g{stroke:#ddd}";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

std::string number(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string percent_of(uint64_t part, uint64_t whole) {
  return whole == 0 ? "-" : number(100.0 * static_cast<double>(part) / static_cast<double>(whole), 1) + " %";
}

bool is_zstd(const BenchWay& way) { return way.name.rfind("zstd", 0) == 0; }
std::string title_of(const BenchWay& way) { return is_zstd(way) ? way.name : "brevis " + way.name; }

struct Bar {
  std::string label;
  double one, all;   // GB/s
  const char* kind;  // class of the bar of one core
};

// Two bars a row: one core, and all cores behind it in a lighter colour.
std::string bar_chart(const std::vector<Bar>& bars) {
  constexpr int kLeft = 170, kWidth = 560, kRow = 34;
  double most = 1e-9;
  for (const Bar& bar : bars) most = std::max({most, bar.one, bar.all});
  std::string out = "<svg viewBox=\"0 0 860 " + std::to_string(kRow * static_cast<int>(bars.size()) + 8) +
                    "\" width=\"860\" role=\"img\">";
  int y = 4;
  for (const Bar& bar : bars) {
    const auto draw = [&](double value, int top, const char* kind) {
      const double width = kWidth * value / most;
      out += "<rect class=\"" + std::string(kind) + "\" x=\"" + std::to_string(kLeft) + "\" y=\"" +
             std::to_string(top) + "\" width=\"" + number(std::max(width, 1.0), 1) + "\" height=\"12\"/>";
      out += "<text x=\"" + number(kLeft + width + 6, 1) + "\" y=\"" + std::to_string(top + 10) + "\">" +
             number(value, 2) + "</text>";
    };
    out += "<text x=\"" + std::to_string(kLeft - 8) + "\" y=\"" + std::to_string(y + 18) + "\" text-anchor=\"end\">" +
           escaped(bar.label) + "</text>";
    draw(bar.one, y, bar.kind);
    draw(bar.all, y + 14, "b");
    y += kRow;
  }
  return out + "</svg>\n";
}

// Size against decode speed on one core, the latter on a scale of powers of ten.
std::string scatter(const BenchFile& file) {
  constexpr double kLeft = 60, kTop = 12, kWidth = 720, kHeight = 260;
  double low = 1e9, high = 1e-9, small = 1, large = 0;
  const auto size_of = [&](const BenchWay& way) {
    return file.bytes == 0 ? 0 : static_cast<double>(way.packed_bytes) / static_cast<double>(file.bytes);
  };
  for (const BenchWay& way : file.ways) {
    const double speed = std::max(way.decode.one_core.gb_per_s, 1e-3);
    low = std::min(low, speed), high = std::max(high, speed);
    small = std::min(small, size_of(way)), large = std::max(large, size_of(way));
  }
  if (file.ways.empty()) return {};
  const double first = std::floor(std::log10(low)), last = std::max(std::ceil(std::log10(high)), first + 1);
  const double margin = std::max(0.02, (large - small) * 0.15);
  small = std::max(0.0, small - margin), large += margin;
  const auto x_of = [&](double speed) { return kLeft + kWidth * (std::log10(speed) - first) / (last - first); };
  const auto y_of = [&](double size) { return kTop + kHeight * (large - size) / (large - small); };
  std::string out = "<svg viewBox=\"0 0 860 320\" width=\"860\" role=\"img\">";
  for (double power = first; power <= last; ++power) {
    const std::string x = number(x_of(std::pow(10, power)), 1);
    out += "<line class=\"g\" x1=\"" + x + "\" x2=\"" + x + "\" y1=\"" + number(kTop, 0) + "\" y2=\"" +
           number(kTop + kHeight, 0) + "\"/><text text-anchor=\"middle\" x=\"" + x + "\" y=\"290\">" +
           number(std::pow(10, power), power < 0 ? static_cast<int>(-power) : 0) + " GB/s</text>";
  }
  for (int i = 0; i <= 4; ++i) {
    const double size = small + (large - small) * i / 4;
    const std::string y = number(y_of(size), 1);
    out += "<line class=\"g\" x1=\"60\" x2=\"780\" y1=\"" + y + "\" y2=\"" + y +
           "\"/><text text-anchor=\"end\" x=\"52\" y=\"" + y + "\">" + number(100 * size, 1) + "%</text>";
  }
  for (const BenchWay& way : file.ways) {
    const double x = x_of(std::max(way.decode.one_core.gb_per_s, 1e-3)), y = y_of(size_of(way));
    out += "<circle class=\"" + std::string(is_zstd(way) ? "z" : "a") + "\" r=\"6\" cx=\"" + number(x, 1) + "\" cy=\"" +
           number(y, 1) + "\"/><text x=\"" + number(x + 9, 1) + "\" y=\"" + number(y - 7, 1) + "\">" +
           escaped(title_of(way)) + "</text>";
  }
  return out + "</svg>\n";
}

std::vector<Bar> bars_of(const BenchFile& file, BenchRate BenchWay::*direction, bool with_memcpy) {
  std::vector<Bar> bars;
  if (with_memcpy)
    bars.push_back({"memcpy", file.memcpy_rate.one_core.gb_per_s, file.memcpy_rate.all_cores.gb_per_s, "m"});
  for (const BenchWay& way : file.ways)
    bars.push_back({title_of(way), (way.*direction).one_core.gb_per_s, (way.*direction).all_cores.gb_per_s,
                    is_zstd(way) ? "z" : "a"});
  return bars;
}

constexpr const char* kRateTitles =
    "<th>decode GB/s</th><th>of memcpy</th><th>of zstd -3</th><th>all cores</th><th>of memcpy</th>"
    "<th>encode GB/s</th><th>of memcpy</th><th>of zstd -3</th><th>all cores</th><th>of memcpy</th>";

std::string rate_cells(const BenchRate& rate) {
  return "<td>" + number(rate.one_core.gb_per_s, 2) + "</td><td>" + number(rate.one_core.of_memcpy, 3) + "</td><td>" +
         number(rate.one_core.of_zstd3, 2) + "</td><td>" + number(rate.all_cores.gb_per_s, 2) + "</td><td>" +
         number(rate.all_cores.of_memcpy, 3) + "</td>";
}

std::string ways_table(const BenchFile& file) {
  std::string out = "<div class=\"s\"><table><tr><th>way</th><th>size</th>" + std::string(kRateTitles) + "</tr>\n";
  out += "<tr><td>memcpy</td><td>100.0 %</td>" + rate_cells(file.memcpy_rate) +
         "<td></td><td></td><td></td><td></td><td></td></tr>\n";
  for (const BenchWay& way : file.ways)
    out += "<tr><td>" + escaped(title_of(way)) + "</td><td>" + percent_of(way.packed_bytes, file.bytes) + "</td>" +
           rate_cells(way.decode) + rate_cells(way.encode) + "</tr>\n";
  return out + "</table></div>\n";
}

std::string groups_table(const std::vector<BenchGroup>& groups) {
  std::string out =
      "<div class=\"s\"><table><tr><th>dtype</th><th>streams</th><th>bytes</th><th>size</th><th>level</th>" +
      std::string(kRateTitles) + "<th class=\"t\">program</th></tr>\n";
  for (const BenchGroup& group : groups)
    for (const BenchWay& way : group.ways)
      out += "<tr><td>" + escaped(group.dtype) + "</td><td>" + std::to_string(group.streams) + "</td><td>" +
             std::to_string(group.bytes) + "</td><td>" + percent_of(group.packed_bytes, group.bytes) + "</td><td>" +
             escaped(way.name) + "</td>" + rate_cells(way.decode) + rate_cells(way.encode) + "<td class=\"t\">" +
             escaped(group.program) + "</td></tr>\n";
  return out + "</table></div>\n";
}

std::string file_section(const BenchFile& file) {
  std::string out = "<h2>" + escaped(file.path) + "</h2>\n<p>" + std::to_string(file.bytes) + " bytes as " +
                    std::to_string(file.packed_bytes) + ", " + percent_of(file.packed_bytes, file.bytes) +
                    "; medians of " + std::to_string(file.rounds) + " rounds.</p>\n" + ways_table(file);
  out += "<h3>Size and decode speed on one core</h3>\n" + scatter(file);
  out += "<h3>Decoding, GB/s: one core, and all (light)</h3>\n" + bar_chart(bars_of(file, &BenchWay::decode, true));
  out += "<h3>Encoding, GB/s: one core, and all (light)</h3>\n" + bar_chart(bars_of(file, &BenchWay::encode, false));
  if (file.groups.empty()) return out;
  std::vector<Bar> bars;
  for (const BenchGroup& group : file.dtypes)
    for (const BenchWay& way : group.ways)
      bars.push_back({group.dtype + ", " + way.name, way.decode.one_core.gb_per_s, way.decode.all_cores.gb_per_s, "a"});
  out += "<h3>Decoding by dtype, GB/s</h3>\n" + bar_chart(bars);
  return out + "<h3>By dtype and program</h3>\n" + groups_table(file.groups);
}

std::string page_of(const BenchReport& report) {
  std::string levels;
  for (const std::string& level : report.levels) levels += (levels.empty() ? "" : ", ") + level;
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width\"><title>brevis bench</title><style>" +
      std::string(kStyle) + "</style></head><body>\n<h1>brevis bench</h1>\n<p>" + escaped(report.cpu) + ", " +
      std::to_string(report.cores) + " cores; kernels " + escaped(levels) + "; zstd " + escaped(report.zstd_version) +
      ".</p>\n";
  out +=
      "<p class=\"n\">All of it in memory and in one process, everything taking turns in rounds. Ratios are taken "
      "within a round and hold on other machines better than GB/s do. One core: CPU time of a pinned thread. All "
      "cores: by the clock. Decoding includes the checksum of every frame.</p>\n";
  for (const BenchFile& file : report.files) out += file_section(file);
  return out + "</body></html>\n";
}

}  // namespace

// Not by rename: what `path` names may be a terminal or a pipe.
Status write_bench_page(const BenchReport& report, const std::string& path) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const std::string page = page_of(report);
  file.write(page.data(), static_cast<std::streamsize>(page.size()));
  file.close();
  if (!file) return Error::from_errno(errno != 0 ? errno : EIO, "writing '" + path + "'");
  return {};
}

}  // namespace brevis
