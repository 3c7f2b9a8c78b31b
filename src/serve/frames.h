// SPDX-License-Identifier: Apache-2.0
//
// Decoded frames of open archives, from the nearest place that has them: the memory's store, the cache on disk, or the
// archive itself, read and decoded. Whoever calls leads the frame's flight (fetch.h); nothing here waits for others.
//
// Errors:  of the archive's bytes only: a cache's faults are misses. A failed frame is noted once: logged, counted.
// Threads: any. Owns: scratch memory, counters; the caches are shared.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "archive/layout.h"
#include "cache/disk.h"
#include "cache/store.h"
#include "serve/archives.h"
#include "serve/scratch.h"

namespace brevis::serve {

class Frames {
 public:
  // `disk` may be null.
  Frames(std::shared_ptr<cache::Store> store, std::unique_ptr<cache::Disk> disk);

  static cache::Key key_of(const OpenArchive& archive, const archive::FilePiece& piece) {
    return {archive.cache_id(), piece.frame_index};
  }
  // In memory. `serving`: bytes that a reader is about to be given.
  cache::BlockPtr find(const OpenArchive& archive, const archive::FilePiece& piece, size_t serving);

  // Has storage begin with all of a range that will be wanted soon, where it has to be waited for.
  void announce(const OpenArchive& archive, Range range) const;

  // Small frames of the same archive that are wanted next. Where their bytes are at hand they are decoded beside the
  // one that is asked for, which takes less time than one after the other (dsl::decode_frames).
  struct Companion {
    const archive::FilePiece* piece;
    size_t serving;
    cache::BlockPtr block;  // none: it was not at hand, or is damaged, which shows when its own turn comes
  };
  using Company = std::vector<Companion>;
  static constexpr size_t kMostCompany = Scratch::kFrames - 1;
  static constexpr uint64_t kSmallBytes = uint64_t{256} << 10;  // larger ones have lanes enough

  struct Way {
    bool may_wait = false;              // for storage; else nullptr when that is needed
    bool ahead = false;                 // nobody has asked yet
    size_t serving = 0;                 // bytes of it that a reader is about to be given
    std::span<const ByteSpan> bases{};  // what the frame needs of other archives (archive::frame_bases)
    std::span<Companion> company{};     // at most kMostCompany
  };
  Result<cache::BlockPtr> obtain(OpenArchive& archive, const archive::Reader& reader, const archive::FilePiece& piece,
                                 Way way);
  // Tells a person of a frame that cannot be served. `offset`: of the piece in the file.
  void note_failure(OpenArchive& archive, const archive::Reader& reader, const archive::FilePiece& piece,
                    uint64_t offset, const Error& error) noexcept;

  cache::Store& store() { return *store_; }
  const cache::Disk* disk() const { return disk_.get(); }

  struct Counters {
    std::atomic<uint64_t> decoded{0}, decoded_bytes{0}, decode_ns{0}, source_ns{0}, damaged{0}, ahead{0};
  };
  const Counters& counters() const { return counters_; }

 private:
  cache::BlockPtr from_disk(const OpenArchive& archive, const archive::FilePiece& piece, uint64_t bytes, bool may_wait,
                            bool& would_wait);
  Result<cache::BlockPtr> from_archive(OpenArchive& archive, const archive::Reader& reader,
                                       const archive::FilePiece& piece, const Way& way);
  void keep(const OpenArchive& archive, const archive::FilePiece& piece, const cache::BlockPtr& block, const Way& way,
            size_t serving);

  bool holds(const OpenArchive& archive, const archive::FilePiece& piece) const;

  const std::shared_ptr<cache::Store> store_;
  const std::unique_ptr<cache::Disk> disk_;
  ScratchPool scratches_;
  Counters counters_;
};

}  // namespace brevis::serve
