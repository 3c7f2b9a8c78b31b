// SPDX-License-Identifier: Apache-2.0
//
// The lasting list of what a cache on disk holds, kept in LMDB: which frame lies in which slots, with what checksum.
// The only place that names liblmdb.
//
// While a cache is in use its list is in memory (disk.h); this is how it survives the process. LMDB trusts its pages,
// and a damaged one can crash whoever reads or writes: no database is ever opened in our own process. A child reads the
// list of an earlier one; another writes a new one, begun from what the first told.
//
// Requires: one process at a time writes (the directory's lock); readers beside it use read_index() and may be told
//           corrupt now and then.
// Errors:   corrupt for what is no index of this version, no_space, io. Threads: one at a time.
// Owns:     the database; it is closed, not removed, in the end.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "brevis/error.h"
#include "cache/store.h"

namespace brevis::cache {

constexpr size_t kSlotBytes = size_t{128} << 10;
constexpr size_t kMaxSlots = 8;  // of one frame: 1 MiB is the largest that the format allows

// Where a frame lies. The checksum is of its bytes and its key (block_checksum).
struct IndexRecord {
  Key key;
  uint64_t used = 0;  // larger: more recently
  uint64_t checksum = 0;
  uint32_t bytes = 0;
  std::array<uint32_t, kMaxSlots> slots{};  // the first slot_count() of them
  size_t slot_count() const { return (bytes + kSlotBytes - 1) / kSlotBytes; }
};

class Index {
 public:
  // A new one at `path`, which must not exist.
  static Result<std::unique_ptr<Index>> create(const std::string& path);
  ~Index();

  // Removes, then adds or replaces, all or nothing.
  Status apply(std::span<const Key> removed, std::span<const IndexRecord> written);
  uint64_t file_bytes() const;

 private:
  struct State;
  explicit Index(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The records of the database at `path`, as a child process found them; those that are damaged are left out.
// Errors: not_found, corrupt.
Result<std::vector<IndexRecord>> read_index(const std::string& path);

}  // namespace brevis::cache
