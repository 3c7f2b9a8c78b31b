// SPDX-License-Identifier: Apache-2.0
//
// What the codec `alias` lends to those who decode its payloads together with others (dsl/fused.h).
//
// Threads: pure functions.
#pragma once

#include "bits/kernels.h"
#include "codec/codec.h"

namespace brevis::codec {

// Of a table that alias loaded; lives as long as it.
bits::AliasDecoder alias_decoder(const Table* table);

// One step of decoding, the refill left to the caller: the symbol of the state's slot.
inline uint8_t alias_take(const bits::AliasDecoder& table, uint32_t& state) {
  constexpr uint32_t kMask = (1u << bits::AliasDecoder::kScaleBits) - 1;
  const uint32_t entry = table.slots[state & kMask];
  state = (entry & kMask) * (state >> bits::AliasDecoder::kScaleBits) + (entry >> 12 & kMask);
  return static_cast<uint8_t>(entry >> 24);
}

}  // namespace brevis::codec
