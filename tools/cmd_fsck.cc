// SPDX-License-Identifier: Apache-2.0
//
// brevis fsck (verify): is every byte of these archives what was packed? Exit 1 when not.
#include <cstdio>

#include "brevis/check.h"
#include "command.h"
#include "commands.h"
#include "json_output.h"
#include "output.h"
#include "signals.h"
#include "sizes.h"

namespace brevis::tools {
namespace {

constexpr const char* kSeverities[] = {"note", "warning", "damage", "unread"};
constexpr int kExitPermission = 77;

void print_finding(const Finding& finding) {
  std::string line = kSeverities[static_cast<size_t>(finding.severity)];
  line += ": ";
  if (!finding.message.starts_with(finding.file)) line += finding.file + ": ";
  if (!finding.tensor.empty()) line += "tensor '" + finding.tensor + "': ";
  line += finding.message;
  if (finding.offset != 0) line += " (archive byte " + std::to_string(finding.offset) + ")";
  std::printf("%s\n", printable(line).c_str());
}

std::string verdict(uint64_t damage, uint64_t unread, bool stopped) {
  std::string text = damage == 0 ? "no damage" : counted(damage, "fault");
  if (unread != 0) text += ", " + grouped(unread) + " not readable by this user";
  return stopped ? text + " so far, stopped early" : text;
}

void print_report_json(const CheckReport& report, int exit_code) {
  Json document = json_document();
  document.update({{"clean", report.clean()},
                   {"stopped", report.stopped},
                   {"archives", report.archives},
                   {"tensors", report.tensors},
                   {"frames", report.frames},
                   {"bytes", report.bytes}});
  document["findings"] = Json::array();
  for (const Finding& finding : report.findings) {
    Json one = {{"severity", kSeverities[static_cast<size_t>(finding.severity)]}, {"file", finding.file}};
    if (!finding.tensor.empty()) one["tensor"] = finding.tensor;
    one["offset"] = finding.offset;
    one["message"] = finding.message;
    document["findings"].push_back(std::move(one));
  }
  document["exit_code"] = exit_code;
  print_json(document);
}

}  // namespace

int cmd_fsck(int argc, char** argv) {
  CommandLine line(
      "brevis fsck", "[options] PATH...",
      "Checks archives and trees of archives: every checksum, every digest, every frame decoded. Trees: also "
      "model.safetensors.index.json against its shards. Exit 1 when damage is found, 77 when this user may not read "
      "something. Also called verify.");
  CheckOptions options;
  line.app().add_option("path", options.paths, "archives or directories")->required();
  line.app().add_flag("--quick", options.quick, "headers, indexes and frame checksums; decode nothing");
  line.app().add_option("--tensor", options.tensor, "only this tensor (and its bundle)")->type_name("NAME");
  line.add_base_paths(options.base_paths);
  line.add_jobs(options.jobs);
  line.add_json();
  line.add_progress();
  if (const auto code = line.parse(argc, argv)) return *code;

  ProgressBar bar(line.progress(), line.quiet());
  if (bar.shown())
    options.progress = [&bar](const auto& file, uint64_t done, uint64_t all) { bar.update(file, done, all); };
  options.cancelled = stop_requested;
  const auto checked = check(options);
  bar.clear();
  if (!checked) return report(checked.error(), line.json());
  int code = checked->has(Severity::damage)   ? kExitDifferent
             : checked->has(Severity::unread) ? kExitPermission
                                              : kExitFine;
  if (checked->stopped && stop_requested()) code = signal_exit_code();
  if (line.json()) {
    print_report_json(*checked, code);
    return code;
  }
  uint64_t damage = 0, unread = 0;
  for (const Finding& finding : checked->findings) {
    damage += finding.severity == Severity::damage;
    unread += finding.severity == Severity::unread;
    if (!line.quiet() || finding.severity >= Severity::damage) print_finding(finding);
  }
  if (!line.quiet()) {
    std::printf("%s, %s, %s, %s: %s\n", counted(checked->archives, "archive").c_str(),
                counted(checked->tensors, "tensor").c_str(), counted(checked->frames, "frame").c_str(),
                human_size(checked->bytes).c_str(), verdict(damage, unread, checked->stopped).c_str());
  }
  return code;
}

}  // namespace brevis::tools
