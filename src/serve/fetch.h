// SPDX-License-Identifier: Apache-2.0
//
// Reads of open files: from a byte range to spans of decoded frames, each frame decoded once however many ask for it at
// the same time. fetch.cc opens with how the threads go together.
//
// Errors:  a damaged frame fails the requests that touch it; it is logged once, counted, never kept.
// Threads: any. The destructor waits until every read was answered.
// Owns:    requests under way, flights, scratch memory, the workers that wait for storage, the threads that work ahead.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/threads.h"
#include "brevis/volume.h"
#include "cache/store.h"
#include "serve/admission.h"
#include "serve/archives.h"
#include "serve/blocking.h"
#include "serve/decode_ahead.h"
#include "serve/files.h"
#include "serve/frames.h"
#include "serve/pusher.h"
#include "serve/request.h"

namespace brevis::serve {

class Fetch {
 public:
  struct Options {
    unsigned workers = 1;    // threads that wait for storage
    uint64_t readahead = 0;  // bytes ahead of each stream
  };
  Fetch(std::shared_ptr<cache::Store> store, std::unique_ptr<cache::Disk> disk, const Options& options);
  ~Fetch();

  // Who asks: the file as the kernel knows it, alive as long as somebody has it open.
  struct Reader {
    NodeId node = 0;
    std::weak_ptr<const void> open;
    bool to_page_cache = true;  // not O_DIRECT
  };
  void read(std::shared_ptr<OpenArchive> archive, Range range, Reader reader, ReadDone done);
  void read(std::shared_ptr<const PlainFile> plain, Range range, ReadDone done);
  // Brings the archive's index into memory: `done` on the calling thread when it is there, else on a worker.
  using LoadDone = std::function<void(Result<ReaderPtr>)>;
  void load(const std::shared_ptr<OpenArchive>& archive, LoadDone done);
  // Work that may wait for storage, on a worker.
  void post(Blocking::Source source, std::function<void()> job) { blocking_.post(source, std::move(job)); }

  // Pushing may begin, or must end (volume.h).
  void start_pushing(PushSink sink) { pusher_.start(std::move(sink)); }
  bool stop_pushing(std::chrono::milliseconds limit) { return pusher_.stop(limit); }

  // Adds what is counted here and below.
  void count(VolumeCounters& out) const;

 private:
  using Waiters = std::vector<RequestPtr>;

  void start(const RequestPtr& request);
  void enter(const RequestPtr& request);
  void drive(Ready ready);
  void drive(const RequestPtr& request);
  void advance(const RequestPtr& request, Ready& ready);
  Result<bool> advance_plain(const RequestPtr& request);
  Result<bool> advance_archive(const RequestPtr& request, Ready& ready);
  void finish(const RequestPtr& request, Status status, Ready& ready);

  Result<cache::BlockPtr> frame(const RequestPtr& request, const archive::FilePiece& piece, Ready& ready);
  Result<cache::BlockPtr> lead(const RequestPtr& request, const archive::FilePiece& piece, Ready& ready);
  bool lead_missing(const cache::Key& key, Ready& ready);
  Frames::Company lead_company(Request& request, Ready& ready);
  Frames::Company lead_company(const OpenArchive& archive, const archive::Reader& reader,
                               std::span<const archive::FilePiece> pieces, bool serves, Ready& ready);
  void land_company(const OpenArchive& archive, const Frames::Company& company, Ready& ready);
  // False: the request waits for a read of a base and is in other hands.
  Result<bool> read_bases(const RequestPtr& request, const archive::FilePiece& piece, Ready& ready);
  Status start_base_read(const RequestPtr& request, const archive::BaseSpan& span, Ready& ready);
  bool wait_for_storage(const RequestPtr& request, const archive::FilePiece& piece);
  Result<cache::BlockPtr> obtain(Request& request, const archive::FilePiece& piece, bool may_wait,
                                 std::span<Frames::Companion> company = {});
  Waiters end_flight(const cache::Key& key);
  void land(const cache::Key& key, const Result<cache::BlockPtr>& block, Ready& ready);

  void look_ahead(const RequestPtr& request, const Reader& reader);
  void fetch_ahead(const std::shared_ptr<OpenArchive>& archive, Range range, const Streams::Advice& advice,
                   bool may_wait);
  void difference_ahead(const std::shared_ptr<OpenArchive>& archive, const ReaderPtr& reader, Range range);
  void read_to_push(const std::shared_ptr<OpenArchive>& archive, Range range, ReadDone done);

  struct Counters {
    std::atomic<uint64_t> reads{0}, bytes{0}, hits{0}, joined{0}, streams{0};
  };
  const uint64_t readahead_;
  const std::shared_ptr<cache::Store> store_;
  Counters counters_;
  Frames frames_;
  Admission admission_;
  Guarded<std::unordered_map<cache::Key, Waiters, cache::KeyHash>> flights_;
  Guarded<std::unordered_map<uint64_t, std::vector<LoadDone>>> loads_;  // by archive number
  Pusher pusher_;
  DecodeAhead decode_ahead_;
  Blocking blocking_;  // last: its jobs use the rest until it is gone
};

}  // namespace brevis::serve
