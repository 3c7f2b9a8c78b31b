// SPDX-License-Identifier: Apache-2.0
//
// One archive, wholly: opening it checks header, footer and index; then every frame is read, checked, decoded, every
// record held against its digest, and the file against its SHA-256. Where a stretch cannot be decoded its frames are
// tried one by one, so that a finding names the frame and the tensor, and the sound neighbours are not accused.
#include <algorithm>

#include "archive/layout.h"
#include "base/arena.h"
#include "base/checksum.h"
#include "serve/archive_names.h"
#include "serve/fsck.h"
#include "serve/whole_file.h"

namespace brevis::serve {

namespace {

using archive::Manifest;
using archive::Reader;
using archive::Record;

class ArchiveCheck {
 public:
  // Without its bases an archive's own bytes can be checked, but not what they give.
  ArchiveCheck(FsckContext& context, std::shared_ptr<const Reader> reader, const std::string& path, bool whole_bases)
      : context_(context),
        whole_bases_(whole_bases),
        reader_(std::move(reader)),
        manifest_(reader_->manifest()),
        path_(path) {}

  Status run() {
    if (context_.options.quick || !whole_bases_) return check_checksums();
    read_header();
    if (!context_.options.tensor.empty()) return check_tensor();
    ++context_.report.archives;
    return check_all();
  }

 private:
  // Names for the findings, and what there is to say about the original.
  void read_header() {
    auto names = read_names(*reader_);
    if (!names) {
      context_.add(Severity::damage, path_, names.error().message());
      return;
    }
    names_ = *names;
    if (!context_.options.tensor.empty()) return;
    const Verdict& verdict = names_->verdict;
    context_.report.tensors += verdict.tensors.size();
    if (verdict.kind != VerdictKind::lenient && verdict.kind != VerdictKind::truncated) return;
    if (verdict.trailing_bytes != 0)
      context_.add(
          Severity::note, path_,
          "the original has " + std::to_string(verdict.trailing_bytes) + " trailing bytes after its last tensor");
    context_.add(
        Severity::note, path_,
        "the original is a " + std::string(verdict_name(verdict.kind)) + " safetensors file: " + verdict.reason);
  }

  // The first tensor that a record serves; bundles serve several.
  std::string tensor_of(uint32_t record, Range range) const {
    if (!names_) return {};
    for (size_t i = 0; i < manifest_.segments.size(); ++i) {
      const archive::Segment& segment = manifest_.segments[i];
      if (segment.length == 0 || segment.record != record || names_->info[i] == nullptr) continue;
      if (segment.record_offset < range.end() && range.offset < segment.record_offset + segment.length)
        return names_->info[i]->name;
    }
    return {};
  }

  void add_frame_damage(uint64_t frame, const Error& error) {
    if (!told_.insert(frame).second) return;
    const auto [number, region] = manifest_.owner_of_frame(frame);
    const Record& record = manifest_.records[number];
    const Range stream{0, manifest_.bytes_of(record)};
    std::string tensor;
    // Where one region makes the whole stream a frame's place in it is known, else the record's first tensor stands.
    if (manifest_.programs[record.program]->root().region == static_cast<int32_t>(region)) {
      const uint64_t step = record.frame_words[region] * (manifest_.width_of(record) / 8);
      tensor = tensor_of(number, {(frame - record.first_frame[region]) * step, step});
    } else {
      tensor = tensor_of(number, stream);
    }
    context_.add(Severity::damage, path_, error.message(), tensor, manifest_.frames[frame].offset);
  }

  // --- quick: checksums of frames as they lie in the file.
  Status check_checksums() {
    ++context_.report.archives;
    constexpr size_t kBatch = 64;
    const size_t frames = manifest_.frames.size(), batches = (frames + kBatch - 1) / kBatch;
    using Bad = std::vector<std::pair<uint64_t, Error>>;
    const auto make = [&](size_t batch) -> Result<Bad> {
      Bad bad;
      ByteVector stored;
      for (uint64_t frame = batch * kBatch; frame < std::min(frames, (batch + 1) * kBatch); ++frame)
        if (auto read = reader_->read_frame(frame, stored); !read) bad.emplace_back(frame, read.error());
      return bad;
    };
    return ordered_parallel<Bad>(
        context_.pool, batches, 2 * context_.pool.threads(), make, [&](size_t batch, const Bad& bad) -> Status {
          for (const auto& [frame, error] : bad) add_frame_damage(frame, error);
          const uint64_t last = std::min<uint64_t>(frames, (batch + 1) * kBatch) - 1;
          context_.report.frames = context_.report.frames + last + 1 - batch * kBatch;
          return advance(
              manifest_.frames[last].offset + manifest_.frames[last].length - manifest_.frames[batch * kBatch].offset,
              reader_->header().index_offset);
        });
  }

  Status advance(uint64_t bytes, uint64_t total) {
    done_ += bytes;
    context_.report.bytes += bytes;
    return context_.progress(path_, done_, total);
  }

