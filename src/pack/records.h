// SPDX-License-Identifier: Apache-2.0
//
// Cutting an original file into the streams that are stored: its prefix, each large tensor, bundles of small tensors
// that are alike, and opaque runs for everything else. Covers every byte exactly once.
//
// Why bundles: many networks are thousands of tiny tensors; tables, lane states and directory entries of their own
// would cost more than they save. Alike = same dtype and same role, the last component of the name without digits.
// Threads: pure but for fold_twins, which reads. Errors: fold_twins only.
#pragma once

#include "archive/manifest.h"
#include "brevis/model.h"
#include "pack/source.h"

namespace brevis::pack {

struct Member {
  Range span;            // of the original file
  uint32_t ordinal = 0;  // tensors: entry of the header
};

// A tensor whose bytes are those of a member of the same bundle.
struct Twin {
  Range span;
  uint32_t ordinal = 0;
  size_t member = 0;  // index in RecordPlan::members
  Digest digest;      // XXH3-128 of its bytes
};

struct RecordPlan {
  archive::SegmentKind kind = archive::SegmentKind::opaque;
  Dtype dtype = Dtype::unknown;
  std::string name;             // of the tensor, or of a bundle's role; for messages
  std::vector<Member> members;  // in file order; one, unless a bundle
  std::vector<Twin> twins;      // bundles: tensors equal to a member, which need no bytes of their own
  bool bundle = false;
  std::string role;             // tensors of one role tend to be stored alike
  std::vector<uint64_t> shape;  // of a tensor that is a record of its own and whose elements are words
  // What a base has of the same name, dtype and shape, member by member (relations.h); empty for none.
  std::vector<archive::BaseSpan> likes{};
  bool like_is_equal = false;  // byte for byte

  uint64_t bytes() const;
  unsigned width() const { return dtype_info(dtype).word_bits(); }
};

// Prefix, tensors and opaque runs in file order, then bundles by first member. Tensors of no bytes are in none.
std::vector<RecordPlan> cut_into_records(const Verdict& verdict, uint64_t file_size);

// Moves members whose bytes stood before in the same bundle to its twins, confirmed byte by byte. Reads every member
// once. Errors: those of reading.
Status fold_twins(const Source& source, std::vector<RecordPlan>& plans);

// Tensors of no bytes: segments without a record.
std::vector<Member> empty_tensors(const Verdict& verdict);

}  // namespace brevis::pack
