// SPDX-License-Identifier: Apache-2.0
//
// The programs that a practitioner would write down for each dtype: exponent with some top mantissa bits coded jointly
// over a small alphabet, sign apart, low bits packed; widened floats narrowed; integers by bytes. They are the starting
// point of every choice: whatever else is tried has to beat them.
//
// The joint coding of exponent and top mantissa bits follows the observation that inside one binade the density of a
// bell curve is not flat (literals.md of the design; measured 0.05-0.08 bit a weight on real networks).
// Threads: pure. Errors: none. Determinism: order and ties are fixed.
#pragma once

#include "brevis/types.h"
#include "synth/fields.h"

namespace brevis::synth {

struct Structure {
  dsl::Expr expr;                // priced: no template left; otherwise literals may be templates
  std::optional<uint64_t> cost;  // of the whole stream as complete_order0 counts, where statistics can tell
};

// What order-0 statistics do not see and a look at some words may hint at. Structures for what is not there are left
// out.
struct Hints {
  bool repeats = true;  // strings of bytes that stood before
  bool deltas = true;   // neighbours closer to each other than to zero
  bool zeros = true;    // many words that are zero
  bool words = true;    // wide words that stood shortly before
};

inline constexpr Hints kNoHints{false, false, false, false};

// Structures that express the whole stream: those that statistics price by rising cost, at most `limit` of them, then
// those whose price takes a sample. Where `limit` is 1, structures that are not the cheapest may be missed, and so may
// be those that cost `below` or more.
std::vector<Structure> known_good(Dtype dtype, Fields& fields, size_t limit, const Hints& hints = {},
                                  uint64_t below = UINT64_MAX);
// The cut that a like stream's program makes, each field coded as suits it here; nullopt where that program is no cut
// into fields that counts alone tell, or where it costs `below` or more.
std::optional<Structure> cut_like(const dsl::Expr& like, Fields& fields, uint64_t below = UINT64_MAX);
// For words that recur in their column: tiles of so many rows, turned, their fields by zstd.
dsl::Expr turned_for_repeats(Dtype dtype, unsigned width, uint64_t rows, uint64_t columns);
std::vector<Structure> known_good(Dtype dtype, const StreamStats& stats, uint64_t frame_words, size_t limit);

// As in fields.h, for one question only.
std::optional<uint64_t> cost_by_stats(const dsl::Expr& expr, const StreamStats& stats, uint64_t frame_words);
uint64_t entropy_by_stats(const StreamStats& stats);

}  // namespace brevis::synth
