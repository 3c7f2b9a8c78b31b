// SPDX-License-Identifier: Apache-2.0
//
// brevis bench: encode and decode speed in memory beside memcpy and zstd, as a table, as JSON, as a page with plots.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "brevis/bench.h"
#include "command.h"
#include "commands.h"
#include "files.h"
#include "json_output.h"
#include "output.h"
#include "signals.h"
#include "sizes.h"

namespace brevis::tools {
namespace {

constexpr size_t kMostRows = 16;  // of programs, on a terminal

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

Json json_speed(const BenchSpeed& speed) {
  const auto rounded = [](double value) { return std::round(value * 1e4) / 1e4; };
  return {{"gb_per_s", rounded(speed.gb_per_s)},
          {"of_memcpy", rounded(speed.of_memcpy)},
          {"of_zstd3", rounded(speed.of_zstd3)}};
}

Json json_rate(const BenchRate& rate) {
  return {{"one_core", json_speed(rate.one_core)}, {"all_cores", json_speed(rate.all_cores)}};
}

Json json_ways(const std::vector<BenchWay>& ways) {
  Json out = Json::array();
  for (const BenchWay& way : ways)
    out.push_back({{"name", way.name},
                   {"packed_bytes", way.packed_bytes},
                   {"decode", json_rate(way.decode)},
                   {"encode", json_rate(way.encode)}});
  return out;
}

Json json_groups(const std::vector<BenchGroup>& groups) {
  Json out = Json::array();
  for (const BenchGroup& group : groups) {
    Json one = {{"dtype", group.dtype}};
    if (!group.program.empty()) one["program"] = group.program;
    one.update({{"streams", group.streams},
                {"frames", group.frames},
                {"bytes", group.bytes},
                {"packed_bytes", group.packed_bytes},
                {"ratio", json_ratio(group.bytes, group.packed_bytes)},
                {"ways", json_ways(group.ways)}});
    out.push_back(std::move(one));
  }
  return out;
}

void print_report_json(const BenchReport& report) {
  Json document = json_document();
  document.update({{"cpu", report.cpu},
                   {"cores", report.cores},
                   {"levels", report.levels},
                   {"zstd", report.zstd_version},
                   {"files", Json::array()}});
  for (const BenchFile& file : report.files)
    document["files"].push_back({{"path", file.path},
                                 {"kind", file.was_archive ? "archive" : "safetensors"},
                                 {"bytes", file.bytes},
                                 {"packed_bytes", file.packed_bytes},
                                 {"ratio", json_ratio(file.bytes, file.packed_bytes)},
                                 {"coded_bytes", file.coded_bytes},
                                 {"rounds", file.rounds},
                                 {"memcpy", json_rate(file.memcpy_rate)},
                                 {"ways", json_ways(file.ways)},
                                 {"dtypes", json_groups(file.dtypes)},
                                 {"groups", json_groups(file.groups)}});
  print_json(document);
}

using Lean = Table::Lean;
using Column = Table::Column;

// Titles of a direction: one core, its ratios, all cores.
void add_columns(std::vector<Column>& columns, const std::string& direction) {
  for (const std::string& title : {direction + " GB/s", std::string("/memcpy"), std::string("/zstd -3"),
                                   std::string("all cores"), std::string("/memcpy")})
    columns.push_back({title, Lean::right});
}

void add_rate(std::vector<std::string>& cells, const BenchRate& rate) {
  for (std::string& cell : std::vector<std::string>{fixed(rate.one_core.gb_per_s, 2), fixed(rate.one_core.of_memcpy, 3),
                                                    fixed(rate.one_core.of_zstd3, 2), fixed(rate.all_cores.gb_per_s, 2),
                                                    fixed(rate.all_cores.of_memcpy, 3)})
    cells.push_back(std::move(cell));
}

void print_ways(const BenchFile& file) {
  std::vector<Column> columns = {{"way"}, {"size", Lean::right}};
  add_columns(columns, "decode");
  add_columns(columns, "encode");
  Table table(columns);
  std::vector<std::string> copy = {"memcpy", percent(file.bytes, file.bytes)};
  add_rate(copy, file.memcpy_rate);
  copy.resize(columns.size());
  table.add(std::move(copy));
  for (const BenchWay& way : file.ways) {
    std::vector<std::string> cells = {way.name.rfind("zstd", 0) == 0 ? way.name : "brevis " + way.name,
                                      percent(way.packed_bytes, file.bytes)};
    add_rate(cells, way.decode);
    add_rate(cells, way.encode);
    table.add(std::move(cells));
  }
  table.print();
}

// One row a group, at the best level: the page and the JSON have the others.
void print_groups(const std::vector<BenchGroup>& groups) {
  std::vector<Column> columns = {{"dtype"}, {"bytes", Lean::right}, {"size", Lean::right}};
  add_columns(columns, "decode");
  add_columns(columns, "encode");
  const bool programs = !groups.empty() && !groups.front().program.empty();
  if (programs) columns.push_back({"program"});
  Table table(columns);
  std::vector<uint64_t> sizes;
  for (const BenchGroup& group : groups) sizes.push_back(group.bytes);
  std::sort(sizes.rbegin(), sizes.rend());
  const uint64_t least = sizes.size() > kMostRows ? sizes[kMostRows - 1] : 0;
  size_t shown = 0;
  for (const BenchGroup& group : groups) {
    if (group.ways.empty() || group.bytes < least) continue;
    std::vector<std::string> cells = {printable(group.dtype), grouped(group.bytes),
                                      percent(group.packed_bytes, group.bytes)};
    add_rate(cells, group.ways.back().decode);
    add_rate(cells, group.ways.back().encode);
    if (programs) cells.push_back(printable(group.program));
    table.add(std::move(cells));
    ++shown;
  }
  table.print();
  if (shown < groups.size()) std::printf("and %zu smaller; --json and --report have all\n", groups.size() - shown);
}

void print_report(const BenchReport& report) {
  std::printf("%s, %s; zstd %s; brevis %s\n", printable(report.cpu).c_str(), counted(report.cores, "core").c_str(),
              report.zstd_version.c_str(), report.levels.empty() ? "" : report.levels.back().c_str());
  for (const BenchFile& file : report.files) {
    std::printf("\n%s: %s -> %s bytes, ratio %s, medians of %s\n\n", printable(file.path).c_str(),
                grouped(file.bytes).c_str(), grouped(file.packed_bytes).c_str(),
                ratio_text(file.bytes, file.packed_bytes).c_str(), counted(file.rounds, "round").c_str());
    print_ways(file);
    if (file.groups.empty()) continue;
    std::printf("\nby dtype, %s\n\n", report.levels.back().c_str());
    print_groups(file.dtypes);
    std::printf("\nby program, %s\n\n", report.levels.back().c_str());
    print_groups(file.groups);
  }
}

}  // namespace

int cmd_bench(int argc, char** argv) {
  CommandLine line(
      "brevis bench", "[options] FILE...",
      "Measures how fast files encode and decode in memory, beside memcpy and zstd in the same run. A FILE "
      "is an archive or a safetensors file, which is packed first.");
  BenchOptions options;
  std::string page;
  line.app().add_option("files", options.files, "archives or safetensors files")->required();
  line.app()
      .add_option("--rounds", options.rounds, "rounds a file at least (default: 5)")
      ->check(CLI::Range(1u, 1'000'000u))
      ->type_name("N");
  line.app()
      .add_option("--seconds", options.seconds, "and at least so long a file (default: 0)")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("S");
  line.app().add_option("--report", page, "write a page with tables and plots")->type_name("HTML");
  line.add_json();
  if (const auto code = line.parse(argc, argv)) return *code;
  for (const std::string& file : options.files)
    if (const Status model = require_model(file); !model) return report(model.error(), line.json());
  catch_signals();
  options.cancelled = stop_requested;
  const auto measured = run_bench(options);
  if (!measured) return report(measured.error(), line.json());
  if (line.json()) {
    print_report_json(*measured);
  } else if (!line.quiet()) {
    print_report(*measured);
  }
  if (page.empty()) return kExitFine;
  if (const Status written = write_bench_page(*measured, page); !written) {
    report(written.error());
    return file_exit_code(written.error(), options.files.front(), page);
  }
  return kExitFine;
}

}  // namespace brevis::tools
