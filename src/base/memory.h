// SPDX-License-Identifier: Apache-2.0
//
// How much memory the machine, or the control group this process is in, or one above that, has to give.
//
// Errors:  none: what cannot be found out is taken for plenty. Threads: any.
#pragma once

#include <cstdint>
#include <string>

namespace brevis {

struct MemoryState {
  uint64_t total = UINT64_MAX, available = UINT64_MAX;  // bytes; what the page cache could give back is available
};
// `root`: where /proc and /sys are looked for, for tests.
MemoryState memory_state(const std::string& root = {});

}  // namespace brevis
