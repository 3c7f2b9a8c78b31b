// SPDX-License-Identifier: Apache-2.0
//
// What a served volume has done so far, as plain numbers: for logs, metrics and tests. All but those marked "now" only
// grow. Bytes are decoded bytes.
//
// Threads: values; a snapshot taken while others work, so sums of several need not agree to the last one.
#pragma once

#include <cstdint>

namespace brevis {

struct VolumeCounters {
  uint64_t reads = 0, bytes_read = 0;  // requests of readers, and what they were given

  // Frames, by where they came from.
  uint64_t frame_hits = 0;      // memory
  uint64_t frame_misses = 0;    // looked for in memory in vain
  uint64_t flights_joined = 0;  // somebody else was at it: waited for
  uint64_t frames_decoded = 0, decoded_bytes = 0;
  uint64_t decode_ns = 0;       // decoding alone, over all threads
  uint64_t source_ns = 0;       // reading stored frames, over all threads
  uint64_t evictions = 0;       // from memory
  uint64_t damaged_frames = 0;  // each once

  // Now.
  uint64_t cache_bytes = 0, index_bytes = 0, open_files = 0, open_archives = 0;

  // The cache on disk; all zero without one.
  uint64_t disk_hits = 0, disk_misses = 0;
  uint64_t disk_hit_bytes = 0, disk_written_bytes = 0;
  uint64_t disk_evictions = 0;
  uint64_t disk_unworthy = 0;  // decoded frames not kept, as fetching them again costs less than reading the cache
  uint64_t disk_dropped = 0;   // not kept, as the disk could not follow
  uint64_t disk_faults = 0;    // calls that failed and blocks that were not what they should be
  uint64_t disk_rebuilds = 0;  // times the cache was thrown away and begun anew
  uint64_t disk_bytes = 0, disk_entries = 0, disk_capacity = 0;  // now

  // Reading ahead.
  uint64_t ahead_streams = 0;                 // recognised
  uint64_t ahead_frames = 0;                  // fetched before anybody asked
  uint64_t ahead_used = 0, ahead_wasted = 0;  // of those in memory: asked for later, or evicted unasked
  uint64_t pushes = 0, pushed_bytes = 0;      // into the kernel's page cache
  uint64_t pushes_refused = 0;                // by the kernel
};

}  // namespace brevis
