// SPDX-License-Identifier: Apache-2.0
//
// Extraction writes each file beside its name and renames it once all of it has been checked: frame checksums and
// record digests always, SHA-256 on request. A tree is walked once; what is an archive is unpacked, what is not is
// copied, links are made again as they are.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "archive/bases.h"
#include "archive/layout.h"
#include "base/checksum.h"
#include "base/threads.h"
#include "brevis/extract.h"
#include "brevis/log.h"
#include "serve/archive_names.h"
#include "serve/walk.h"
#include "serve/whole_file.h"

namespace brevis {

const Error* ExtractReport::first_error() const {
  for (const ExtractedFile& file : files)
    if (file.error) return &*file.error;
  return nullptr;
}

namespace {

using archive::Reader;

std::string name_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string joined(const std::string& directory, const std::string& name) {
  return directory.ends_with('/') ? directory + name : directory + "/" + name;
}

// Whether a .brv is to be unpacked: foreign bytes under that name are copied like anything else.
Result<bool> is_archive(const std::string& path) {
  BREVIS_ASSIGN(const File file, File::open(path));
  ByteVector first(8);
  BREVIS_ASSIGN(const size_t got, file.read_some(0, first));
  first.resize(got);
  const auto header = archive::parse_header(first);
  return header || header.error().kind() != Errc::not_found;
}

// A tree's bases may be anywhere in it.
std::vector<std::string> roots_of(const ExtractOptions& options) {
  std::vector<std::string> roots = options.base_paths;
  const auto stat = stat_at(AT_FDCWD, options.source, true);
  if (stat && stat->is_directory()) roots.insert(roots.begin(), options.source);
  return roots;
}

class Extractor {
 public:
  explicit Extractor(const ExtractOptions& options)
      : options_(options), finder_(roots_of(options)), pool_(options.jobs != 0 ? options.jobs : available_cores()) {}

  Result<ExtractReport> run() {
    const auto start = std::chrono::steady_clock::now();
    BREVIS_ASSIGN(const FileStat stat, stat_at(AT_FDCWD, options_.source, true));
    if (stat.is_directory()) {
      if (!options_.tensor.empty())
        return make_error(Errc::invalid_argument, "one tensor can be extracted from one archive, not from a directory");
      BREVIS_TRY(run_tree());
    } else {
      BREVIS_TRY(run_file());
    }
    report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(report_);
  }

 private:
  Status run_file() {
    BREVIS_ASSIGN(const bool archived, is_archive(options_.source));
    if (!archived) return make_error(Errc::invalid_argument, options_.source + ": not a Brevis archive");
    std::string target = options_.target;
    if (target.empty()) {
      if (!serve::has_archive_ending(options_.source))
        return make_error(Errc::invalid_argument, options_.source + ": does not end in .brv: name a target");
      target = serve::without_archive_ending(options_.source);
    } else if (const auto there = stat_at(AT_FDCWD, target, true); there && there->is_directory()) {
      target = joined(target, serve::without_archive_ending(name_of(options_.source)));
    }
    total_ = 1;  // until the archive is open
    add(options_.source, target, unpack(options_.source, target));
    return {};
  }

  Status run_tree() {
    if (options_.target.empty())
      return make_error(Errc::invalid_argument, "name the directory that the tree shall be extracted to");
    BREVIS_ASSIGN(const serve::Walk walk, serve::walk_directory(options_.source));
    BREVIS_TRY(refuse_nesting());
    if (!stat_at(AT_FDCWD, options_.target, false)) made_.emplace_back(options_.source, options_.target);
    BREVIS_TRY(make_directories(options_.target));
    std::set<std::string> names;
    for (const serve::WalkEntry& entry : walk.entries) {
      names.insert(entry.path);
      total_ += entry.stat.size;
    }
    for (const auto& [path, error] : walk.failed) {
      add(joined(options_.source, path), joined(options_.target, path), error);
      if (!options_.continue_on_error) return {};
    }
    for (const serve::WalkEntry& entry : walk.entries) {
      const std::string source = joined(options_.source, entry.path);
      std::string target = joined(options_.target, entry.path);
      Result<uint64_t> outcome = one_entry(entry, names, source, target);
      const bool failed = !outcome;
      const bool cancelled = failed && outcome.error().kind() == Errc::cancelled;
      if (!entry.stat.is_directory() || failed) add(source, target, std::move(outcome));
      if (cancelled || (failed && !options_.continue_on_error)) return {};
    }
    // Children before parents, after everything in them was written. Directories that stood before keep their own.
    for (auto at = made_.rbegin(); at != made_.rend(); ++at)
      if (const Status done = copy_directory_attributes(at->first, at->second); !done)
        log(LogLevel::warning, done.error().message());
    return {};
  }

