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

// Parameters of the offset that does best on a sample, nullopt where none promises anything.
Result<std::optional<std::vector<uint64_t>>> promising_offset(const Stream& stream, bool at_a_glance = false);

// Whether an offset of these parameters is one of those that the stream's shape suggests.
bool offset_suits(const Stream& stream, const std::vector<uint64_t>& params);

struct Shifted {
  std::vector<uint64_t> params;
  ByteVector stored;  // the steps, fitted to the whole stream
  StreamStats stats;  // of the words that are left
};
// `frame_words`: how many words to read at a time.
Result<std::optional<Shifted>> shift_whole(const Stream& stream, const std::vector<uint64_t>& params,
                                           uint64_t frame_words);

}  // namespace brevis::synth
