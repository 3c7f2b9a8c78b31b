// SPDX-License-Identifier: Apache-2.0
//
// A first look at a stream: a few short windows, which hint at structures that order-0 statistics do not see and that
// are worth taking a whole sample for.
//
// Threads: pure. Errors: those of reading the stream. Determinism: integers only. Owns: copies of the words looked at.
#pragma once

#include "synth/choose.h"
#include "synth/known_good.h"

namespace brevis::synth {

// Windows of a stream.
struct Look {
  std::vector<bits::OwnedWords> windows;
  std::vector<bits::ConstWords> views;
  std::vector<dsl::Window> placed;  // the same with their positions
};

// Short windows, spread evenly.
Result<Look> look(const Stream& stream);
// `stats`: of the whole stream.
Hints take_hints(const Look& seen, const StreamStats& stats);

// Whether wide words of long streams mostly stand somewhere above in their column, as those of transforms do.
Result<bool> columns_recur(const Stream& stream);

}  // namespace brevis::synth
