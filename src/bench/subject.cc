// SPDX-License-Identifier: Apache-2.0
#include "bench/subject.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "archive/format.h"
#include "archive/layout.h"
#include "base/checksum.h"
#include "brevis/model.h"
#include "brevis/pack.h"
#include "dsl/text.h"

namespace brevis::bench {
namespace {

namespace stdfs = std::filesystem;

constexpr size_t kAlign = 64;

// Gone with all that is in it when it goes out of scope.
struct ScratchDirectory {
  stdfs::path path;
  ~ScratchDirectory() {
    std::error_code ignored;
    if (!path.empty()) stdfs::remove_all(path, ignored);
  }
  bool make_in(const char* parent) {
    if (parent == nullptr || *parent == '\0') return false;
    for (int i = 0; i < 100; ++i) {
      const stdfs::path wish =
          stdfs::path(parent) / ("brevis-bench-" + std::to_string(getpid()) + "-" + std::to_string(i));
      std::error_code failed;
      if (stdfs::create_directory(wish, failed)) {
        path = wish;
        return true;
      }
      if (failed) return false;
    }
    return false;
  }
};

Result<std::shared_ptr<const archive::Reader>> open_archive(const std::string& path) {
  BREVIS_ASSIGN(File file, File::open(path));
  BREVIS_ASSIGN(auto reader, archive::Reader::open(std::move(file)));
  if (!reader->manifest().bases.empty())
    return make_error(Errc::unsupported, path + ": stands on other archives; what stands alone can be measured");
  return reader;
}

// The archive that brevis-pack makes of a file; its name is gone when this returns.
Result<std::shared_ptr<const archive::Reader>> pack_in_memory(const std::string& path,
                                                              const std::function<bool()>& cancelled) {
  Error error = make_error(Errc::unavailable, "no temporary directory to pack '" + path + "' into; set TMPDIR");
  for (const char* parent : {"/dev/shm", static_cast<const char*>(std::getenv("TMPDIR")), "/tmp"}) {
    ScratchDirectory scratch;
    if (!scratch.make_in(parent)) continue;
    PackOptions options;
    options.sources = {path};
    options.target = (scratch.path / "packed.brv").string();
    options.cancelled = cancelled;
    BREVIS_ASSIGN(const PackReport report, pack_files(options));
    if (report.first_error() == nullptr) return open_archive(options.target);
    error = *report.first_error();
    if (error.kind() != Errc::no_space) break;
  }
  return error;
}

Result<bool> is_archive(const std::string& path) {
  BREVIS_ASSIGN(const File file, File::open(path));
  ByteVector first(archive::kHeaderBytes);
  BREVIS_ASSIGN(const size_t got, file.read_some(0, first));
  first.resize(got);
  const auto header = archive::parse_header(first);
  return header || header.error().kind() != Errc::not_found;
}

// What each record holds, by record number.
std::vector<std::string> dtypes_of(const archive::Manifest& manifest, ByteSpan original) {
  std::vector<std::string> dtypes(manifest.records.size(), "opaque");
  const bool has_prefix = !manifest.segments.empty() && manifest.segments[0].kind == archive::SegmentKind::prefix;
  const Verdict verdict = examine_prefix(original.first(has_prefix ? manifest.segments[0].length : 0), original.size());
  std::map<uint32_t, const TensorInfo*> tensors;
  for (const TensorInfo& tensor : verdict.tensors) tensors.emplace(tensor.ordinal, &tensor);
  for (const archive::Segment& segment : manifest.segments) {
    if (segment.length == 0) continue;
    std::string& dtype = dtypes[segment.record];
    if (segment.kind == archive::SegmentKind::prefix) dtype = "header";
    if (segment.kind != archive::SegmentKind::tensor) continue;
    const auto tensor = tensors.find(segment.ordinal);
    dtype = tensor == tensors.end() ? "unknown" : tensor->second->dtype_name;
  }
  return dtypes;
}

// Lays out the frames of a group's records. Places are given before there is memory behind them.
class Loader {
 public:
  Loader(Subject& subject, std::vector<std::string> dtypes)
      : subject_(subject), manifest_(subject.reader->manifest()), dtypes_(std::move(dtypes)) {}

