// SPDX-License-Identifier: Apache-2.0
//
// A small grammar of its own for tests of the search, so that they do not depend on what operators propose, and streams
// with a structure to be found. Threads: pure. Errors: none.
#pragma once

#include "support/weights.h"
#include "synth/search.h"

namespace brevis::test {

// Splits in halves, constants, palettes, small ranks, differences, zeros and runs, wherever they can stand.
class SmallGrammar : public synth::Grammar {
 public:
  using Grammar::Grammar;
  std::vector<synth::Production> region(const dsl::Target& target) const override;
  // Two to four times the same, periods of up to eight words, cuts at halves and quarters.
  std::vector<synth::Production> skeleton(const dsl::Target& target) const override;
};

// A stream in memory as windows for a pool.
struct Windows {
  std::vector<bits::OwnedWords> store;
  std::vector<dsl::Window> windows;
  uint64_t words = 0;
};
// `count` windows over words drawn by `seed`: a mixture of plain, repeated, rising and sparse stretches.
Windows mixed_windows(unsigned width, size_t count, size_t words, uint64_t seed);

}  // namespace brevis::test
