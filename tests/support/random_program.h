// SPDX-License-Identifier: Apache-2.0
//
// Seeded random programs that pass the gate, drawn from the operator table: the input of the laws about programs. An
// operator that this file has no word about is still tried, with parameters guessed until its own gate accepts them.
//
// Errors:  none. Threads: an Rng belongs to one thread. Same seed and shape, same program.
#pragma once

#include <vector>

#include "dsl/program.h"
#include "support/weights.h"

namespace brevis::test {

struct ProgramShape {
  size_t max_nodes = 40;
  size_t max_depth = 7;
  bool skeleton = true;         // concat, repeat, ref, constant and ramp above the regions
  uint64_t original_bytes = 0;  // refs point inside a file of that size; 0: no refs
  uint64_t min_part_words = 1;  // of a concat's parts and a repeat's period
  bool bases = false;           // `base` on the spine, and in regions under combine or patch
  bool expresses_all = false;   // below regions only operators that express every stream (so that random data fit)
  bool templates = false;       // some literals leave their codec open
  std::vector<codec::CodecId> codecs;  // of literals; empty: every codec that accepts the width
};

// An expression that build(width, expr) accepts and that can produce `words` words.
dsl::Expr random_expr(Rng& rng, unsigned width, uint64_t words, const ProgramShape& shape = {});
// The same, built.
dsl::Program random_program(Rng& rng, unsigned width, uint64_t words, const ProgramShape& shape = {});

// A width that archives may hold: 8, 16, 32 or 64.
unsigned random_width(Rng& rng);

}  // namespace brevis::test
