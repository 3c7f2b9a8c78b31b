// SPDX-License-Identifier: Apache-2.0
//
// From a byte range of a program's output to what it is made of: slices of decoded frames, computed fills, and ranges
// of other streams. The plan touches no data, so a caller can fetch frames in any order, from anywhere, and in its own
// threads; pieces come in ascending output order, without gap or overlap.
//
// Errors:  plan() gives invalid_argument for a range outside the stream or words that have no bytes, corrupt for a
//          length that the program cannot produce (region_lengths() finds that earlier). Threads: pure functions.
#pragma once

#include "dsl/op.h"

namespace brevis::dsl {

struct Piece {
  enum class Kind : uint8_t {
    frame,  // bytes [source, source + length) of the decoded frame `frame` of region `region`
    fill,   // words value + i * step, little-endian, from byte `source` of that stream on (constant: step 0)
    ref,    // bytes [source, source + length) of the original file
    base,   // bytes [source, source + length) of the stream of the program's `base` node number `region`
    copy,   // the output bytes `source` before this piece, repeated (an overlapping forward copy): a short period
  };
  Kind kind;
  uint64_t at;      // byte of the requested range where this piece starts
  uint64_t length;  // bytes, > 0
  uint64_t source = 0;
  uint32_t region = 0;  // of frames its region; of bases see above
  uint64_t frame = 0;   // number of the frame within its region
  uint64_t value = 0, step = 0;
  uint8_t width = 8;  // of fill words, bits; a multiple of 8
};

// Collects pieces while operators walk (skeleton nodes call it; see ops/concat.cc). Word-granular inside, cut to bytes
// by plan().
class PlanSink {
 public:
  virtual ~PlanSink() = default;
  // Words [first, first + count) of child `index`, whose whole stream has n words.
  virtual Status child(uint32_t index, uint64_t n, uint64_t first, uint64_t count) = 0;
  // Computed words: value + (first + i) * step.
  virtual void fill(uint64_t value, uint64_t step, uint64_t first, uint64_t count) = 0;
  // `bytes` of the original file starting at `offset`.
  virtual void ref(uint64_t offset, uint64_t bytes) = 0;
  // `bytes` from byte `offset` of the stream of `base` node number `number`.
  virtual void base(uint32_t number, uint64_t offset, uint64_t bytes) = 0;
  // `count` more words, equal to those `period` words before.
  virtual void copy(uint64_t period, uint64_t count) = 0;
};

// `frame_words`: the frame length F of each region. `range` in bytes of the output of `words` words. Replaces `pieces`;
// there are at most as many as frames touched plus a few for every skeleton node, however often anything repeats.
Status plan(const Program& program, uint64_t words, std::span<const uint64_t> frame_words, Range range,
            std::vector<Piece>& pieces);

// Writes a fill piece to out (out.size() == piece.length).
void run_fill(const Piece& piece, MutByteSpan out);
// Carries out a copy piece: `out` is the whole requested range, filled up to piece.at.
void run_copy(const Piece& piece, MutByteSpan out);

}  // namespace brevis::dsl
