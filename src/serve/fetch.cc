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
// Reading ahead (look_ahead) leads flights of its own on workers, for frames that nobody is at, and hands them to
// whoever joined meanwhile; what stands on a base is read ahead by requests of our own. What is to be pushed into the
// kernel's page cache is read as a request of our own, too; storing it is done by threads that answer nobody
// (pusher.h).
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

// Pieces in which is read ahead: enough of them for several workers, each a few frames.
constexpr uint64_t kAheadPiece = uint64_t{1} << 20;
constexpr unsigned kPushThreads = 2;
// Ahead of all streams together at most this share of the memory.
constexpr uint64_t kAheadShare = 4;

Error out_of_memory(const std::string& path) { return Error::from_errno(ENOMEM, "reading '" + path + "'"); }
}  // namespace

Fetch::Fetch(std::shared_ptr<cache::Store> store, std::unique_ptr<cache::Disk> disk, const Options& options)
    : readahead_(options.readahead),
      store_(std::move(store)),
      frames_(store_, std::move(disk)),
      admission_(store_->capacity() / 2),
      pusher_(kPushThreads, [this](const auto& archive, Range range,
                                   ReadDone done) { read_to_push(archive, range, std::move(done)); }),
      blocking_(options.workers) {}

// The workers answer what the pushing threads asked for, so those end first.
Fetch::~Fetch() { pusher_.stop(std::chrono::milliseconds::max()); }

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
  if (admission_.enter(request->source(), request->cost, request)) drive({request});
}

