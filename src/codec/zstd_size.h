// SPDX-License-Identifier: Apache-2.0
//
// A first look at what zstd would make of bytes, several times faster than coding them.
//
// Threads: any; each has its context. Errors: none. Determinism: that of libzstd at a fixed level.
#pragma once

#include "brevis/types.h"

namespace brevis::codec {

// Bytes after a fast run of zstd; those of the input where it fails.
size_t zstd_fast_size(ByteSpan bytes);

}  // namespace brevis::codec
