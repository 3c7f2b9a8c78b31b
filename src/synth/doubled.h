// SPDX-License-Identifier: Apache-2.0
//
// Streams whose rows are a half and the same half again, as the cosines and sines of rotary embeddings are kept, or
// whose words come in equal pairs. No search sees both that and what the half by itself is: the half is a stream of its
// own, and whatever program it gets goes below three nodes that say it twice:
//
//   transpose(R, 2 h; scan(xor, R h; transpose(h, R; half), constant(0)))
//
// for R rows of 2 h words a frame. Turned, the second half of the columns is the first one again; turned back, the half
// has its rows as they were.
//
// Errors: those of reading the stream. Threads: pure. Determinism: exact facts.
#pragma once

#include <optional>

#include "dsl/program.h"
#include "synth/stream.h"

namespace brevis::synth {

struct Doubled {
  uint64_t row = 0;            // words, 2 for pairs
  uint64_t rows = 0;           // of a frame, all frames alike
  std::vector<uint64_t> half;  // the shape of the half; may be empty

  uint64_t frame_words() const { return row * rows; }
};

// nullopt where rows are no such, or too many to be cut into frames of one length, not much shorter than `frame_words`.
Result<std::optional<Doubled>> find_doubled(const Stream& stream, uint64_t frame_words);

// Its first halves. Reads from `stream`, which has to live on.
Stream half_of(const Stream& stream, const Doubled& doubled);

dsl::Expr say_twice(const Doubled& doubled, dsl::Expr half);

}  // namespace brevis::synth