void Fetch::drive(Ready ready) {
  for (size_t i = 0; i < ready.size(); ++i) {
    const RequestPtr request = std::move(ready[i]);
    advance(request, ready);
  }
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

// The decoded frame of a piece; nullptr when the request waits for it and is in other hands.
Result<cache::BlockPtr> Fetch::frame(const RequestPtr& request, const archive::FilePiece& piece, Ready& ready) {
  const cache::Key key{request->archive->cache_id(), piece.frame_index};
  const size_t serving = request->to_page_cache ? piece.piece.length : 0;
  if (request->arrived) {
    Result<cache::BlockPtr> block = std::move(*request->arrived);
    request->arrived.reset();
    // Its leader took only his own part.
    if (request->joined && block && serving != 0) (void)store_->find(key, serving);
    request->joined = false;
    return block;
  }
  if (request->leads) return lead(request, piece, ready);
  if (auto block = store_->find(key, serving)) {
    counters_.hits.fetch_add(1, std::memory_order_relaxed);
    return block;
  }
  const bool leads = flights_.with([&](auto& flights) {
    const auto [flight, is_new] = flights.try_emplace(key);
    request->joined = !is_new;
    if (!is_new) flight->second.push_back(request);
    return is_new;
  });
  if (!leads) {
    counters_.joined.fetch_add(1, std::memory_order_relaxed);
    return cache::BlockPtr();
  }
  // A flight may have landed between the two looks above.
  if (auto block = store_->find(key, serving)) {
    counters_.hits.fetch_add(1, std::memory_order_relaxed);
    land(key, block, ready);
    return block;
  }
  request->leads = true;
  return lead(request, piece, ready);
}

// Goes on with a flight that the request leads.
Result<cache::BlockPtr> Fetch::lead(const RequestPtr& request, const archive::FilePiece& piece, Ready& ready) {
  const cache::Key key{request->archive->cache_id(), piece.frame_index};
  Result<bool> bases = false;
  try {
    bases = read_bases(request, piece, ready);
  } catch (const std::bad_alloc&) {
    bases = out_of_memory(request->path());  // the flight has to land all the same
  }
  if (bases && !*bases) return cache::BlockPtr();
  request->leads = false;
  Result<cache::BlockPtr> block = bases ? obtain(*request, piece, false) : bases.error();
  if (block && !*block) {
    if (wait_for_storage(request, piece)) return block;
    block = out_of_memory(request->path());
  }
  request->bases.reset();
  land(key, block, ready);
  return block;
}

Result<bool> Fetch::read_bases(const RequestPtr& request, const archive::FilePiece& piece, Ready& ready) {
  if (request->reader->manifest().bases.empty()) return true;
  if (!request->bases) request->bases.emplace(*request->reader, piece);
  if (request->base_arrived) {
    Result<ReadResult> arrived = std::move(*request->base_arrived);
    request->base_arrived.reset();
    if (!arrived) return std::move(arrived).error();
    request->bases->add(std::move(*arrived));
  }
  if (request->bases->done()) return true;
  BREVIS_TRY(start_base_read(request, request->bases->next(), ready));
  return false;
}

Status Fetch::start_base_read(const RequestPtr& request, const archive::BaseSpan& span, Ready& ready) {
  const auto bases = request->archive->bases();
  if (span.base >= bases.size()) return make_error(Errc::internal, request->path() + ": its bases are not open");
  auto child = std::make_shared<Request>();
  child->archive = bases[span.base];
  child->range = span.range;
  child->parent = request;
  child->of_reader = false;
  child->to_page_cache = false;
  child->reader = child->archive->reader();
  if (child->reader) {
    BREVIS_TRY(child->plan());
    ready.push_back(std::move(child));
    return {};
  }
  load(child->archive, [this, child](Result<ReaderPtr> reader) {
    Ready next;
    Status planned = reader ? Status() : Status(std::move(reader).error());
    if (planned) {
      child->reader = std::move(*reader);
      planned = child->plan();
    }
    if (planned) {
      next.push_back(child);
    } else {
      finish(child, std::move(planned), next);
    }
    drive(std::move(next));
  });
  return {};
}

// Leads a flight. `may_wait` false: nullptr when storage would have to be waited for.
Result<cache::BlockPtr> Fetch::obtain(Request& request, const archive::FilePiece& piece, bool may_wait) {
  const size_t serving = request.to_page_cache ? piece.piece.length : 0;
  Result<cache::BlockPtr> block;
  try {
    std::span<const ByteSpan> bases;
    if (request.bases) bases = request.bases->frame_bytes(*store_);
    block = frames_.obtain(*request.archive, *request.reader, piece,
                           {may_wait, !request.of_reader && !request.parent, serving, true, bases});
  } catch (const std::bad_alloc&) {
    block = out_of_memory(request.path());  // the flight has to land all the same
  }
  if (!block)
    frames_.note_failure(*request.archive, *request.reader, piece, request.range.offset + piece.piece.at,
                         block.error());
  return block;
}

// Passes the request, which leads the flight of this piece, to a worker. False: nothing was passed on.
bool Fetch::wait_for_storage(const RequestPtr& request, const archive::FilePiece& piece) {
  try {
    blocking_.post({request->source(), request->device()}, [this, request, &piece] {
      request->arrived = obtain(*request, piece, true);
      request->bases.reset();
      Ready ready{request};
      land({request->archive->cache_id(), piece.frame_index}, *request->arrived, ready);
      drive(std::move(ready));
    });
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// Ends a flight: whoever joined it goes on with the frame, or fails as its leader does.
void Fetch::land(const cache::Key& key, const Result<cache::BlockPtr>& block, Ready& ready) {
  const Waiters waiters = flights_.with([&](auto& flights) {
    auto flight = flights.extract(key);
    return std::move(flight.mapped());
  });
  for (const RequestPtr& waiter : waiters) {
    waiter->arrived = block;
    ready.push_back(waiter);
  }
}

void Fetch::look_ahead(const RequestPtr& request, const Reader& reader) {
  const std::shared_ptr<OpenArchive>& archive = request->archive;
  if (readahead_ == 0 || !request->of_reader) return;
  const uint64_t size = archive->header().original_size;
  const uint64_t room = store_->capacity() / kAheadShare;
  const Streams::Advice advice = archive->streams().with([&](Streams& streams) {
    const uint64_t limit = std::min(readahead_, room / std::max<size_t>(streams.active(), 1));
    return streams.note(request->range, size, limit < kAheadPiece ? 0 : limit);
  });
  if (advice.is_new) counters_.streams.fetch_add(1, std::memory_order_relaxed);
  if (advice.range.length == 0) return;
  // The kernel has several large requests under way by itself. Where their bytes are at hand, decoding each when it
  // comes, into memory that is still warm when it is copied, is all the work that has to be done.
  if (reader.to_page_cache && !advice.small && !advice.falling && archive->at_hand()) return;
  const Blocking::Source source{archive->number(), archive->backing().stat.device};
  if (!archive->at_hand()) {
    auto job = [this, archive, range = advice.range, open = reader.open] {
      if (!open.expired()) frames_.announce(*archive, range);
    };
    blocking_.post(source, std::move(job), true);
  }
  if (reader.to_page_cache && advice.small &&
      pusher_.push({archive, reader.node, reader.open, advice.range, size, advice.falling, advice.position}))
    return;
  for (uint64_t done = 0; done < advice.range.length; done += kAheadPiece) {
    const uint64_t length = std::min(kAheadPiece, advice.range.length - done);
    const uint64_t at = advice.falling ? advice.range.end() - done - length : advice.range.offset + done;
    auto job = [this, archive, range = Range{at, length}, open = reader.open, advice] {
      if (!open.expired()) fetch_ahead(archive, range, advice);
    };
    blocking_.post(source, std::move(job), true);
  }
}

// Brings the frames of a range into memory, leading a flight for each that nobody is at. The reader may have come by in
// the meantime.
void Fetch::fetch_ahead(const std::shared_ptr<OpenArchive>& archive, Range range, const Streams::Advice& advice) {
  const ReaderPtr reader = archive->reader();
  std::vector<archive::FilePiece> pieces;
  if (!reader || !archive::plan_file(*reader, range, pieces)) return;
  for (const archive::FilePiece& piece : pieces) {
    const bool on_base = !reader->manifest().records[piece.record].bases.empty();
    const bool is_frame = piece.piece.kind == dsl::Piece::Kind::frame;
    if (!is_frame && piece.piece.kind != dsl::Piece::Kind::base) continue;
    const uint64_t position = advice.position->load(std::memory_order_relaxed);
    const uint64_t at = range.offset + piece.piece.at;
    if (advice.falling ? at >= position : at + piece.piece.length <= position) continue;
    const cache::Key key{archive->cache_id(), piece.frame_index};
    if (is_frame && store_->contains(key)) continue;
    if (on_base) {
      difference_ahead(archive, reader, {at, piece.piece.length});
      continue;
    }
    const bool leads = flights_.with([&](auto& flights) { return flights.try_emplace(key).second; });
    if (!leads) continue;
    const auto block = frames_.obtain(*archive, *reader, piece, {.may_wait = true, .ahead = true});
    if (!block) frames_.note_failure(*archive, *reader, piece, range.offset + piece.piece.at, block.error());
    Ready ready;
    land(key, block, ready);
    drive(std::move(ready));
  }
}

// What stands on a base takes a read of our own, with all that a reader's does: it may wait for frames of the base, and
// for memory. Its reply is of no use, the frames stay in memory.
void Fetch::difference_ahead(const std::shared_ptr<OpenArchive>& archive, const ReaderPtr& reader, Range range) {
  auto request = std::make_shared<Request>();
  request->archive = archive;
  request->range = range;
  request->done = [](const Result<ReadResult>&) {};
  request->of_reader = false;
  request->to_page_cache = false;
  request->reader = reader;
  start(request);
}

// A read of our own: whoever has the file open gets these bytes from the page cache then.
void Fetch::read_to_push(const std::shared_ptr<OpenArchive>& archive, Range range, ReadDone done) {
  auto request = std::make_shared<Request>();
  request->archive = archive;
  request->range = range;
  request->done = std::move(done);
  request->of_reader = false;
  request->reader = archive->reader();
  if (request->reader) return start(request);
  request->done(make_error(Errc::unavailable, "its index was dropped"));
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
