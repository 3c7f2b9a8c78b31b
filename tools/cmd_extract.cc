// SPDX-License-Identifier: Apache-2.0
//
// brevis extract: the original files again. A file appears whole under its name or not at all.
#include <cstdio>

#include "brevis/extract.h"
#include "command.h"
#include "commands.h"
#include "files.h"
#include "json_output.h"
#include "output.h"
#include "signals.h"
#include "sizes.h"

namespace brevis::tools {
namespace {

int report_exit_code(const ExtractReport& extracted) {
  if (signal_exit_code() != 0) return signal_exit_code();
  for (const ExtractedFile& file : extracted.files)
    if (file.error) return file_exit_code(*file.error, file.source, file.target);
  return kExitFine;
}

void print_report_json(const ExtractReport& extracted, int code) {
  Json document = json_document();
  document["files"] = Json::array();
  for (const ExtractedFile& file : extracted.files) {
    Json one = {{"source", file.source}, {"target", file.target}, {"bytes", file.bytes}};
    if (file.error) one["error"] = json_error(*file.error);
    document["files"].push_back(std::move(one));
  }
  document.update({{"bytes", extracted.bytes}, {"seconds", extracted.seconds}, {"exit_code", code}});
  print_json(document);
}

}  // namespace

int cmd_extract(int argc, char** argv) {
  CommandLine line(
      "brevis extract", "[options] SOURCE -o TARGET",
      "Writes the original files: SOURCE is an archive and TARGET a file, or SOURCE is a directory and TARGET "
      "gets its tree. Frames and tensors are always checked against their digests.");
  ExtractOptions options;
  line.app().add_option("source", options.source, "archive or directory")->required();
  line.app().add_option("-o,--output", options.target, "file or directory to write")->type_name("TARGET")->required();
  line.app().add_option("--tensor", options.tensor, "only the bytes of this tensor")->type_name("NAME");
  line.app().add_flag("--verify", options.verify, "check every file's SHA-256 too");
  line.app().add_flag("--force", options.force, "overwrite files that exist");
  line.app().add_flag("--continue-on-error", options.continue_on_error, "go on with a tree's other files");
  line.add_base_paths(options.base_paths);
  line.add_jobs(options.jobs);
  line.add_json();
  line.add_progress();
  if (const auto code = line.parse(argc, argv)) return *code;

  if (const Status archive = require_archive_or_directory(options.source); !archive)
    return report(archive.error(), line.json());
  ProgressBar bar(line.progress(), line.quiet());
  if (bar.shown())
    options.progress = [&bar](const auto& file, uint64_t done, uint64_t all) { bar.update(file, done, all); };
  options.cancelled = stop_requested;
  const auto extracted = extract(options);
  bar.clear();
  if (!extracted) return report(extracted.error(), line.json());
  uint64_t failed = 0;
  for (const ExtractedFile& file : extracted->files) {
    failed += file.error.has_value();
    if (file.error && file.error->kind() != Errc::cancelled) print_error(file.error->message());
  }
  const int code = report_exit_code(*extracted);
  if (line.json()) {
    print_report_json(*extracted, code);
  } else if (!line.quiet()) {
    std::printf("%s, %s in %.2f s, %.2f GB/s", counted(extracted->files.size() - failed, "file").c_str(),
                human_size(extracted->bytes).c_str(), extracted->seconds,
                extracted->seconds > 0 ? static_cast<double>(extracted->bytes) / 1e9 / extracted->seconds : 0.0);
    if (failed != 0)
      std::printf("; %s failed%s", grouped(failed).c_str(),
                  options.continue_on_error ? "" : "; stopped there: --continue-on-error goes on");
    std::printf("\n");
  }
  return code;
}

}  // namespace brevis::tools
