// SPDX-License-Identifier: Apache-2.0
//
// How the threads go together.
//
// A read is a Request: a list of pieces and a place in it. Whoever holds it does piece after piece (advance) until it
// is answered or must wait. It never waits in a thread:
//
//   for memory    Admission keeps it until others have given back enough (enter, finish)
//   for a frame   that somebody else is decoding: it is added to that frame's flight (frame, land)
//   for storage   the leader of a flight reads without waiting and decodes at once where the bytes are in memory;
//                 otherwise a worker reads, and goes on with the request from there (wait_for_storage)
//   for an index  that was dropped: it is loaded by a worker, once (load)
//   for a base    of a difference: a child request reads it there, and whoever ends that goes on here (read_bases)
//
// What a step sets free (waiters of a flight that landed, requests admitted) is put on the thread's own list and done
// after what it is at (drive): no recursion, and no hand-over to another thread, which costs more than a frame's decode
// and would be lost in a pool whose workers all wait for dead storage.
//
// Reading ahead (look_ahead) leads flights of its own, for frames that nobody is at, and hands them to whoever joined
// meanwhile: on workers where storage has to be waited for, else on a thread of its own (decode_ahead.h); what stands
// on a base is read ahead by requests of our own. What is to be pushed into the kernel's page cache is read as a
// request of our own, too; storing it is done by threads that answer nobody (pusher.h).
//
// A leader also leads the flights of small frames that its request comes to next (lead_company), and lands them before
// it waits for anything.
//
// Why this cannot lock up: only the leader of a flight is waited for, and a leader waits for storage and for flights of
// its bases only, which are fewer steps from the chain's end. Admission never stands between a leader and its frame: a
// request is admitted before its first piece, with all that its children may hold; they are not asked.
//
// No lock is held over I/O, a decode or a reply; flights_ and loads_ are taken alone.
#include "serve/fetch.h"

#include <algorithm>
#include <cerrno>
#include <new>

#include "brevis/log.h"

