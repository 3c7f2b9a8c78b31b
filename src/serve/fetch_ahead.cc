// SPDX-License-Identifier: Apache-2.0
//
// Reading ahead of streams: what is fetched before it is asked for. fetch.cc says how the threads go together.
#include <algorithm>

#include "serve/fetch.h"

namespace brevis::serve {
namespace {

// Pieces in which is read ahead: enough of them for several workers, each a few frames.
constexpr uint64_t kAheadPiece = uint64_t{1} << 20;
// Ahead of all streams together at most this share of the memory.
constexpr uint64_t kAheadShare = 4;
// Ahead of a stream whose large requests the kernel has under way itself: few enough to be in a shared cache still when
// they are copied.
constexpr uint64_t kBesideKernel = uint64_t{4} << 20;
// The same of what is pushed into the page cache: two of the blocks of which each has a hole (pusher.cc), so that one
// is pushed while the reader goes through the other.
constexpr uint64_t kPushedAhead = uint64_t{8} << 20;
// A fault at a random place of a mapping makes the kernel ask for 4 MiB around it; what goes on after that is a stream.
constexpr uint64_t kSettled = uint64_t{6} << 20;

}  // namespace

void Fetch::look_ahead(const RequestPtr& request, const Reader& reader) {
  const std::shared_ptr<OpenArchive>& archive = request->archive;
  if (readahead_ == 0 || !request->of_reader) return;
  const uint64_t size = archive->header().original_size;
  const uint64_t room = store_->capacity() / kAheadShare;
  const bool by_kernel = reader.to_page_cache && archive->at_hand();
  const Streams::Advice advice = archive->streams().with([&](Streams& streams) {
    uint64_t limit = std::min(readahead_, room / std::max<size_t>(streams.active(), 1));
    if (by_kernel) limit = std::min(limit, kPushedAhead);
    return streams.note(request->range, size, limit < kAheadPiece ? 0 : limit, by_kernel ? kBesideKernel : UINT64_MAX);
  });
  if (advice.is_new) counters_.streams.fetch_add(1, std::memory_order_relaxed);
  if (advice.range.length == 0) return;
  // The kernel has several large requests under way by itself. Where their bytes are at hand, workers would only be in
  // the way of those who answer.
  if (by_kernel && !advice.small && !advice.falling) {
    if (advice.bytes >= kSettled) decode_ahead_.add({archive, reader.open, advice.range, advice});
    return;
  }
  const Blocking::Source source{archive->number(), archive->backing().stat.device};
  if (!archive->at_hand()) {
    auto job = [this, archive, range = advice.range, open = reader.open] {
      if (!open.expired()) frames_.announce(*archive, range);
    };
    blocking_.post(source, std::move(job), true);
  }
  if (reader.to_page_cache && (advice.small || advice.falling) &&
      pusher_.push({archive, reader.node, reader.open, advice.range, size, advice.falling, advice.position}))
    return;
  for (uint64_t done = 0; done < advice.range.length; done += kAheadPiece) {
    const uint64_t length = std::min(kAheadPiece, advice.range.length - done);
    const uint64_t at = advice.falling ? advice.range.end() - done - length : advice.range.offset + done;
    auto job = [this, archive, range = Range{at, length}, open = reader.open, advice] {
      if (!open.expired()) fetch_ahead(archive, range, advice, true);
    };
    blocking_.post(source, std::move(job), true);
  }
}

// Brings the frames of a range into memory, leading a flight for each that nobody is at. The reader may have come by in
// the meantime.
void Fetch::fetch_ahead(const std::shared_ptr<OpenArchive>& archive, Range range, const Streams::Advice& advice,
                        bool may_wait) {
  const ReaderPtr reader = archive->reader();
  std::vector<archive::FilePiece> pieces;
  if (!reader || !archive::plan_file(*reader, range, pieces)) return;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const archive::FilePiece& piece = pieces[i];
    const bool on_base = !reader->manifest().records[piece.record].bases.empty();
    const bool is_frame = piece.piece.kind == dsl::Piece::Kind::frame;
    if (!is_frame && piece.piece.kind != dsl::Piece::Kind::base) continue;
    const uint64_t position = advice.position->load(std::memory_order_relaxed);
    const uint64_t at = range.offset + piece.piece.at;
    if (advice.falling ? at >= position : at + piece.piece.length <= position) continue;
    const cache::Key key{archive->cache_id(), piece.frame_index};
    if (on_base) {
      if (is_frame && store_->contains(key)) continue;
      difference_ahead(archive, reader, {at, piece.piece.length});
      continue;
    }
    Ready landed;
    const bool leads = lead_missing(key, landed);
    Frames::Company company;
    if (leads && reader->manifest().bases.empty())
      company = lead_company(*archive, *reader, std::span(pieces).subspan(i), false, landed);
    drive(std::move(landed));  // before storage is waited for
    if (!leads) continue;
    const auto block = frames_.obtain(*archive, *reader, piece, {may_wait, true, 0, {}, company});
    if (!block) frames_.note_failure(*archive, *reader, piece, range.offset + piece.piece.at, block.error());
    Ready ready;
    land_company(*archive, company, ready);
    if (block && !*block) {  // storage has to be waited for: whoever joined does that
      for (const RequestPtr& waiter : end_flight(key)) ready.push_back(waiter);
    } else {
      land(key, block, ready);
    }
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

}  // namespace brevis::serve
