// SPDX-License-Identifier: Apache-2.0
//
// A prior as a file (`--save-prior`, `--prior`): magic, version, contexts with their counts, and a checksum. Another
// person's file is untrusted bytes: it may make a search look in silly places, never do harm.
//
//   "BRVPRIOR" | varint version = 1 | varint contexts | context... | u64 XXH3-64 of all before
//   context:  12 bytes of key, ascending | varint total | varint share | varint symbols | symbol...
//   symbol:   varint numbers, then those (operator and parameters; none: a literal), ascending | varint count
//
// Errors:  read gives corrupt (with the rule) or unsupported (another version). Threads: pure functions.
#pragma once

#include "brevis/error.h"
#include "brevis/types.h"
#include "synth/prior.h"

namespace brevis::synth {

constexpr uint64_t kMaxPriorBytes = uint64_t{16} << 20;

ByteVector write_prior(const Prior& prior);
// The gate: everything is bounded by the bytes' own size.
Result<Prior> read_prior(ByteSpan bytes);

}  // namespace brevis::synth