namespace brevis::serve {
namespace {

constexpr unsigned kPushThreads = 2;

}  // namespace

Fetch::Fetch(std::shared_ptr<cache::Store> store, std::unique_ptr<cache::Disk> disk, const Options& options)
    : readahead_(options.readahead),
      store_(std::move(store)),
      frames_(store_, std::move(disk)),
      admission_(store_->capacity() / 2),
      pusher_(kPushThreads, [this](const auto& archive, Range range,
                                   ReadDone done) { read_to_push(archive, range, std::move(done)); }),
      decode_ahead_([this](const DecodeAhead::Job& job) { fetch_ahead(job.archive, job.range, job.advice, false); }),
      blocking_(options.workers) {}

// The workers answer what the threads that work ahead asked for, so those end first.
Fetch::~Fetch() {
  decode_ahead_.stop();
  pusher_.stop(std::chrono::milliseconds::max());
}

void Fetch::read(std::shared_ptr<OpenArchive> archive, Range range, Reader reader, ReadDone done) {
  counters_.reads.fetch_add(1, std::memory_order_relaxed);
  const uint64_t size = archive->header().original_size;
  if (range.offset >= size || range.length == 0) return done(ReadResult{});
  auto request = std::make_shared<Request>();
  request->archive = std::move(archive);
  request->range = {range.offset, std::min(range.length, size - range.offset)};
  request->done = std::move(done);
  request->to_page_cache = reader.to_page_cache;
  request->reader = request->archive->reader();
  if (request->reader) {
    look_ahead(request, reader);
    return start(request);
  }
  load(request->archive, [this, request](Result<ReaderPtr> loaded) {
    if (loaded) {
      request->reader = std::move(*loaded);
      return start(request);
    }
    Ready ready;
    finish(request, std::move(loaded).error(), ready);
    drive(std::move(ready));
  });
}

void Fetch::read(std::shared_ptr<const PlainFile> plain, Range range, ReadDone done) {
  counters_.reads.fetch_add(1, std::memory_order_relaxed);
  uint64_t size = plain->size;
  if (range.length > size || range.offset > size - range.length) {  // it may have grown
    const auto now = plain->file.stat();
    if (!now) return done(now.error());
    size = now->size;
  }
  if (range.offset >= size || range.length == 0) return done(ReadResult{});
  auto request = std::make_shared<Request>();
  request->plain = std::move(plain);
  request->range = {range.offset, std::min(range.length, size - range.offset)};
  request->cost = request->range.length;
  request->done = std::move(done);
  enter(request);
}

void Fetch::start(const RequestPtr& request) {
  Status planned;
  try {
    planned = request->plan();
  } catch (const std::bad_alloc&) {
    planned = out_of_memory(request->path());
  }
  if (planned) return enter(request);
  Ready ready;
  finish(request, std::move(planned), ready);
  drive(std::move(ready));
}

void Fetch::enter(const RequestPtr& request) {
  request->admitted = true;  // before it may be in other hands
  if (admission_.enter(request->source(), request->cost, request)) drive(request);
}

void Fetch::drive(Ready ready) {
  while (!ready.empty()) advance(ready.pop_front(), ready);
}

void Fetch::drive(const RequestPtr& request) {
  Ready ready;
  ready.push_back(request);
  drive(std::move(ready));
}

void Fetch::advance(const RequestPtr& request, Ready& ready) {
  Status status;
  try {
    const Result<bool> done = request->plain ? advance_plain(request) : advance_archive(request, ready);
    if (done && !*done) return;  // in other hands by now
    if (!done) status = done.error();
  } catch (const std::bad_alloc&) {
    status = out_of_memory(request->path());
  }
  finish(request, std::move(status), ready);
}

void Fetch::finish(const RequestPtr& request, Status status, Ready& ready) {
  if (status && request->of_reader) counters_.bytes.fetch_add(request->reply.bytes(), std::memory_order_relaxed);
  if (request->parent) {
    request->parent->base_arrived = status ? Result<ReadResult>(std::move(request->reply)) : std::move(status).error();
    ready.push_back(std::move(request->parent));
    return;
  }
  try {
    request->done(status ? Result<ReadResult>(std::move(request->reply)) : std::move(status).error());
  } catch (const std::exception& e) {
    log(LogLevel::error, std::string("internal fault while answering a read: ") + e.what());
  }
  // What the reply held is free only once it is gone.
  request->reply = {};
  request->gathered.reset();
  request->company.clear();
  request->done = nullptr;
  if (request->admitted) admission_.leave(request->source(), request->cost, ready);
}

// True when the reply is complete, false when the request waits.
Result<bool> Fetch::advance_plain(const RequestPtr& request) {
  const File& file = request->plain->file;
  request->gathered = store_->allocate(request->range.length);
  const MutByteSpan out(request->gathered->data(), request->range.length);
  if (file.read_exact_nowait(request->range.offset, out)) {
    request->append(out, request->gathered);
    return true;
  }
  blocking_.post({request->source(), request->device()}, [this, request, out] {
    const Result<size_t> got = request->plain->file.read_some(request->range.offset, out);
    if (got) request->append(out.first(*got), request->gathered);
    Ready ready;
    finish(request, got ? Status() : got.error(), ready);
    drive(std::move(ready));
  });
  return false;
}

Result<bool> Fetch::advance_archive(const RequestPtr& request, Ready& ready) {
  while (request->next < request->pieces.size()) {
    const archive::FilePiece& piece = request->pieces[request->next];
    if (piece.piece.kind == dsl::Piece::Kind::frame) {
      BREVIS_ASSIGN(const cache::BlockPtr block, frame(request, piece, ready));
      if (!block) return false;
      request->place(piece, block, *store_);
    } else if (piece.piece.kind == dsl::Piece::Kind::base) {
      BREVIS_ASSIGN(const bool read, read_bases(request, piece, ready));
      if (!read) return false;
      request->place_base(piece, request->bases->take(), *store_);
      request->bases.reset();
    } else {
      request->compute(piece, *store_);
    }
    ++request->next;
  }
  if (request->is_flat) request->append({request->gathered->data(), request->range.length}, request->gathered);
  // A reply of another length would be taken for the file's end, or worse.
  if (request->reply.bytes() != request->range.length)
    return make_error(Errc::internal, request->path() + ": a reply of the wrong length");
  return true;
}

void Fetch::count(VolumeCounters& out) const {
  const Frames::Counters& frames = frames_.counters();
  const cache::Store::Counters store = store_->counters();
  out.reads = counters_.reads;
  out.bytes_read = counters_.bytes;
  out.frame_hits = counters_.hits;
  out.frame_misses = store.misses;
  out.flights_joined = counters_.joined;
  out.frames_decoded = frames.decoded;
  out.decoded_bytes = frames.decoded_bytes;
  out.decode_ns = frames.decode_ns;
  out.source_ns = frames.source_ns;
  out.damaged_frames = frames.damaged;
  out.evictions = store.evictions;
  out.cache_bytes = store.bytes;
  out.ahead_streams = counters_.streams;
  out.ahead_frames = frames.ahead;
  out.ahead_used = store.ahead_used;
  out.ahead_wasted = store.ahead_wasted;
  pusher_.count(out);
  if (!frames_.disk()) return;
  const cache::Disk::Counters disk = frames_.disk()->counters();
  out.disk_hits = disk.hits;
  out.disk_misses = disk.misses;
  out.disk_hit_bytes = disk.hit_bytes;
  out.disk_written_bytes = disk.written_bytes;
  out.disk_evictions = disk.evictions;
  out.disk_unworthy = disk.unworthy;
  out.disk_dropped = disk.dropped;
  out.disk_faults = disk.faults;
  out.disk_rebuilds = disk.rebuilds;
  out.disk_bytes = disk.bytes;
  out.disk_entries = disk.entries;
  out.disk_capacity = disk.capacity;
}

void Fetch::load(const std::shared_ptr<OpenArchive>& archive, LoadDone done) {
  if (ReaderPtr reader = archive->reader()) return done(std::move(reader));
  const bool leads = loads_.with([&](auto& loads) {
    auto& waiting = loads[archive->number()];
    waiting.push_back(std::move(done));
    return waiting.size() == 1;
  });
  if (!leads) return;
  blocking_.post({archive->number(), archive->backing().stat.device}, [this, archive] {
    Result<ReaderPtr> reader = archive->reader();
    try {
      if (!*reader) reader = archive->load();
    } catch (const std::bad_alloc&) {
      reader = out_of_memory(archive->path());
    }
    const std::vector<LoadDone> waiting = loads_.with([&](auto& loads) {
      auto all = loads.extract(archive->number());
      return std::move(all.mapped());
    });
    for (const LoadDone& waiter : waiting) waiter(reader);
  });
}

}  // namespace brevis::serve