  Status load() {
    std::map<std::pair<std::string, std::string>, std::vector<uint32_t>> by_kind;
    subject_.programs.resize(manifest_.records.size());
    for (uint32_t i = 0; i < manifest_.records.size(); ++i) {
      BREVIS_ASSIGN(subject_.programs[i], subject_.reader->bound(i));
      if (manifest_.frames_of(manifest_.records[i]) != 0)
        by_kind[{dtypes_[i], dsl::print(subject_.programs[i]->program())}].push_back(i);
    }
    for (const auto& [kind, records] : by_kind) {
      SubjectGroup group{kind.first, kind.second};
      for (const uint32_t record : records) {
        group.bytes += manifest_.bytes_of(manifest_.records[record]);
        group.packed_bytes += manifest_.stored_bytes_of(manifest_.records[record]);
      }
      group.streams = records.size();
      subject_.groups.push_back(std::move(group));
    }
    std::stable_sort(subject_.groups.begin(), subject_.groups.end(), [](const SubjectGroup& a, const SubjectGroup& b) {
      return a.dtype != b.dtype ? a.dtype < b.dtype : a.bytes > b.bytes;
    });
    BREVIS_TRY(read_frames());
    for (SubjectGroup& group : subject_.groups) {
      group.first_frame = subject_.frames.size();
      for (const uint32_t record : by_kind[{group.dtype, group.program}]) add_record(record);
      group.frames = subject_.frames.size() - group.first_frame;
    }
    return decode_all();
  }

 private:
  Status read_frames() {
    if (manifest_.frames.empty()) return {};
    const archive::FrameEntry& last = manifest_.frames.back();
    begin_ = manifest_.frames.front().offset;
    subject_.stored = WarmBuffer(last.offset + last.length - begin_);
    return subject_.reader->file().read_exact(begin_, subject_.stored.span());
  }

  void add_record(uint32_t number) {
    const archive::Record& record = manifest_.records[number];
    const dsl::Program& program = subject_.programs[number]->program();
    for (uint32_t region = 0; region < program.regions().size(); ++region) {
      const unsigned word_bytes = program.nodes()[program.regions()[region].root].width / 8;
      for (uint64_t i = 0; i < record.frames_of(region); ++i) {
        const archive::FrameEntry& entry = manifest_.frames[record.first_frame[region] + i];
        const uint64_t first = i * record.frame_words[region];
        const uint64_t count = std::min(record.frame_words[region], record.region_words[region] - first);
        FrameJob job{subject_.programs[number].get(), region, first, {}, entry.checksum, end_, count * word_bytes, {}};
        job.stored = ByteSpan(subject_.stored.span()).subspan(entry.offset - begin_, entry.length);
        end_ += (job.bytes + kAlign - 1) / kAlign * kAlign;
        subject_.frames.push_back(std::move(job));
      }
    }
  }

  Status decode_all() {
    subject_.words = WarmBuffer(end_);
    Arena arena;
    for (FrameJob& job : subject_.frames) {
      const MutByteSpan out = subject_.words.span().subspan(job.at, job.bytes);
      if (xxh3_64(job.stored) != job.checksum)
        return make_error(Errc::corrupt, "a frame's checksum differs; brevis fsck tells which");
      BREVIS_TRY(dsl::decode_frame(*job.bound, job.region, job.first_word, job.stored, out, arena));
      const dsl::Program& program = job.bound->program();
      const uint8_t width = program.nodes()[program.regions()[job.region].root].width;
      job.target = {out.data(), job.bytes / (width / 8), width};  // the archive's gate knows lanes only
    }
    return {};
  }

  Subject& subject_;
  const archive::Manifest& manifest_;
  std::vector<std::string> dtypes_;
  uint64_t begin_ = 0;  // of the first frame in the archive
  size_t end_ = 0;      // of the words laid out
};

}  // namespace

Result<Subject> Subject::load(const std::string& path, const std::function<bool()>& cancelled) {
  Subject subject;
  BREVIS_ASSIGN(subject.was_archive, is_archive(path));
  if (subject.was_archive) {
    BREVIS_ASSIGN(subject.reader, open_archive(path));
  } else {
    BREVIS_ASSIGN(subject.reader, pack_in_memory(path, cancelled));
  }
  BREVIS_ASSIGN(const FileStat stat, subject.reader->file().stat());
  subject.packed_bytes = stat.size;
  subject.original = WarmBuffer(subject.reader->manifest().original_size);
  BREVIS_TRY(archive::read_range(*subject.reader, {0, subject.original.size()}, subject.original.span()));
  BREVIS_TRY(Loader(subject, dtypes_of(subject.reader->manifest(), subject.original.span())).load());
  return subject;
}

}  // namespace brevis::bench
