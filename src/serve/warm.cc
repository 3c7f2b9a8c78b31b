// SPDX-License-Identifier: Apache-2.0
#include "brevis/warm.h"

#include <fcntl.h>

#include <chrono>
#include <cstdlib>

#include "base/io.h"
#include "base/threads.h"
#include "serve/walk.h"

namespace brevis {
namespace {

constexpr uint64_t kChunk = uint64_t{8} << 20;  // one worker's share at a time
constexpr size_t kRead = size_t{1} << 20;       // as large as a request of the kernel's gets

uint64_t available_memory() {
  const auto file = File::open("/proc/meminfo");
  ByteVector bytes(4096);
  const auto got = file ? file->read_some(0, bytes) : Result<size_t>(size_t{0});
  const std::string text(reinterpret_cast<const char*>(bytes.data()), got ? *got : 0);
  constexpr std::string_view kName = "MemAvailable:";
  const size_t at = text.find(kName);
  return at == text.npos ? 0 : std::strtoull(text.c_str() + at + kName.size(), nullptr, 10) * 1024;
}

Status add_files(const std::string& path, std::vector<std::string>& files) {
  BREVIS_ASSIGN(const FileStat stat, stat_at(AT_FDCWD, path, true));
  if (!stat.is_directory()) {
    files.push_back(path);
    return {};
  }
  BREVIS_ASSIGN(const serve::Walk walk, serve::walk_directory(path));
  for (const serve::WalkEntry& entry : walk.entries)
    if (entry.stat.is_regular()) files.push_back(path.ends_with('/') ? path + entry.path : path + "/" + entry.path);
  return {};
}

}  // namespace

Result<WarmReport> warm(const WarmOptions& options) {
  const auto began = std::chrono::steady_clock::now();
  WarmReport report;
  report.available_bytes = available_memory();
  std::vector<std::string> files;
  for (const std::string& path : options.paths) BREVIS_TRY(add_files(path, files));
  uint64_t total = 0;
  for (const std::string& path : files) {
    BREVIS_ASSIGN(const FileStat stat, stat_at(AT_FDCWD, path, true));
    total += stat.size;
  }
  Pool pool(options.jobs != 0 ? options.jobs : available_cores());
  for (const std::string& path : files) {
    BREVIS_ASSIGN(const File file, File::open(path));
    BREVIS_ASSIGN(const FileStat stat, file.stat());
    const size_t chunks = (stat.size + kChunk - 1) / kChunk;
    const auto read = [&](size_t chunk) -> Result<uint64_t> {
      ByteVector buffer(kRead);
      uint64_t done = 0;
      while (done < kChunk) {
        if (options.cancelled && options.cancelled()) return make_error(Errc::cancelled, "stopped on request");
        BREVIS_ASSIGN(const size_t got, file.read_some(chunk * kChunk + done, buffer));
        if (got == 0) break;
        done += got;
      }
      return done;
    };
    BREVIS_TRY(ordered_parallel<uint64_t>(pool, chunks, 2 * pool.threads(), read, [&](size_t, uint64_t done) -> Status {
      report.bytes += done;
      if (options.progress) options.progress(path, report.bytes, total);
      return {};
    }));
    ++report.files;
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return report;
}

}  // namespace brevis
