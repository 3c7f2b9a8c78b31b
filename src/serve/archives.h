// SPDX-License-Identifier: Apache-2.0
//
// Archives that are or were open: one object a version of a file, shared by all its handles, with an index that can be
// dropped and read again. The descriptor stays: it is what keeps an old version's bytes after a replacement.
//
// Indexes count against the memory cap and may have a share of it; the least recently used go first, those of open
// files too. The one used last always stays, or an index larger than the share would be read again for every request.
//
// Errors:  of reading the index: corrupt, truncated, unsupported, io.
// Threads: any.
// Owns:    archives that were used lately; handles own theirs.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "archive/reader.h"
#include "base/threads.h"
#include "cache/store.h"
#include "serve/readahead.h"
#include "serve/tree.h"

namespace brevis::serve {

using ReaderPtr = std::shared_ptr<const archive::Reader>;
struct ArchivesState;

class OpenArchive {
 public:
  OpenArchive(std::shared_ptr<ArchivesState> state, uint64_t number, Backing backing, File file);
  ~OpenArchive();
  OpenArchive(const OpenArchive&) = delete;
  OpenArchive& operator=(const OpenArchive&) = delete;

  uint64_t number() const { return number_; }  // of this object, never used again
  const Backing& backing() const { return backing_; }
  const archive::Header& header() const { return backing_.header; }
  const std::string& path() const { return file_.path(); }
  // Names its frames in the cache: by id and version of the file, so that of two files that claim one id neither can
  // speak for the other.
  const Digest& cache_id() const { return cache_id_; }

  // Names its frames in the cache on disk, which outlives mounts, moves and device numbers: by id, size, time and
  // owner, so that nobody's file can speak for another owner's.
  const Digest& lasting_id() const { return lasting_id_; }
  // What frames like one of `bytes` bytes that took `ns` take on average, this one included.
  uint64_t mean_cost(uint64_t ns, uint64_t bytes);
  // The archives that this one stands on, by the index's numbers; known once the index was read.
  std::vector<std::shared_ptr<OpenArchive>> bases() const;

  // The index if it is in memory, and a mark that it is in use; nullptr when load() is needed.
  ReaderPtr reader() const;
  // Reads the index, and finds and opens the bases when it is the first time. Waits for storage.
  Result<ReaderPtr> load();
  // To be told of every decoded frame: tables are loaded on use, and what is charged for the index follows now and
  // then.
  void count_decode();
  // To be told of every fetch of a frame, and whether storage had to be waited for.
  void note_fetch(bool at_hand) {
    if (!at_hand)
      waits_.store(kWaitsRemembered, std::memory_order_relaxed);
    else if (const unsigned left = waits_.load(std::memory_order_relaxed); left > 0)
      waits_.store(left - 1, std::memory_order_relaxed);
  }
  // Storage has not been waited for lately.
  bool at_hand() const { return waits_.load(std::memory_order_relaxed) == 0; }
  // What its readers are at.
  Guarded<Streams>& streams() { return streams_; }
  // True the first time it is asked about a frame.
  bool first_damage(uint64_t frame);

 private:
  friend struct ArchivesState;
  friend class Archives;
  const std::shared_ptr<ArchivesState> state_;
  const uint64_t number_;
  const Backing backing_;
  const File file_;
  const Digest cache_id_, lasting_id_;
  Result<ReaderPtr> read_index() const;
  Status find_bases(const archive::Reader& reader);
  void recount();

  static constexpr unsigned kWaitsRemembered = 64;  // frames
  std::atomic<unsigned> waits_{0};
  std::atomic<uint64_t> decodes_{0};
  struct Costs {
    uint64_t ns = 0, bytes = 0;
  };
  Guarded<Costs> costs_;
  Guarded<std::unordered_set<uint64_t>> damaged_;
  Guarded<Streams> streams_;
  // Under the state's lock:
  ReaderPtr reader_;
  bool has_bases_ = false;  // bases_ is what it shall be
  std::vector<std::shared_ptr<OpenArchive>> bases_;
  uint64_t charged_ = 0;
  std::list<OpenArchive*>::iterator loaded_at_{};
};

class Archives {
 public:
  // `store` is charged for the indexes.
  explicit Archives(std::shared_ptr<cache::Store> store);
  ~Archives();

  // How the bases of an archive are found; without it archives that have some cannot be opened.
  using FindBases =
      std::function<Result<std::vector<std::shared_ptr<OpenArchive>>>(const OpenArchive&, const archive::Reader&)>;
  void set_find_bases(FindBases find);

  // The archive of this version if it is known.
  std::shared_ptr<OpenArchive> find(const Version& version) const;
  // The one known of this version, or a new one that reads from `file`.
  std::shared_ptr<OpenArchive> adopt(const Backing& backing, File file);
  // Keeps it at hand for the next who opens it.
  void remember(const std::shared_ptr<OpenArchive>& archive);
  // Not those that have lost their last name: their room shall be free once nobody reads them. May wait for storage.
  void forget_removed();

  uint64_t index_bytes() const;
  size_t open_archives() const;

 private:
  std::shared_ptr<ArchivesState> state_;
};

}  // namespace brevis::serve
