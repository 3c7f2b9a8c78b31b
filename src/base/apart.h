// SPDX-License-Identifier: Apache-2.0
//
// Work in a process of its own, for libraries that may crash or loop on damaged input: it ends there, and the caller
// is told.
//
// Errors:  corrupt when the work ended in a crash, took too long, or said more than the limit; what the work returned.
// Threads: forks; best before others run. The work may use what a child after a fork may: no locks of other threads;
// and
//          no files that were open, but the standard ones.
// Owns:    the child, which is gone on return, and ends with its parent.
#pragma once

#include <functional>

#include "brevis/error.h"
#include "brevis/types.h"

namespace brevis {

// Runs work(tell) in a child, where tell(bytes) sends bytes to the parent; everything told, in order.
using Tell = std::function<bool(ByteSpan)>;
Result<ByteVector> run_apart(const std::function<bool(const Tell&)>& work, size_t limit_bytes, unsigned seconds);

}  // namespace brevis
