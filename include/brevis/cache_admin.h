// SPDX-License-Identifier: Apache-2.0
//
// A look at a cache on disk (brevis-mount --cache-dir) from outside, and its end.
//
// Errors:  not_found when the directory holds no cache, busy when a daemon uses it (clear, verify), corrupt when its
// list
//          cannot be read, io.
// Threads: any, one at a time for a directory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "brevis/error.h"
#include "brevis/types.h"

namespace brevis {

struct CachedArchive {
  Digest name;  // made of the archive's id, size, time and owner
  uint64_t frames = 0, bytes = 0;
};

struct CacheReport {
  uint64_t frames = 0, bytes = 0;  // decoded
  uint64_t disk_bytes = 0;         // that its files take
  bool in_use = false;
  std::vector<CachedArchive> archives;  // most bytes first
};
// Also while a daemon uses it: then frames that come and go at the time may be missing.
Result<CacheReport> report_cache(const std::string& directory);

// Removes what is kept; files of others stay.
Status clear_cache(const std::string& directory);

struct CacheCheck {
  uint64_t frames = 0, bytes = 0;
  uint64_t wrong = 0;  // frames that cannot be read or are not what they should be: misses, never served
};
// Reads every frame.
Result<CacheCheck> verify_cache(const std::string& directory);

}  // namespace brevis
