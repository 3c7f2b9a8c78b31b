// SPDX-License-Identifier: Apache-2.0
//
// From a byte range of the original file to frames and fills: segments, records, programs and `ref`s resolved down to
// pieces that name a frame of the archive. The one walk that the mount, extract, cat and fsck share.
//
// Errors:  invalid_argument for a range beyond the file; corrupt for a ref whose target is itself made of refs.
// Threads: pure functions over an immutable Reader.
#pragma once

#include "archive/reader.h"
#include "dsl/plan.h"

namespace brevis::archive {

// A dsl::Piece placed in the file: `record` tells whose program; `frame` is made absolute in `frame_index`.
// Kind ref does not occur: refs were resolved.
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

// Reads, checks and decodes one frame; out.size() == frame_place().bytes.
Status decode_piece_frame(const Reader& reader, const FilePiece& piece, MutByteSpan out, ByteVector& stored,
                          Arena& arena);

// Synchronous read of a whole range without any cache (tools): out.size() == range.length.
Status read_range(const Reader& reader, Range range, MutByteSpan out);
Status read_record_range(const Reader& reader, uint32_t record, Range range, MutByteSpan out);

}  // namespace brevis::archive