  // A target inside the source would be walked into; a source inside the target is merely odd.
  Status refuse_nesting() const {
    const auto source = stat_at(AT_FDCWD, options_.source, true), target = stat_at(AT_FDCWD, options_.target, true);
    if (source && target && source->device == target->device && source->inode == target->inode)
      return make_error(Errc::invalid_argument, options_.target + ": source and target are the same directory");
    return {};
  }

  Result<uint64_t> one_entry(const serve::WalkEntry& entry, const std::set<std::string>& names,
                             const std::string& source, std::string& target) {
    if (entry.stat.is_directory()) {
      if (!stat_at(AT_FDCWD, target, false)) made_.emplace_back(source, target);
      BREVIS_TRY(make_directories(target));
      return 0;
    }
    if (entry.stat.is_symlink()) return copy_link(entry, target);
    if (!entry.stat.is_regular())
      return make_error(Errc::unsupported, source + ": neither file, directory nor link: left out");
    if (serve::has_archive_ending(entry.path)) {
      BREVIS_ASSIGN(const bool archived, is_archive(source));
      if (archived && names.count(serve::without_archive_ending(entry.path)) != 0) {
        log(LogLevel::warning, source + ": a file of its name stands beside it and is what readers see: not unpacked");
        return 0;
      }
      if (archived) {
        target = serve::without_archive_ending(target);
        return unpack(source, target);
      }
    }
    return copy_file(source, target);
  }

  Result<uint64_t> copy_link(const serve::WalkEntry& entry, const std::string& target) const {
    // A link to an archive is a link to what the archive becomes.
    std::string path = target, to = entry.link_target;
    if (serve::has_archive_ending(path) && serve::has_archive_ending(to)) {
      path = serve::without_archive_ending(path);
      to = serve::without_archive_ending(to);
    }
    if (stat_at(AT_FDCWD, path, false)) {
      if (!options_.force) return already(path);
      BREVIS_TRY(remove_file(path));
    }
    BREVIS_TRY(make_symlink(to, path));
    return 0;
  }

  static Error already(const std::string& path) {
    return make_error(Errc::invalid_argument, path + ": exists already: --force overwrites");
  }

  // Told before the work is done; commit() asks again.
  Status check_target(const std::string& target) const {
    if (!options_.force && stat_at(AT_FDCWD, target, false)) return already(target);
    return {};
  }

  Status progress(const std::string& file, uint64_t bytes) {
    done_ += bytes;
    if (options_.cancelled && options_.cancelled()) return make_error(Errc::cancelled, "stopped on request");
    if (options_.progress) options_.progress(file, done_, total_);
    return {};
  }

  Result<uint64_t> copy_file(const std::string& source, const std::string& target) {
    BREVIS_TRY(check_target(target));
    BREVIS_ASSIGN(const File file, File::open(source));
    BREVIS_ASSIGN(const FileStat stat, file.stat());
    BREVIS_ASSIGN(AtomicFile out, AtomicFile::create(target, options_.force));
    ByteVector buffer(size_t{1} << 20);
    for (;;) {
      BREVIS_ASSIGN(const size_t got, file.read_some(out.size(), buffer));
      if (got == 0) break;
      BREVIS_TRY(out.append(ByteSpan(buffer).first(got)));
      BREVIS_TRY(progress(source, got));
    }
    BREVIS_TRY(out.set_mode_and_times(stat.mode & 07777, stat.atime_ns, stat.mtime_ns));
    BREVIS_TRY(out.commit());
    return out.size();
  }

  Result<uint64_t> unpack(const std::string& source, const std::string& target) {
    BREVIS_TRY(check_target(target));
    BREVIS_ASSIGN(File file, File::open(source));
    BREVIS_ASSIGN(const FileStat stat, file.stat());
    BREVIS_ASSIGN(const auto reader, Reader::open(std::move(file), finder_));
    if (options_.tensor.empty()) return unpack_whole(*reader, stat, source, target);
    return unpack_tensor(*reader, stat, source, target);
  }

