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
#include "synth/complete.h"
#include "synth/stats.h"

namespace brevis::synth {

// Structures (literals may be templates) that express the whole stream, by rising expected cost where statistics can
// tell, at most `limit`. Never empty: the bare literal is among them. `frame_words`: as for complete_order0.
std::vector<dsl::Expr> known_good(Dtype dtype, const StreamStats& stats, uint64_t frame_words, size_t limit);

}  // namespace brevis::synth
