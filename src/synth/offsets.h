// SPDX-License-Identifier: Apache-2.0
//
// Offsets at the root: tensors whose rows and columns have scales of their own are brought to one scale before any
// split is priced. A sample tells which axes promise to win; the steps are then fitted to the whole stream, and the
// statistics of what is left are those that known-good structures are priced with.
//
// Threads: pure. Errors: those of reading the stream. Determinism: integers only.
#pragma once

#include "synth/choose.h"

namespace brevis::synth {

constexpr uint64_t kLeastDealt = 16384;  // words of a stream that is dealt out: four sets of tables have to be won

// An offset that does best on a sample, and what the fields moved and the two bits below them are expected to cost in
// the whole stream, 1/256 bits.
struct OffsetPromise {
  std::vector<uint64_t> params;
  uint64_t plain = 0;  // as they are
  uint64_t moved = 0;  // by the offset
  uint64_t dealt = 0;  // by a select of the same steps; 0 below kLeastDealt
};

// nullopt where none promises anything.
Result<std::optional<OffsetPromise>> promising_offset(const Stream& stream, bool at_a_glance = false);

struct Shifted {
  std::vector<uint64_t> params;
  ByteVector stored;  // the steps, fitted to the whole stream
  StreamStats stats;  // of the words that are left
};
// `counted`: as in StreamStats.
Result<Shifted> shift_whole(const Stream& stream, const std::vector<uint64_t>& params, unsigned counted);

}  // namespace brevis::synth
