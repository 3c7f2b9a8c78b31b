// SPDX-License-Identifier: Apache-2.0
//
// One walk from bytes of the original to frames. A `ref` is resolved by planning its target in place: the gate made
// sure that a target holds no refs, so the recursion is one deep, and is told so rather than trusted.
#include "archive/layout.h"

#include <algorithm>
#include <cstring>

namespace brevis::archive {

namespace {

// Ranges are walked in windows, so that a plan of a whole file never stands in memory at once.
constexpr uint64_t kWindow = uint64_t{4} << 20;

// Frames that are decoded at once, and their bytes at most: between check and decoding they stay in cache.
constexpr size_t kBatch = 16;
constexpr uint64_t kBatchBytes = uint64_t{1} << 19;

bool fits(Range range, uint64_t size) { return range.offset <= size && range.length <= size - range.offset; }

// Appends the pieces of a range of a record's stream, with `at` counted from `shift`.
Status plan_into(const Reader& reader, uint32_t record_number, Range range, uint64_t shift, bool inside_ref,
                 std::vector<FilePiece>& pieces);

Status plan_file_into(const Reader& reader, Range range, uint64_t shift, bool inside_ref,
                      std::vector<FilePiece>& pieces) {
  const Manifest& manifest = reader.manifest();
  if (!fits(range, manifest.original_size))
    return make_error(Errc::invalid_argument, reader.file().path() + ": bytes " + std::to_string(range.offset) + " + " +
                                                  std::to_string(range.length) + " of a file of " +
                                                  std::to_string(manifest.original_size));
  if (range.length == 0) return {};
  uint64_t done = 0;
  for (size_t index = manifest.segment_at(range.offset); done < range.length; ++index) {
    const Segment& segment = manifest.segments[index];
    if (segment.length == 0) continue;
    const uint64_t skip = range.offset + done - segment.offset;
    const uint64_t take = std::min(segment.length - skip, range.length - done);
    BREVIS_TRY(
        plan_into(reader, segment.record, {segment.record_offset + skip, take}, shift + done, inside_ref, pieces));
    done += take;
  }
  return {};
}

Status plan_into(const Reader& reader, uint32_t record_number, Range range, uint64_t shift, bool inside_ref,
                 std::vector<FilePiece>& pieces) {
  const Record& record = reader.manifest().records[record_number];
  const dsl::Program& program = *reader.manifest().programs[record.program];
  std::vector<dsl::Piece> planned;
  BREVIS_TRY(dsl::plan(program, record.words, record.frame_words, range, planned));
  for (dsl::Piece& piece : planned) {
    piece.at += shift;
    if (piece.kind == dsl::Piece::Kind::ref) {
      if (inside_ref)
        return make_error(Errc::corrupt, reader.file().path() + ": record " + std::to_string(record_number) +
                                             ": a ref to bytes made of refs");
      BREVIS_TRY(plan_file_into(reader, {piece.source, piece.length}, piece.at, true, pieces));
      continue;
    }
    FilePiece placed{piece, record_number, 0};
    if (piece.kind == dsl::Piece::Kind::frame) placed.frame_index = record.first_frame[piece.region] + piece.frame;
    pieces.push_back(placed);
  }
  return {};
}

}  // namespace

Status plan_file(const Reader& reader, Range range, std::vector<FilePiece>& pieces) {
  return plan_file_into(reader, range, 0, false, pieces);
}

Status plan_record(const Reader& reader, uint32_t record, Range range, std::vector<FilePiece>& pieces) {
  return plan_into(reader, record, range, 0, false, pieces);
}

FramePlace frame_place(const Reader& reader, const FilePiece& piece) {
  const Record& record = reader.manifest().records[piece.record];
  const uint64_t first = piece.piece.frame * record.frame_words[piece.piece.region];
  const uint64_t words =
      std::min(record.frame_words[piece.piece.region], record.region_words[piece.piece.region] - first);
  return {piece.record, piece.piece.region, first, words * (reader.manifest().width_of(record) / 8)};
}

std::vector<FrameBase> frame_bases(const Reader& reader, const FramePlace& place) {
  const dsl::Program& program = *reader.manifest().programs[reader.manifest().records[place.record].program];
  const dsl::Region& region = program.regions()[place.region];
  const uint64_t words = place.bytes / (program.width() / 8);
  std::vector<FrameBase> needed;
  for (uint32_t node = region.first_base; node < region.first_base + region.bases; ++node) {
    const uint64_t bytes = program.nodes()[program.bases()[node]].width / 8u;
    needed.push_back({node, {place.first_word * bytes, words * bytes}});
  }
  return needed;
}

namespace {

Status in_frame(const Reader& reader, const FilePiece& piece, Status decoded) {
  if (decoded) return decoded;
  const FrameEntry& entry = reader.manifest().frames[piece.frame_index];
  return std::move(decoded).error().within(reader.file().path() + ": frame " + std::to_string(piece.frame_index) +
                                           " (bytes " + std::to_string(entry.offset) + " + " +
                                           std::to_string(entry.length) + ")");
}

}  // namespace

Status decode_piece_frame(const Reader& reader, const FilePiece& piece, MutByteSpan out, ByteVector& stored,
                          Arena& arena, std::span<const ByteSpan> bases) {
  BREVIS_ASSIGN(const auto bound, reader.bound(piece.record));
  BREVIS_TRY(reader.read_frame(piece.frame_index, stored));
  const FramePlace place = frame_place(reader, piece);
  if (out.size() != place.bytes) return make_error(Errc::internal, "a buffer that does not fit its frame");
  arena.reset();
  return in_frame(reader, piece, dsl::decode_frame(*bound, place.region, place.first_word, stored, out, arena, bases));
}

Status RangeReader::run_base(uint32_t record, uint32_t node, Range range, MutByteSpan out) {
  std::vector<BaseSpan> spans;
  base_spans_of(reader_->manifest().records[record], node, range, spans);
  uint64_t done = 0;
  for (const BaseSpan& span : spans) {
    if (span.base >= reader_->bases().size())
      return make_error(Errc::internal, reader_->file().path() + ": was opened without its bases");
    bases_.resize(reader_->bases().size());
    if (!bases_[span.base]) bases_[span.base] = std::make_unique<RangeReader>(*reader_->bases()[span.base]);
    BREVIS_TRY(bases_[span.base]->read(span.range, out.subspan(done, span.range.length)));
    done += span.range.length;
  }
  return {};
}

Status RangeReader::read_frame(const FilePiece& piece, MutByteSpan out) {
  const std::vector<FrameBase> needed = frame_bases(*reader_, frame_place(*reader_, piece));
  if (needed.empty()) return decode_piece_frame(*reader_, piece, out, stored_, arena_);
  uint64_t bytes = 0;
  for (const FrameBase& base : needed) bytes += base.range.length;
  base_bytes_.resize(bytes);
  std::vector<ByteSpan> spans;
  for (const FrameBase& base : needed) {
    const MutByteSpan part = MutByteSpan(base_bytes_).subspan(base_bytes_.size() - bytes, base.range.length);
    BREVIS_TRY(run_base(piece.record, base.node, base.range, part));
    spans.push_back(part);
    bytes -= base.range.length;
  }
  return decode_piece_frame(*reader_, piece, out, stored_, arena_, spans);
}

Status RangeReader::run_frame(const FilePiece& piece, MutByteSpan out) {
  const FramePlace place = frame_place(*reader_, piece);
  const auto known =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.frame == piece.frame_index; });
  if (known == kept_.end() && place.bytes == out.size()) return read_frame(piece, out);
  const auto used = known != kept_.end() ? known : kept_.end() - 1;
  std::rotate(kept_.begin(), used, used + 1);
  Kept& kept = kept_.front();
  if (kept.frame != piece.frame_index) {
    kept.frame = UINT64_MAX;
    kept.bytes.resize(place.bytes);
    BREVIS_TRY(read_frame(piece, kept.bytes));
    kept.frame = piece.frame_index;
  }
  std::memcpy(out.data(), kept.bytes.data() + piece.piece.source, out.size());
  return {};
}

