// SPDX-License-Identifier: Apache-2.0
//
// What the index of an archive says: the original file as segments, segments as spans of streams (records), records as
// programs with bound tables and frames. Encoded and decoded here; decode() is half of the archive's gate (the other
// half, the header and checksums, is the reader's): past it every number is in range of every other.
//
// Errors:  corrupt (with section and rule), unsupported (an operator, codec or feature this build does not know).
// Threads: a Manifest is immutable once decoded.
#pragma once

#include <map>
#include <memory>

#include "brevis/error.h"
#include "brevis/types.h"
#include "dsl/exec.h"

namespace brevis::archive {

enum class SegmentKind : uint8_t {
  prefix = 0,  // the 8 length bytes and the JSON header, verbatim
  tensor = 1,
  opaque = 2,  // holes, stray bytes, whole files of other kinds
};

// A span of the original file. Segments stand in file order without gap or overlap; offsets are running sums.
struct Segment {
  SegmentKind kind = SegmentKind::opaque;
  uint64_t offset = 0;         // in the original file (not stored)
  uint64_t length = 0;         // bytes; 0 is legal for tensors
  uint32_t ordinal = 0;        // tensors: place of its entry in the prefix's header, counting tensor entries from 0
  uint32_t record = 0;         // meaningless when length is 0
  uint64_t record_offset = 0;  // byte of the record's stream where this segment's bytes start
};

// Which tables a slot uses: one number, or a set of 2..16 from which each frame picks.
using Binding = std::vector<uint32_t>;

// An archive whose original this one's programs use. Its id fixes its index and with that all it holds.
struct Base {
  Digest id;
  uint64_t original_size = 0;
  uint32_t depth = 0;  // 0: it stands alone, else one more than the deepest of its own bases
  std::string hint;    // where it was when this archive was written, relative to this archive's directory; may be empty
};

// Bytes of a base's original.
struct BaseSpan {
  uint32_t base = 0;  // index into Manifest::bases
  Range range;
};

// One stream: a tensor, a bundle of small ones, a prefix or an opaque run.
struct Record {
  uint32_t program = 0;
  uint64_t words = 0;                  // of the program's width (a multiple of 8 bits)
  std::vector<Binding> bindings;       // a slot each
  std::vector<uint64_t> frame_words;   // F of each region
  std::vector<uint64_t> region_words;  // length of each region's stream (not stored: dsl::region_lengths)
  std::vector<uint64_t> first_frame;   // index into Manifest::frames of each region's frame 0 (not stored)
  Digest digest;                       // XXH3-128 of the stream's bytes
  // Holds several segments. Of any other record a segment takes all bytes, so that its digest is the segment's.
  bool bundle = false;
  // For every `base` node of the program the bytes it stands for, one span after the other.
  std::vector<std::vector<BaseSpan>> bases;

  uint64_t bytes(unsigned program_width) const { return words * (program_width / 8); }
  uint64_t frames_of(size_t region) const {
    return (region_words[region] + frame_words[region] - 1) / frame_words[region];
  }
};

struct FrameEntry {
  uint64_t offset = 0;    // in the archive (not stored: frames lie end to end from byte 64 in this order)
  uint32_t length = 0;    // stored bytes
  uint64_t checksum = 0;  // XXH3-64 of the stored bytes
};

struct Manifest {
  std::map<std::string, std::string> provenance;  // keys and values UTF-8; e.g. "packer", "profile"
  std::vector<std::shared_ptr<const dsl::Program>> programs;
  std::vector<ByteVector> tables;
  std::vector<Record> records;
  std::vector<Base> bases;
  std::vector<Segment> segments;
  std::vector<FrameEntry> frames;
  std::optional<Sha256> sha256;
  uint64_t original_size = 0;  // sum of segments

  unsigned width_of(const Record& record) const { return programs[record.program]->width(); }
  uint64_t bytes_of(const Record& record) const { return record.bytes(width_of(record)); }
  uint64_t frames_of(const Record& record) const;  // over its regions
  uint64_t stored_bytes_of(const Record& record) const;
  // The record whose frames hold `frame`, and its region: the inverse of first_frame.
  std::pair<uint32_t, uint32_t> owner_of_frame(uint64_t frame) const;
  bool uses_ref() const;      // some program does
  uint32_t features() const;  // required-feature bits of all programs
  uint32_t depth() const;     // 0: stands alone

  // Index of the segment that holds byte `offset` < original_size (skipping empty ones).
  size_t segment_at(uint64_t offset) const;
  // Approximate heap bytes held, for the memory cap.
  uint64_t memory() const;
};

// The uncompressed index. Canonical: one manifest, one byte string.
ByteVector encode_manifest(const Manifest& manifest);
// The gate: checks everything that can be checked without touching frames, including that frames cover exactly
// [64, frames_end) and segments sum to `original_size`; loads no table (that is per use: dsl::load_slot), but checks
// every binding's number and count.
Result<Manifest> decode_manifest(ByteSpan index, uint64_t original_size, uint64_t frames_end);

// The bytes that a range of the stream of `base` node `number` stands for, appended to `out`.
void base_spans_of(const Record& record, uint32_t number, Range range, std::vector<BaseSpan>& out);

// Fills the fields of a record that are not stored. Errors: corrupt (a length the program cannot have).
Status derive_record(const Manifest& manifest, Record& record, uint64_t first_frame);

// The index as it stands in the file: one zstd frame that declares its content size. Errors: invalid_argument beyond
// kMaxIndexBytes; internal. `beside`: bytes of the frames; the smaller the index beside them, the less effort it gets.
Result<ByteVector> pack_index(ByteSpan index, uint64_t beside = 0);
// The gate of the stored form. Errors: corrupt; nothing is allocated beyond the bounds of format.h.
Result<ByteVector> unpack_index(ByteSpan stored);

}  // namespace brevis::archive
