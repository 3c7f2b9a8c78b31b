// SPDX-License-Identifier: Apache-2.0
//
// What the two halves of the cache on disk share: its list in memory, and the thread that writes. disk.cc opens with
// how they go together.
//
// Errors:  none leave it: counted and logged. Threads: as said of each part. Owns: all of the cache.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cache/directory.h"
#include "cache/disk.h"
#include "cache/slots.h"

namespace brevis::cache {

inline constexpr unsigned kFaultsInRow = 8;       // until the cache rests, or begins anew
inline constexpr uint64_t kUnknownReadPs = 2000;  // a byte, until measured: half a gigabyte a second

using DiskClock = std::chrono::steady_clock;

inline uint64_t ns_since(DiskClock::time_point began) {
  return static_cast<uint64_t>(std::chrono::nanoseconds(DiskClock::now() - began).count());
}

struct DiskEntry {
  IndexRecord record;
  unsigned pins = 0;
  bool touched = false;
  bool gone = false;  // dropped while pinned: the last reader removes it
};
using DiskEntries = std::list<DiskEntry>;

struct DiskOffer {
  Key key;
  BlockPtr block;
};

struct DiskState {
  DiskState(const DiskOptions& the_options, CacheDirectory the_directory, uint32_t slot_limit)
      : options(the_options),
        directory(std::move(the_directory)),
        slots(directory.fd(), directory.path()),
        free(slot_limit),
        first_limit(slot_limit) {}

  const DiskOptions options;
  CacheDirectory directory;
  Slots slots;
  std::unique_ptr<Index> index;  // the writer's; none while it fails
  DiskClock::time_point index_failed{};

  mutable std::mutex mutex;
  std::condition_variable wake, settled;
  DiskEntries used;  // front: next to go
  std::unordered_map<Key, DiskEntries::iterator, KeyHash> entries;
  SlotList free;
  const uint32_t first_limit;
  std::deque<DiskOffer> queue;
  std::unordered_set<Key, KeyHash> waiting;  // keys in the queue and in the batch under way
  std::vector<Key> touched, forgotten;       // forgotten: dropped, and the index does not know it yet
  uint64_t queued_bytes = 0, tick = 0, pins = 0, held_slots = 0;
  bool stopping = false, begin_anew = false, writing = false;
  unsigned faults_in_row = 0, wrong_in_row = 0;
  DiskClock::time_point rest_until{}, logged_at{};
  uint64_t charged = 0;               // the writer's
  uint64_t read_ps = kUnknownReadPs;  // picoseconds a byte, a moving mean
  Disk::Counters counts;
  std::thread writer;

  void restore(std::vector<IndexRecord> records);
  void run();
  void note_fault(const Error& error);
  uint64_t list_bytes() const;  // about; with the lock held, or when nobody else is there
  void charge(uint64_t bytes);  // the memory that is taken from now on; the writer's

  // With the lock held:
  bool resting() const { return begin_anew || DiskClock::now() < rest_until; }
  void drop(DiskEntries::iterator entry, std::vector<Key>& removed);
  bool make_room(size_t count, std::vector<Key>& removed);
  void unpin(DiskEntries::iterator entry);
  void count_read(uint64_t ns, size_t bytes);

  // The writer's:
  void measure();
  struct Work {
    IndexRecord record;
    BlockPtr block;
  };
  std::vector<Work> begin_batch(std::vector<Key>& removed);
  void write_batch();
  void tell_index(std::span<const Key> removed, std::span<const IndexRecord> written);
  std::vector<IndexRecord> touched_records(size_t limit);
  void clear_all();
};

}  // namespace brevis::cache
