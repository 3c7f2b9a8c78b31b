// SPDX-License-Identifier: Apache-2.0
//
// How much memory the machine, or the control group this process is in, has to give.
//
// Errors:  none: what cannot be found out is taken for plenty. Threads: any.
#pragma once

#include <cstdint>

namespace brevis {

struct MemoryState {
  uint64_t total = UINT64_MAX, available = UINT64_MAX;  // bytes; what the page cache could give back is available
};
MemoryState memory_state();

}  // namespace brevis