  Result<uint64_t> unpack_whole(const Reader& reader, const FileStat& stat, const std::string& source,
                                const std::string& target) {
    const auto& expected = reader.manifest().sha256;
    if (options_.verify && !expected)
      return make_error(Errc::invalid_argument, source +
                                                    ": packed without SHA-256 (--digest none): nothing to verify "
                                                    "against; frames and tensors are checked without --verify");
    serve::WholeFile whole(reader, pool_);
    // The tree's total counts archive bytes, this archive's its own work: each is shown as its share.
    const uint64_t before = done_, work = std::max<uint64_t>(whole.work_bytes(), 1);
    if (total_ <= 1) total_ = work;
    const uint64_t share = total_ == work ? work : stat.size;
    uint64_t worked = 0;
    BREVIS_ASSIGN(AtomicFile out, AtomicFile::create(target, options_.force));
    Sha256Hasher hasher;
    serve::WholeFileSinks sinks;
    sinks.take = [&](uint64_t, ByteSpan bytes) {
      if (options_.verify) hasher.update(bytes);
      return out.append(bytes);
    };
    sinks.progress = [&](uint64_t bytes) {
      worked += bytes;
      done_ = before + static_cast<uint64_t>(static_cast<unsigned __int128>(share) * worked / work);
      return progress(source, 0);
    };
    BREVIS_TRY(whole.run(sinks));
    if (options_.verify && hasher.finish() != *expected)
      return make_error(Errc::corrupt, source + ": SHA-256 of the extracted file differs from that of the original");
    BREVIS_TRY(out.set_mode_and_times(stat.mode & 07777, stat.atime_ns, stat.mtime_ns));
    const uint64_t bytes = out.size();
    BREVIS_TRY(out.commit());
    return bytes;
  }

  Result<uint64_t> unpack_tensor(const Reader& reader, const FileStat& stat, const std::string& source,
                                 const std::string& target) {
    BREVIS_ASSIGN(const auto names, serve::read_names(reader));
    const auto number = serve::segment_of(*names, options_.tensor);
    if (!number) return make_error(Errc::not_found, source + ": holds no tensor '" + options_.tensor + "'");
    const archive::Segment& segment = reader.manifest().segments[*number];
    BREVIS_ASSIGN(AtomicFile out, AtomicFile::create(target, options_.force));
    total_ = std::max<uint64_t>(segment.length, 1);
    serve::WholeFile whole(reader, pool_);
    serve::WholeFileSinks sinks;
    sinks.progress = [&](uint64_t bytes) { return progress(source, bytes); };
    if (segment.length != 0) {
      total_ = reader.manifest().bytes_of(reader.manifest().records[segment.record]);
      // The record's stream comes in order; the tensor is a part of it.
      sinks.take = [&](uint64_t offset, ByteSpan bytes) -> Status {
        const uint64_t begin = std::max(offset, segment.record_offset);
        const uint64_t end = std::min(offset + bytes.size(), segment.record_offset + segment.length);
        if (begin >= end) return {};
        return out.append(bytes.subspan(begin - offset, end - begin));
      };
      BREVIS_TRY(whole.check_record(segment.record, sinks));
    }
    BREVIS_TRY(out.set_mode_and_times(stat.mode & 07777, stat.atime_ns, stat.mtime_ns));
    BREVIS_TRY(out.commit());
    return segment.length;
  }

  void add(std::string source, std::string target, Result<uint64_t> outcome) {
    ExtractedFile file{std::move(source), std::move(target), 0, std::nullopt};
    if (outcome) {
      file.bytes = *outcome;
      report_.bytes += file.bytes;
    } else {
      file.error = std::move(outcome).error();
    }
    report_.files.push_back(std::move(file));
  }

  const ExtractOptions& options_;
  archive::DirectoryFinder finder_;
  Pool pool_;
  ExtractReport report_;
  uint64_t done_ = 0, total_ = 0;
  std::vector<std::pair<std::string, std::string>> made_;  // directories: source and target
};

}  // namespace

Result<ExtractReport> extract(const ExtractOptions& options) { return Extractor(options).run(); }

}  // namespace brevis
