// SPDX-License-Identifier: Apache-2.0
//
// Running regions, frame by frame. A frame's stored bytes (docs/format-programs.md) are: walking the region's nodes in
// program order, for each node one byte of table choice if its slot is bound to a set, a varint for each data-dependent
// count, and for a literal a varint payload length; then the payloads of the literals in program order, to the last
// byte.
//
// Requires: programs that passed build(); tables that passed load_slot().
// Errors:   decode_frame gives corrupt for any stored bytes that are not a frame of this program and length. It never
//           reads outside `stored` nor writes outside `out`, and needs at most kMaxFrameScratchBytes of scratch.
// Threads:  BoundProgram is immutable; an Arena belongs to one call at a time and is as before after it.
#pragma once

#include <memory>

#include "base/arena.h"
#include "dsl/op.h"

namespace brevis::dsl {

// One table past its gate.
struct SlotTable {
  codec::TablePtr codec;                 // codec_table slots
  std::shared_ptr<const WordList> list;  // word_list slots
  std::shared_ptr<const Blob> blob;      // blob slots
};

// The gate of a table's stored bytes, for the slot that wants it. Errors: corrupt.
Result<SlotTable> load_slot(const Program& program, const Slot& slot, ByteSpan stored);
// The same for the slot of a single node, which has one.
Result<SlotTable> load_slot(const Node& node, ByteSpan stored);
// Entries of a table of that slot, whatever its stored bytes, which may be far fewer: kMaxTableEntries counts them.
uint64_t table_entries(const Node& node);
// The stored form of a word list (delta-coded varints, docs/format-programs.md).
ByteVector store_word_list(std::span<const uint64_t> ascending);

struct FrameView;
// A kernel that fills the words of a whole subtree (fused.h).
using FusedRun = Status (*)(const FrameView& frame, uint32_t node, bits::Words out, Arena& arena);

// A program with the tables of one tensor: everything needed to run its frames.
class BoundProgram {
 public:
  // `tables`: for every slot in order, one table or a set of up to kMaxTableSet. Errors: corrupt on a wrong count;
  // invalid_argument for a template and for regions whose words are not whole bytes. Without `fuse` no node gets a
  // kernel that stands for more than itself (tests and benchmarks compare).
  static Result<std::shared_ptr<const BoundProgram>> bind(std::shared_ptr<const Program> program,
                                                          std::vector<std::vector<SlotTable>> tables, bool fuse = true);
  const Program& program() const { return *program_; }
  std::span<const SlotTable> tables(int32_t slot) const { return tables_[static_cast<size_t>(slot)]; }
  // The kernel that stands for a node and all below it, nullptr for none.
  FusedRun fused(uint32_t node) const { return fused_[node]; }

 private:
  std::shared_ptr<const Program> program_;
  std::vector<std::vector<SlotTable>> tables_;
  std::vector<FusedRun> fused_;  // by node
};

// Decodes one frame: out.size() bytes are the region's words [first_word, first_word + out.size() * 8 / width) in file
// order. `out` may be unaligned. `bases`: for every `base` node of the region, in program order, the bytes that the
// same words of its stream have.
Status decode_frame(const BoundProgram& bound, uint32_t region, uint64_t first_word, ByteSpan stored, MutByteSpan out,
                    Arena& arena, std::span<const ByteSpan> bases = {});

// A frame among several, as the parameters of decode_frame say.
struct FrameTask {
  const BoundProgram* bound;
  uint32_t region;
  uint64_t first_word;
  ByteSpan stored;
  MutByteSpan out;
  std::span<const ByteSpan> bases{};
  Status status{};  // what decode_frame gives
};

// decode_frame of each task; whatever becomes of one, the others are decoded. Coded streams of few lanes, where most of
// the time is waiting, are decoded side by side, in little more scratch: give several frames of small tensors at once.
void decode_frames(std::span<FrameTask> tasks, Arena& arena);

// Where a frame's bytes go: payload bytes of every literal node of the region (tools show them).
struct LeafBytes {
  uint32_t node;
  uint64_t bytes;
};
Result<std::vector<LeafBytes>> frame_leaves(const BoundProgram& bound, uint32_t region, uint64_t words,
                                            ByteSpan stored);

// The default frame length of a region: the largest multiple of its period whose output is at most `frame_bytes`
// (clamped to the format's limits), at least one word; the period is given up when it does not fit.
uint64_t default_frame_words(const Program& program, const Region& region, uint64_t frame_bytes);

}  // namespace brevis::dsl
