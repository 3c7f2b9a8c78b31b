// SPDX-License-Identifier: Apache-2.0
//
// Reading files ahead of their users, so that the kernel has them in memory when they come.
//
// Errors:  a path that cannot be read ends it; io, not_found, permission, cancelled. Threads: uses its own workers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "brevis/error.h"

namespace brevis {

struct WarmOptions {
  std::vector<std::string> paths;  // files, and directories with all below them
  unsigned jobs = 0;               // reads at once, 0: cores
  std::function<void(const std::string& file, uint64_t bytes_done, uint64_t bytes_total)> progress;
  std::function<bool()> cancelled;
};

struct WarmReport {
  uint64_t files = 0, bytes = 0;
  double seconds = 0;
  // Of memory, when it began; 0 when the system does not say. What is read beyond it pushes out what was read before.
  uint64_t available_bytes = 0;
};

Result<WarmReport> warm(const WarmOptions& options);

}  // namespace brevis
