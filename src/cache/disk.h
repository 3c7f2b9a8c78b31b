// SPDX-License-Identifier: Apache-2.0
//
// The cache on disk: decoded frames that outlive the process, the least recently used going first. For archives on
// storage from which fetching and decoding takes longer than reading back what was decoded. Disposable: whatever is
// odd about it makes a miss, or a new beginning; nothing about it fails a read.
//
// Requires: a directory that is ours alone (lock), on a local file system. Other people's files in it stay untouched.
// Errors:   of open() only: busy (another daemon), invalid_argument (network file system, no size), permission (others
//           may write there), io. Later ones are counted and logged.
// Threads:  any. Writing is done by a thread of its own, and what it cannot follow is not kept.
// Owns:     the files brevis.* of the directory, the thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "brevis/error.h"
#include "cache/store.h"

namespace brevis::cache {

enum class Admission : uint8_t {
  automatic,  // what costs more to fetch again than to read back, both as measured
  always,
};

struct DiskOptions {
  std::string directory;
  uint64_t size = uint64_t{20} << 30;  // of frames at most; never more than half of what the file system has free
  Admission admission = Admission::automatic;
  uint64_t queue_bytes = uint64_t{32} << 20;  // that wait to be written
  bool allow_remote = false;                  // for tests
  std::function<void(int64_t)> charge{};      // told how much memory the list has taken more, or given back
};

struct DiskState;

class Disk {
 public:
  static Result<std::unique_ptr<Disk>> open(const DiskOptions& options);
  // Writes what waits, remembers the order of use.
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  // Bytes of the frame if it is held, else 0. No look at the disk.
  size_t holds(const Key& key) const;
  enum class Found : uint8_t { hit, miss, would_wait };
  // Reads a frame of just this size, checked. Not a hit: `out` holds rubbish.
  Found read(const Key& key, MutByteSpan out, bool may_wait);
  // A frame that was fetched; `cost_ns`: what that takes for a frame like this. Returns at once.
  void offer(const Key& key, const BlockPtr& block, uint64_t cost_ns);

  struct Counters {
    uint64_t hits = 0, misses = 0, hit_bytes = 0, written_bytes = 0, evictions = 0;
    uint64_t unworthy = 0, dropped = 0, faults = 0, rebuilds = 0;
    uint64_t bytes = 0, entries = 0, capacity = 0;
    uint64_t memory = 0;  // of the list, about
  };
  Counters counters() const;
  // Until everything offered was written or given up. For tests and the end.
  void settle();

 private:
  explicit Disk(std::unique_ptr<DiskState> state);
  std::unique_ptr<DiskState> state_;
};

}  // namespace brevis::cache
