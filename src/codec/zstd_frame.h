// SPDX-License-Identifier: Apache-2.0
//
// Single zstd frames that state their content's size: what the codecs `zstd` and `text` store, and a first look at what
// zstd would make of bytes, several times faster than coding them.
//
// Errors: corrupt for a payload, internal when libzstd fails. Threads: any; each has its contexts. Determinism: that of
// libzstd at a fixed level.
#pragma once

#include "bits/words.h"
#include "brevis/error.h"
#include "brevis/types.h"

namespace brevis::codec {

// The size of the content that the frame at the front states; nothing of it is unpacked.
Result<uint64_t> zstd_frame_content(ByteSpan payload);
// The payload is exactly one frame, whose content fills `out`.
Status unpack_zstd_frame(ByteSpan payload, MutByteSpan out);
// `lane`: of the words that the bytes are.
Status append_zstd_frame(ByteSpan bytes, int level, ByteVector& out, unsigned lane = 1);

// Bytes after a fast run of zstd, and after one that comes near what is stored in a fraction of the time; those of the
// input where it fails.
size_t zstd_fast_size(bits::ConstWords words);
size_t zstd_near_size(bits::ConstWords words);

}  // namespace brevis::codec
