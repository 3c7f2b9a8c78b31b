// SPDX-License-Identifier: Apache-2.0
//
// Programs with a skeleton: the stream cut into regions, repeated or computed by operators that answer ranges by
// arithmetic. What such an operator makes of a stream is told by its own plan, so none is named here: the plan says
// which words are the regions', which are computed and which are copies of earlier ones, and the stream says whether
// that is true.
//
// Errors:  those of reading the stream. Threads: one caller; streams of regions borrow the whole one. Determinism: as
// choose().
#pragma once

#include "dsl/plan.h"
#include "synth/choose.h"

namespace brevis::synth {

// The regions of a program as streams of their own.
class Regions {
 public:
  // nullopt: the program cannot have that many words.
  static std::optional<Regions> of(const dsl::Program& program, const Stream& whole);
  size_t count() const { return extents_.size(); }
  // Borrows the whole stream and this.
  Stream region(size_t index) const;

  // Whether every word that the skeleton computes or copies is what the stream holds: a look at a few places, or all.
  Result<bool> looks_true() const;
  struct Truth {
    Digest whole;
    std::vector<Digest> regions;
  };
  // Digests of what was read; nullopt when some word differs.
  Result<std::optional<Truth>> is_true() const;

  // Words that are computed or copied.
  uint64_t saved() const { return saved_; }

 private:
  struct Extent {
    uint64_t first, at, words;  // words [first, ..) of the region are the stream's from `at` on
  };
  Result<bool> piece_holds(const dsl::Piece& piece, uint64_t first, uint64_t words) const;
  const Stream* whole_ = nullptr;
  std::vector<std::vector<Extent>> extents_;  // a region each, ascending
  std::vector<dsl::Piece> pieces_;            // in words: at, length, source
  uint64_t saved_ = 0;
};

// Chooses for one region; `wanted` is what stands there in the expression, nullptr where the choice is free.
using ChooseRegion = std::function<Result<Choice>(const Stream& region, const dsl::Expr* wanted)>;

// A program for `stream` whose skeleton is that of `expr`; nullopt when the stream is not of that form. With `free` the
// regions of `expr` are holes, else they are wanted.
Result<std::optional<Choice>> over_skeleton(const Stream& stream, const dsl::Expr& expr, bool free, bool prove,
                                            const ChooseRegion& choose_region);

// The best program with a skeleton that the grammar proposes, nullopt where none promises less than `known` costs
// (1/256 bits).
Result<std::optional<Choice>> best_skeleton(const Stream& stream, uint64_t frame_words, uint64_t known,
                                            const SearchOptions& options, const ChooseRegion& choose_region);

}  // namespace brevis::synth
