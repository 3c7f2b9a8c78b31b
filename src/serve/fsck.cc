// SPDX-License-Identifier: Apache-2.0
#include "serve/fsck.h"

#include <fcntl.h>

#include <algorithm>
#include <tuple>

#include "archive/reader.h"
#include "base/io.h"
#include "serve/archive_names.h"

namespace brevis {

bool CheckReport::has(Severity severity) const {
  return std::any_of(findings.begin(), findings.end(),
                     [&](const Finding& finding) { return finding.severity == severity; });
}

namespace serve {

void FsckContext::add(Severity severity, std::string file, std::string message, std::string tensor, uint64_t offset) {
  // Errors name their file, since they travel alone; a finding has it beside the message.
  if (message.starts_with(file + ": ")) message.erase(0, file.size() + 2);
  report.findings.push_back({severity, std::move(file), std::move(tensor), offset, std::move(message)});
}

Status FsckContext::progress(const std::string& file, uint64_t done, uint64_t total) const {
  if (options.cancelled && options.cancelled()) return make_error(Errc::cancelled, "stopped on request");
  if (options.progress) options.progress(file, done, total);
  return {};
}

Result<Verdict> verdict_of(const ShardFile& file) {
  if (!file.archived) return examine_file(file.path);
  BREVIS_ASSIGN(File opened, File::open(file.path));
  BREVIS_ASSIGN(const auto reader, archive::Reader::open(std::move(opened)));
  BREVIS_ASSIGN(const auto names, read_names(*reader));
  return names->verdict;
}

}  // namespace serve

Result<CheckReport> check(const CheckOptions& options) {
  if (options.paths.empty()) return make_error(Errc::invalid_argument, "nothing to check: name a file or directory");
  if (options.quick && !options.tensor.empty())
    return make_error(Errc::invalid_argument, "a quick check decodes nothing: it cannot check one tensor");
  CheckReport report;
  Pool pool(options.jobs != 0 ? options.jobs : available_cores());
  std::vector<std::string> roots = options.base_paths;
  for (const std::string& path : options.paths)
    if (const auto stat = stat_at(AT_FDCWD, path, true); stat && stat->is_directory()) roots.push_back(path);
  archive::DirectoryFinder finder(roots);
  serve::FsckContext context{options, pool, report, finder};
  // Told before the work, which would be lost with its findings.
  std::vector<bool> directories;
  for (const std::string& path : options.paths) {
    BREVIS_ASSIGN(const FileStat stat, stat_at(AT_FDCWD, path, true));
    directories.push_back(stat.is_directory());
  }
  for (size_t i = 0; i < options.paths.size() && !report.stopped; ++i) {
    const std::string& path = options.paths[i];
    const Status done = directories[i] ? serve::fsck_tree(context, path) : serve::fsck_archive(context, path);
    if (!done && done.error().kind() != Errc::cancelled) return done.error();
    report.stopped = !done;
  }
  // What could not be looked at may hold it: that is what to tell, then.
  const bool looked = !report.has(Severity::damage) && !report.has(Severity::unread);
  if (!report.stopped && !options.tensor.empty() && !context.tensor_found && looked)
    return make_error(Errc::not_found, "no archive checked holds a tensor '" + options.tensor + "'");
  std::stable_sort(report.findings.begin(), report.findings.end(), [](const Finding& a, const Finding& b) {
    return std::tie(a.file, a.offset) < std::tie(b.file, b.offset);
  });
  return report;
}

}  // namespace brevis
