// SPDX-License-Identifier: Apache-2.0
//
// Streams whose steps away from a base depend on the base's own words, as those of training do: the `update` that
// deals steps to four programs by the exponents of the base.
//
// Errors: those of reading. Threads: one caller; frames are compared in the pool. Determinism: as synth::choose.
#pragma once

#include "bits/combine.h"
#include "pack/patching.h"

namespace brevis::pack {

// update(..; base, steps..) with its tables, where it is estimated below `limit` bytes.
Result<std::optional<synth::Choice>> choose_update(const PatchSource& source, bits::Combine combine,
                                                   uint64_t frame_words, uint64_t limit, Pool& pool, size_t window);

}  // namespace brevis::pack
