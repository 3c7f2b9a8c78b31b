// SPDX-License-Identifier: Apache-2.0
//
// What the codec `alias` lends to those who decode its payloads together with others (dsl/fused.h, dsl/ahead.h).
//
// Threads: pure functions.
#pragma once

#include <span>

#include "bits/kernels.h"
#include "codec/codec.h"

namespace brevis::codec {

// Of a table that alias loaded; lives as long as it. In the form that kernels() want.
bits::AliasDecoder alias_decoder(const Table* table);

// The rest of a payload of which so many words are decoded, and the end check.
class LaneReader;
Status finish_alias(const bits::AliasDecoder& decoder, LaneReader& reader, bits::Words out, size_t done);

// A payload among several.
struct AliasTask {
  const Table* table = nullptr;
  ByteSpan payload{};
  bits::Words out{};
  Status status{};  // what the codec's decode gives
};
constexpr size_t kMostAliasTasks = 64;

// How many payloads of so many words are decoded side by side, 0 if nothing is won by it.
size_t alias_side_by_side(size_t words);
// Decodes at most kMostAliasTasks payloads, of each of which alias_side_by_side() takes some.
void decode_alias(std::span<AliasTask> tasks);

}  // namespace brevis::codec
