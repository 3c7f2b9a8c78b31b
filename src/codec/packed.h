// SPDX-License-Identifier: Apache-2.0
//
// The gate of `packed` payloads, for the codec itself and for those who unpack while they do something else.
//
// Threads: pure functions. Owns: nothing.
#pragma once

#include "codec/codec.h"

namespace brevis::codec {

struct PackedFields {
  ByteSpan bytes;  // (count * b + 7) / 8 of them
  unsigned b;      // bits of a field, 0 to the stream's width; 0: all words are 0
};

// What a payload of `count` words of `width` bits holds. Errors: corrupt.
Result<PackedFields> open_packed(ByteSpan payload, size_t count, unsigned width);

}  // namespace brevis::codec
