// SPDX-License-Identifier: Apache-2.0
//
// Counts to frequencies that sum to a power of two, for the codecs that code by probability.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace brevis::codec {

// Frequencies of sum 2^scale_bits, each at least 1, that cost least for these counts. Integer arithmetic only.
// Requires: 1 <= counts.size() <= 2^scale_bits <= 2^16, all counts > 0, their sum below 2^64.
std::vector<uint32_t> normalise(std::span<const uint64_t> counts, unsigned scale_bits);

// Bits of one symbol of this frequency, in units of 2^-16.
uint64_t cost_of(uint32_t frequency, unsigned scale_bits);

}  // namespace brevis::codec