// Frames that are wanted as a whole and stand on no base, from the first piece on: some are decoded at once. Gives how
// many they were.
Result<size_t> RangeReader::run_batch(std::span<const FilePiece> pieces, MutByteSpan out) {
  size_t count = 0;
  uint64_t bytes = 0;
  std::vector<dsl::FrameTask> tasks;
  std::vector<std::shared_ptr<const dsl::BoundProgram>> programs;
  batch_.resize(kBatch);
  for (; count < std::min(pieces.size(), kBatch); ++count) {
    const FilePiece& piece = pieces[count];
    if (piece.piece.kind != dsl::Piece::Kind::frame) break;
    const FramePlace place = frame_place(*reader_, piece);
    if (place.bytes != piece.piece.length || !frame_bases(*reader_, place).empty()) break;
    if (count != 0 && bytes + place.bytes > kBatchBytes) break;
    bytes += place.bytes;
    BREVIS_ASSIGN(auto bound, reader_->bound(piece.record));
    if (Status read = reader_->read_frame(piece.frame_index, batch_[count]); !read) {
      if (count == 0) return std::move(read).error();
      break;  // those before it come first
    }
    tasks.push_back(
        {bound.get(), place.region, place.first_word, batch_[count], out.subspan(piece.piece.at, piece.piece.length)});
    programs.push_back(std::move(bound));
  }
  arena_.reset();
  dsl::decode_frames(tasks, arena_);
  for (size_t i = 0; i < count; ++i) BREVIS_TRY(in_frame(*reader_, pieces[i], std::move(tasks[i].status)));
  return count;
}