  // A stretch of a record's stream that could not be decoded: which frames are to blame?
  Status find_damage(uint32_t number, Range range, const Error& error) {
    const Record& record = manifest_.records[number];
    if (range == Range{0, manifest_.bytes_of(record)} && error.message().find("(digest)") != std::string::npos) {
      const uint64_t offset =
          manifest_.frames_of(record) == 0 ? 0 : manifest_.frames[record.first_frame.front()].offset;
      context_.add(Severity::damage, path_, error.message(), tensor_of(number, range), offset);
      return {};
    }
    std::vector<archive::FilePiece> pieces;
    ByteVector out;
    archive::RangeReader source(*reader_);
    bool blamed = false;
    if (auto planned = archive::plan_record(*reader_, number, range, pieces); !planned) {
      context_.add(Severity::damage, path_, planned.error().message(), tensor_of(number, range));
      return {};
    }
    for (const archive::FilePiece& piece : pieces) {
      if (piece.piece.kind != dsl::Piece::Kind::frame) continue;
      if (told_.count(piece.frame_index) != 0) {
        blamed = true;
        continue;
      }
      out.resize(archive::frame_place(*reader_, piece).bytes);
      auto decoded = source.read_frame(piece, out);
      if (decoded) continue;
      add_frame_damage(piece.frame_index, decoded.error());
      blamed = true;
    }
    if (blamed) return {};
    out.resize(range.length);
    if (auto read = archive::read_record_range(*reader_, number, range, out); !read)
      context_.add(Severity::damage, path_, read.error().message(), tensor_of(number, range));
    return {};
  }

  WholeFileSinks sinks(uint64_t total) {
    WholeFileSinks sinks;
    sinks.damage = [this](uint32_t record, Range range, const Error& error) {
      whole_ = false;
      return find_damage(record, range, error);
    };
    sinks.progress = [this, total](uint64_t bytes) { return advance(bytes, total); };
    return sinks;
  }

  Status check_all() {
    WholeFile file(*reader_, context_.pool);
    WholeFileSinks sinks = this->sinks(file.work_bytes());
    Sha256Hasher hasher;
    uint64_t hashed = 0;
    if (manifest_.sha256) {
      sinks.take = [&](uint64_t, ByteSpan bytes) {
        hasher.update(bytes);
        hashed += bytes.size();
        return Status();
      };
    }
    BREVIS_TRY(file.run(sinks));
    context_.report.frames += manifest_.frames.size();
    if (!manifest_.sha256) {
      context_.add(Severity::note, path_, "packed without SHA-256: only frame checksums and digests were checked");
    } else if (hashed == manifest_.original_size && hasher.finish() != *manifest_.sha256) {
      context_.add(Severity::damage, path_, "SHA-256 of the decoded file differs from that of the original");
    } else if (hashed != manifest_.original_size && whole_) {
      context_.add(Severity::damage, path_, "decoded file is not whole");
    }
    return {};
  }

  Status check_tensor() {
    if (!names_) return {};
    const auto segment = segment_of(*names_, context_.options.tensor);
    if (!segment) return {};
    context_.tensor_found = true;
    ++context_.report.archives;
    ++context_.report.tensors;
    const archive::Segment& place = manifest_.segments[*segment];
    if (place.length == 0) return {};
    const Record& record = manifest_.records[place.record];
    context_.report.frames += manifest_.frames_of(record);
    return WholeFile(*reader_, context_.pool).check_record(place.record, sinks(manifest_.bytes_of(record)));
  }

  FsckContext& context_;
  const bool whole_bases_;
  std::shared_ptr<const Reader> reader_;
  const Manifest& manifest_;
  const std::string path_;
  std::shared_ptr<const ArchiveNames> names_;
  std::set<uint64_t> told_;  // frames with a finding
  bool whole_ = true;
  uint64_t done_ = 0;
};

}  // namespace

Status fsck_archive(FsckContext& context, const std::string& path) {
  auto file = File::open(path);
  if (!file) {
    const bool closed = file.error().kind() == Errc::permission;
    context.add(closed ? Severity::unread : Severity::damage, path, file.error().message());
    return {};
  }
  file->advise_sequential();
  auto reader = Reader::open(std::move(*file));
  if (reader && !(*reader)->manifest().bases.empty()) {
    auto whole = archive::open_with_bases(path, context.finder);
    if (!whole) context.add(Severity::damage, path, whole.error().message());
    return ArchiveCheck(context, whole ? std::move(*whole) : std::move(*reader), path, whole.has_value()).run();
  }
  if (reader) return ArchiveCheck(context, std::move(*reader), path, true).run();
  std::string message = reader.error().message();
  if (reader.error().kind() == Errc::not_found) {
    auto verdict = examine_file(path);
    if (verdict && verdict->kind != VerdictKind::not_safetensors) {
      message += "; it is a safetensors file as it stands";
    } else if (verdict && !verdict->looks_like.empty()) {
      message += "; it looks like: " + verdict->looks_like;
    }
  }
  context.add(Severity::damage, path, std::move(message));
  return {};
}

}  // namespace brevis::serve
