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
//
// What a step sets free (waiters of a flight that landed, requests admitted) is put on the thread's own list and done
// after what it is at (drive): no recursion, and no hand-over to another thread, which costs more than a frame's decode
// and would be lost in a pool whose workers all wait for dead storage.
//
// Why this cannot lock up: only the leader of a flight is waited for, and a leader waits for storage only. Admission
// never stands between a leader and its frame, as a request is admitted before its first piece.
//
// No lock is held over I/O, a decode or a reply; flights_ and loads_ are taken alone.
#include "serve/fetch.h"

#include <algorithm>
#include <cerrno>
#include <new>

#include "brevis/log.h"
#include "dsl/exec.h"
#include "serve/damage.h"

namespace brevis::serve {
namespace {

// A scratch takes one or two MB: under a small cap they would leave no room for frames.
size_t idle_scratches(uint64_t capacity) {
  return std::clamp<size_t>(capacity / (uint64_t{8} << 20), 1, available_cores());
}

Error out_of_memory(const std::string& path) { return Error::from_errno(ENOMEM, "reading '" + path + "'"); }

}  // namespace

Fetch::Fetch(std::shared_ptr<cache::Store> store, unsigned workers)
    : store_(std::move(store)),
      admission_(store_->capacity() / 2),
      scratches_(*store_, idle_scratches(store_->capacity())),
      blocking_(workers) {}

void Fetch::read(std::shared_ptr<OpenArchive> archive, Range range, ReadDone done) {
  counters_.reads.fetch_add(1, std::memory_order_relaxed);
  const uint64_t size = archive->header().original_size;
  if (range.offset >= size || range.length == 0) return done(ReadResult{});
  auto request = std::make_shared<Request>();
  request->archive = std::move(archive);
  request->range = {range.offset, std::min(range.length, size - range.offset)};
  request->done = std::move(done);
  request->reader = request->archive->reader();
  if (request->reader) return start(request);
  load(request->archive, [this, request](Result<ReaderPtr> reader) {
    if (reader) {
      request->reader = std::move(*reader);
      return start(request);
    }
    Ready ready;
    finish(request, std::move(reader).error(), ready);
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
  if (status) counters_.bytes.fetch_add(request->reply.bytes(), std::memory_order_relaxed);
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
  if (request->arrived) {
    Result<cache::BlockPtr> block = std::move(*request->arrived);
    request->arrived.reset();
    return block;
  }
  const cache::Key key{request->archive->cache_id(), piece.frame_index};
  if (auto block = store_->find(key, piece.piece.length)) {
    counters_.hits.fetch_add(1, std::memory_order_relaxed);
    return block;
  }
  const bool leads = flights_.with([&](auto& flights) {
    const auto [flight, is_new] = flights.try_emplace(key);
    if (!is_new) flight->second.push_back(request);
    return is_new;
  });
  if (!leads) {
    counters_.joined.fetch_add(1, std::memory_order_relaxed);
    return cache::BlockPtr();
  }
  // A flight may have landed between the two looks above.
  if (auto block = store_->find(key, piece.piece.length)) {
    counters_.hits.fetch_add(1, std::memory_order_relaxed);
    land(key, block, ready);
    return block;
  }
  Result<cache::BlockPtr> block = decode(*request, piece, false);
  if (block && !*block) {
    if (wait_for_storage(request, piece)) return block;
    block = out_of_memory(request->path());
  }
  land(key, block, ready);
  return block;
}

// Leads a flight: reads, checks and decodes. `may_wait` false: nullptr when storage would have to be waited for.
Result<cache::BlockPtr> Fetch::decode(Request& request, const archive::FilePiece& piece, bool may_wait) {
  const archive::Reader& reader = *request.reader;
  const auto attempt = [&](Scratch& scratch) -> Result<cache::BlockPtr> {
    if (may_wait) {
      BREVIS_TRY(reader.read_frame(piece.frame_index, scratch.stored));
    } else {
      BREVIS_ASSIGN(const bool at_hand, reader.read_frame_nowait(piece.frame_index, scratch.stored));
      if (!at_hand) return cache::BlockPtr();
    }
    BREVIS_ASSIGN(const auto bound, reader.bound(piece.record));
    const archive::FramePlace place = archive::frame_place(reader, piece);
    std::shared_ptr<cache::Block> block = store_->allocate(place.bytes);
    scratch.arena.reset();
    BREVIS_TRY(dsl::decode_frame(*bound, place.region, place.first_word, scratch.stored, {block->data(), place.bytes},
                                 scratch.arena));
    return cache::BlockPtr(std::move(block));
  };
  Result<cache::BlockPtr> block;
  try {
    auto scratch = scratches_.take();
    block = attempt(*scratch);
    scratches_.give(std::move(scratch));
  } catch (const std::bad_alloc&) {
    return out_of_memory(request.path());
  }
  if (!block) {
    note_failure(request, piece, block.error());
  } else if (*block) {
    counters_.decoded.fetch_add(1, std::memory_order_relaxed);
    request.archive->count_decode();
    store_->insert({request.archive->cache_id(), piece.frame_index}, *block, piece.piece.length);
  }
  return block;
}

// Passes the request, which leads the flight of this piece, to a worker. False: nothing was passed on.
bool Fetch::wait_for_storage(const RequestPtr& request, const archive::FilePiece& piece) {
  try {
    blocking_.post({request->source(), request->device()}, [this, request, &piece] {
      request->arrived = decode(*request, piece, true);
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

void Fetch::note_failure(const Request& request, const archive::FilePiece& piece, const Error& error) {
  if (!request.archive->first_damage(piece.frame_index)) return;
  const bool is_damage = error.kind() == Errc::corrupt || error.kind() == Errc::truncated;
  if (is_damage) counters_.damaged.fetch_add(1, std::memory_order_relaxed);
  log_damage(*request.reader, piece, request.range.offset + piece.piece.at, error);
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