Status RangeReader::run_pieces(const std::vector<FilePiece>& pieces, MutByteSpan out) {
  for (size_t next = 0; next < pieces.size();) {
    BREVIS_ASSIGN(const size_t done, run_batch(std::span(pieces).subspan(next), out));
    next += done;
    if (done != 0) continue;
    const FilePiece& piece = pieces[next++];
    const MutByteSpan part = out.subspan(piece.piece.at, piece.piece.length);
    switch (piece.piece.kind) {
      case dsl::Piece::Kind::frame: BREVIS_TRY(run_frame(piece, part)); break;
      case dsl::Piece::Kind::fill: dsl::run_fill(piece.piece, part); break;
      case dsl::Piece::Kind::base:
        BREVIS_TRY(run_base(piece.record, piece.piece.region, {piece.piece.source, piece.piece.length}, part));
        break;
      case dsl::Piece::Kind::copy: dsl::run_copy(piece.piece, out); break;
      case dsl::Piece::Kind::ref: return make_error(Errc::internal, "a ref was left unresolved");
    }
  }
  return {};
}

template <class Plan>
Status RangeReader::run_windows(Range range, MutByteSpan out, Plan plan) {
  if (out.size() != range.length) return make_error(Errc::internal, "a buffer that does not fit its range");
  for (uint64_t done = 0; done < range.length;) {
    const uint64_t length = std::min(kWindow, range.length - done);
    pieces_.clear();
    BREVIS_TRY(plan(Range{range.offset + done, length}));
    BREVIS_TRY(run_pieces(pieces_, out.subspan(done, length)));
    done += length;
  }
  return {};
}

Status RangeReader::read(Range range, MutByteSpan out) {
  const uint64_t size = reader_->manifest().original_size;
  if (!fits(range, size))
    return make_error(Errc::invalid_argument, reader_->file().path() + ": bytes " + std::to_string(range.offset) +
                                                  " + " + std::to_string(range.length) + " of a file of " +
                                                  std::to_string(size));
  return run_windows(range, out, [&](Range window) { return plan_file(*reader_, window, pieces_); });
}

Status RangeReader::read_record(uint32_t record, Range range, MutByteSpan out) {
  if (!fits(range, reader_->manifest().bytes_of(reader_->manifest().records.at(record))))
    return make_error(Errc::invalid_argument, reader_->file().path() + ": bytes " + std::to_string(range.offset) +
                                                  " + " + std::to_string(range.length) + " of record " +
                                                  std::to_string(record));
  return run_windows(range, out, [&](Range window) { return plan_record(*reader_, record, window, pieces_); });
}

Status RangeReaders::read(Range range, MutByteSpan out) {
  auto reader = spare_.with([](auto& spare) -> std::unique_ptr<RangeReader> {
    if (spare.empty()) return nullptr;
    auto last = std::move(spare.back());
    spare.pop_back();
    return last;
  });
  if (!reader) reader = std::make_unique<RangeReader>(*reader_);
  BREVIS_TRY(reader->read(range, out));
  spare_.with([&](auto& spare) { spare.push_back(std::move(reader)); });
  return {};
}

Status read_range(const Reader& reader, Range range, MutByteSpan out) { return RangeReader(reader).read(range, out); }

Status read_record_range(const Reader& reader, uint32_t record, Range range, MutByteSpan out) {
  return RangeReader(reader).read_record(record, range, out);
}

}  // namespace brevis::archive
