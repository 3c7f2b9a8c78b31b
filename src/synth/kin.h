// SPDX-License-Identifier: Apache-2.0
//
// What a stream's kin tell about it: whether a glance at it is enough.
//
// Errors:  those of reading the stream. Threads: pure. Determinism: integers only.
#pragma once

#include "synth/choose.h"

namespace brevis::synth {

// Whether what so many in a row told is asked anew all the same.
bool is_doubted(unsigned in_a_row);

// Whether so much entropy a word is about the `other`.
bool resembles(uint64_t entropy, uint64_t other);

// Whether it is as its kin were. `entropy`: of the stream by its statistics. `after`: so many in a row are believed, 0
// for none.
Result<bool> is_like(const Stream& stream, uint64_t entropy, const Kin& kin, unsigned after);

}  // namespace brevis::synth
