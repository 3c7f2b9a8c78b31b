// SPDX-License-Identifier: Apache-2.0
//
// brevis cat: a range of the original file, or of one tensor, to standard output. Parts are decoded by several workers
// ahead of the one being written; what is written has always been checked.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <future>
#include <thread>

#include "brevis/archive.h"
#include "command.h"
#include "commands.h"
#include "files.h"
#include "output.h"
#include "signals.h"

namespace brevis::tools {
namespace {

constexpr uint64_t kPart = uint64_t{4} << 20;

Status write_all(ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return make_error(Errc::io, Error::from_errno(errno, "writing to standard output").message());
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Status stream(const Archive& archive, Range range, unsigned jobs) {
  const auto decode = [&archive](Range part) -> Result<ByteVector> {
    ByteVector bytes(part.length);
    BREVIS_TRY(archive.read(part, bytes));
    return bytes;
  };
  std::deque<std::future<Result<ByteVector>>> ahead;
  uint64_t at = range.offset;
  while (at < range.end() || !ahead.empty()) {
    if (stop_requested()) return make_error(Errc::cancelled, "stopped on request");
    while (at < range.end() && ahead.size() < jobs) {
      const Range part{at, std::min(kPart, range.end() - at)};
      ahead.push_back(std::async(std::launch::async, decode, part));
      at += part.length;
    }
    const Result<ByteVector> bytes = ahead.front().get();
    ahead.pop_front();
    if (!bytes) return Error(bytes.error());
    BREVIS_TRY(write_all(*bytes));
  }
  return {};
}

Result<Range> find_range(const Archive& archive, const std::string& tensor) {
  if (tensor.empty()) return Range{0, archive.info().original_size};
  BREVIS_ASSIGN(const std::vector<ArchiveSpan> spans, archive.spans());
  for (const ArchiveSpan& span : spans)
    if (span.kind == SpanKind::tensor && span.tensor.name == tensor) return span.span;
  return make_error(Errc::not_found, "'" + archive.path() + "' holds no tensor '" + tensor + "'");
}

Status run(const std::string& path, const std::string& tensor, uint64_t offset, uint64_t length, unsigned jobs,
           const std::vector<std::string>& base_paths) {
  BREVIS_TRY(require_archive(path));
  BREVIS_ASSIGN(const std::shared_ptr<const Archive> archive, Archive::open(path, base_paths));
  BREVIS_ASSIGN(const Range whole, find_range(*archive, tensor));
  if (offset > whole.length)
    return make_error(Errc::invalid_argument,
                      "--offset " + std::to_string(offset) + " is beyond the end at " + std::to_string(whole.length));
  return stream(*archive, {whole.offset + offset, std::min(length, whole.length - offset)}, jobs);
}

}  // namespace

int cmd_cat(int argc, char** argv) {
  CommandLine line("brevis cat", "[options] ARCHIVE",
                   "Writes the original file's bytes, or a part of them, to standard output.");
  std::string path, tensor;
  uint64_t offset = 0, length = UINT64_MAX;
  unsigned jobs = std::max(1u, std::thread::hardware_concurrency());
  line.app().add_option("archive", path, "archive")->required();
  line.add_size("--offset", offset, "begin at this byte (of the tensor, with --tensor)");
  line.add_size("--length", length, "so many bytes at most (default: to the end)");
  line.app().add_option("--tensor", tensor, "only the bytes of this tensor")->type_name("NAME");
  std::vector<std::string> base_paths;
  line.add_base_paths(base_paths);
  line.add_jobs(jobs);
  if (const auto code = line.parse(argc, argv)) return *code;
  const Status done = run(path, tensor, offset, length, jobs, base_paths);
  return done ? kExitFine : report(done.error());
}

}  // namespace brevis::tools
