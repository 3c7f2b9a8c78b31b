// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a cache on disk: slots of one size in block files of 8,192 slots each. Knows numbers of slots and
// bytes, nothing of keys. SlotList says which are free.
//
// Errors:  io, no_space with the file's path; truncated for a slot that was never written.
// Threads: Slots any, as long as nobody reads what is being written; SlotList one at a time. Owns: the open files.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/io.h"
#include "base/threads.h"
#include "cache/index.h"

namespace brevis::cache {

constexpr uint32_t kSlotsPerFile = 8192;

std::string block_file_name(uint32_t file);

class Slots {
 public:
  Slots(int directory, std::string path) : directory_(directory), path_(std::move(path)) {}

  // False when storage would have to be waited for and that is not wished. What was read is dropped from the page
  // cache: it goes to readers through the mount, where the kernel keeps it.
  Result<bool> read(std::span<const uint32_t> slots, MutByteSpan out, bool may_wait);
  Status write(std::span<const uint32_t> slots, ByteSpan bytes);
  // Forgets the open files, which somebody removes.
  void close();

 private:
  using Place = std::shared_ptr<const File>;
  Result<Place> file_of(uint32_t slot, bool create);
  template <class Do>
  Status in_runs(std::span<const uint32_t> slots, size_t bytes, bool create, Do run);

  const int directory_;
  const std::string path_;
  Guarded<std::vector<Place>> files_;
};

class SlotList {
 public:
  explicit SlotList(uint32_t limit) : limit_(limit) {}

  // `count` free slots, side by side where it can; empty when there are not so many.
  std::vector<uint32_t> take(size_t count);
  void give(std::span<const uint32_t> slots) { free_.insert(slots.begin(), slots.end()); }
  // No slot that was never taken will be: the disk is full.
  void stop_growing() { limit_ = std::min(limit_, next_); }
  uint32_t limit() const { return limit_; }
  size_t available() const { return free_.size() + (limit_ - next_); }

 private:
  uint32_t limit_, next_ = 0;  // from next_ on none was ever taken
  std::set<uint32_t> free_;    // below next_
  friend class SlotClaims;
};

// Which slots the records of an old index take: each may be claimed once, within the limit.
class SlotClaims {
 public:
  explicit SlotClaims(uint32_t limit) : taken_(limit, false) {}
  bool claim(std::span<const uint32_t> slots);
  SlotList rest() const;

 private:
  std::vector<bool> taken_;
};

}  // namespace brevis::cache
