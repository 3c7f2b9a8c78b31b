// SPDX-License-Identifier: Apache-2.0
//
// Two streams word by word: what a reader of differences runs over every word of a snapshot.
//
// Threads: pure functions. Variants for wider registers give the same words; kernels() tells which one runs.
#pragma once

#include <vector>

#include "bits/words.h"

namespace brevis::bits {

// The operator's functions by their numbers on disk (dsl/ops/combine.cc).
enum class Combine : uint8_t { exclusive_or, add, subtract, order };

// out[i] = p[i] f q[i]; all of one width and count. `out` may be p's memory; data may be unaligned. `folded`: p holds
// small numbers of either sign as small ones, as map(zigzag) does, and is unfolded on the way.
void combine(Combine f, ConstWords p, ConstWords q, Words out, bool folded = false);
// The p for which combine() gives `target`.
void uncombine(Combine f, ConstWords target, ConstWords q, Words p, bool folded = false);

// Where two streams of one width and count differ, ascending; data may be unaligned.
std::vector<size_t> differing(ConstWords a, ConstWords b);

}  // namespace brevis::bits
