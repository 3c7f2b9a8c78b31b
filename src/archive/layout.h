// SPDX-License-Identifier: Apache-2.0
//
// From a byte range of the original file to frames and fills: segments, records, programs and `ref`s resolved down to
// pieces that name a frame of the archive. The one walk that the mount, extract, cat and fsck share.
//
// Errors:  invalid_argument for a range beyond the file; corrupt for a ref whose target is itself made of refs.
// Threads: pure functions over an immutable Reader.
#pragma once

#include <array>

#include "archive/reader.h"
#include "base/arena.h"
#include "base/threads.h"
#include "dsl/plan.h"

namespace brevis::archive {

// A dsl::Piece placed in the file: `record` tells whose program; `frame` is made absolute in `frame_index`.
// Kind ref does not occur: refs were resolved. Kind base names a stretch of the stream of the record's `base` node
// `piece.region`; base_spans_of() tells whose bytes those are.
struct FilePiece {
  dsl::Piece piece;
  uint32_t record = 0;
  uint64_t frame_index = 0;  // frame pieces: index into Manifest::frames
};

// Pieces in ascending order, covering range.length bytes from range.offset.
Status plan_file(const Reader& reader, Range range, std::vector<FilePiece>& pieces);
// The same for a byte range of one record's stream.
Status plan_record(const Reader& reader, uint32_t record, Range range, std::vector<FilePiece>& pieces);

// A frame's place in its record: what decode_frame wants to know.
struct FramePlace {
  uint32_t record;
  uint32_t region;
  uint64_t first_word;
  uint64_t bytes;  // of decoded output
};
FramePlace frame_place(const Reader& reader, const FilePiece& piece);

// What a frame needs of bases: for every `base` node of its region the range of that node's stream.
struct FrameBase {
  uint32_t node;  // number of the `base` node in the program
  Range range;
};
std::vector<FrameBase> frame_bases(const Reader& reader, const FramePlace& place);

// Reads, checks and decodes one frame; out.size() == frame_place().bytes. `bases`: bytes for each of frame_bases().
Status decode_piece_frame(const Reader& reader, const FilePiece& piece, MutByteSpan out, ByteVector& stored,
                          Arena& arena, std::span<const ByteSpan> bases = {});

// Synchronous reads of whole ranges without any cache (tools): out.size() == range.length. Keeps its buffers, and the
// last few frames that were wanted in part, from one read to the next: many small tensors are parts of one frame.
// Threads: one at a time. Owns: scratch memory; the Reader is borrowed.
class RangeReader {
 public:
  explicit RangeReader(const Reader& reader) : reader_(&reader) {}
  Status read(Range range, MutByteSpan out);
  Status read_record(uint32_t record, Range range, MutByteSpan out);
  // One frame, with what it needs of bases; out.size() == frame_place().bytes.
  Status read_frame(const FilePiece& piece, MutByteSpan out);

 private:
  template <class Plan>
  Status run_windows(Range range, MutByteSpan out, Plan plan);
  Status run_pieces(const std::vector<FilePiece>& pieces, MutByteSpan out);
  Result<size_t> run_batch(std::span<const FilePiece> pieces, MutByteSpan out);
  Status run_frame(const FilePiece& piece, MutByteSpan out);
  Status run_base(uint32_t record, uint32_t node, Range range, MutByteSpan out);

  const Reader* reader_;
  Arena arena_;
  struct Kept {
    uint64_t frame = UINT64_MAX;
    ByteVector bytes;
  };
  ByteVector stored_;
  std::array<Kept, 4> kept_;  // last used first
  std::vector<ByteVector> batch_;
  std::vector<FilePiece> pieces_;
  ByteVector base_bytes_;
  std::vector<std::unique_ptr<RangeReader>> bases_;  // by number, made when needed
};

// Reads from several threads: each takes a reader that no other uses.
class RangeReaders {
 public:
  explicit RangeReaders(std::shared_ptr<const Reader> reader) : reader_(std::move(reader)) {}
  Status read(Range range, MutByteSpan out);

 private:
  std::shared_ptr<const Reader> reader_;
  Guarded<std::vector<std::unique_ptr<RangeReader>>> spare_;
};

// For a single read.
Status read_range(const Reader& reader, Range range, MutByteSpan out);
Status read_record_range(const Reader& reader, uint32_t record, Range range, MutByteSpan out);

}  // namespace brevis::archive
