// SPDX-License-Identifier: Apache-2.0
//
// brevis warm: files of a mount into the kernel's memory, before somebody waits for them.
#include <cstdio>
#include <filesystem>

#include "brevis/warm.h"
#include "command.h"
#include "commands.h"
#include "json_output.h"
#include "output.h"
#include "signals.h"
#include "sizes.h"

namespace brevis::tools {

int cmd_warm(int argc, char** argv) {
  CommandLine line(
      "brevis warm", "[options] PATH [FILE...]",
      "Reads the files below PATH (or only each FILE in it) through their mount, on all cores, so that the "
      "kernel has them decoded in memory when a program comes.");
  WarmOptions options;
  std::string path;
  std::vector<std::string> files;
  line.app().add_option("path", path, "a mount, a directory in it, or a file")->required();
  line.app().add_option("file", files, "only these, below PATH");
  line.add_jobs(options.jobs);
  line.add_json();
  line.add_progress();
  if (const auto code = line.parse(argc, argv)) return *code;
  if (files.empty()) options.paths.push_back(path);
  for (const std::string& file : files) options.paths.push_back((std::filesystem::path(path) / file).string());

  ProgressBar bar(line.progress(), line.quiet());
  if (bar.shown())
    options.progress = [&bar](const auto& file, uint64_t done, uint64_t all) { bar.update(file, done, all); };
  options.cancelled = stop_requested;
  const auto done = warm(options);
  bar.clear();
  if (!done) return report(done.error(), line.json());
  if (done->available_bytes != 0 && done->bytes > done->available_bytes)
    print_warning("more than the " + human_size(done->available_bytes) +
                  " of memory that were free: some of it has been dropped again");
  if (line.json()) {
    Json document = json_document();
    document.update({{"files", done->files}, {"bytes", done->bytes}, {"seconds", done->seconds}});
    print_json(document);
  } else if (!line.quiet()) {
    const double speed = done->seconds > 0 ? static_cast<double>(done->bytes) / 1e9 / done->seconds : 0;
    std::printf("%s, %s bytes, %.3f GB/s\n", counted(done->files, "file").c_str(), grouped(done->bytes).c_str(), speed);
  }
  return kExitFine;
}

}  // namespace brevis::tools
