// SPDX-License-Identifier: Apache-2.0
//
// The packing side of exec: from the words of a frame to its stored bytes, and the tables that suit a stream.
//
// Errors:  as Result says; "cannot express" is no error but `false` or nullopt, since the packer then tries another
//          program. Determinism: same program, same words, same bytes, on any CPU.
// Threads: pure functions; an Arena belongs to one call.
#pragma once

#include <functional>

#include "dsl/exec.h"
#include "dsl/inversions.h"

namespace brevis::dsl {

// Appends the stored bytes of one frame of `region` holding `target`, whose first word has that place in the region's
// stream. A slot with a set of tables gets the one with the smallest estimate. False: the program cannot express it
// (and `out` is as before). `bases`: as for decode_frame; a combine or update with a base as Q and a patch of a
// base as P take the difference, a base anywhere else cannot be expressed.
Result<bool> encode_frame(const BoundProgram& bound, uint32_t region, uint64_t first_word, bits::ConstWords target,
                          ByteVector& out, std::span<const ByteSpan> bases = {});

// Counts the words of a stream.
codec::Histogram histogram_of(bits::ConstWords words);
// Adds b to a (equal widths).
void add_histogram(codec::Histogram& a, const codec::Histogram& b);

// The stored bytes of a node's own slot (a word list or a blob, not a codec's table) that suit a sample; nullopt when
// none does. For choosing programs: train() finds the ones to store.
std::optional<ByteVector> suit_slot(const Node& node, const Target& target);

// The words of one frame of the stream that is to be trained on: fills and returns the words, called with
// frame = 0 .. frames-1, possibly several times.
using FrameWords = std::function<Result<bits::ConstWords>(uint64_t frame)>;

// The stored tables of a region's slots (index = slot number; slots of other regions stay empty), chosen from the given
// frames. nullopt: the program cannot express the stream, or a codec cannot serve it. `frame_words` gives positions.
// `inversions`: of this very stream, for the next call.
Result<std::optional<std::vector<ByteVector>>> train(const Program& program, uint32_t region, uint64_t frames,
                                                     uint64_t frame_words, const FrameWords& source,
                                                     Inversions* inversions = nullptr);

// The same from order-0 statistics of the region's words alone, with the expected size: nullopt when statistics do not
// reach down to every slot and literal (scans, runs), or the program cannot express them.
struct Estimate {
  std::vector<ByteVector> tables;  // as train() gives
  uint64_t bits;                   // of all payloads together, frame overheads left out
};
Result<std::optional<Estimate>> estimate(const Program& program, uint32_t region, const codec::Histogram& words);

}  // namespace brevis::dsl
