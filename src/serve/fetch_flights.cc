// SPDX-License-Identifier: Apache-2.0
//
// Flights: a frame that is on its way, the request that leads it and those that joined. fetch.cc says how the threads
// go together.
#include <algorithm>
#include <new>

#include "serve/fetch.h"

namespace brevis::serve {
namespace {

constexpr size_t kCompanyWithin = 64;  // pieces; a request may have thousands, most of them of the same few frames

}  // namespace

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
  for (Frames::Companion& companion : request->company)
    if (companion.piece == &piece) return std::move(companion.block);
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
  Frames::Company company;
  if (bases && !request->bases) company = lead_company(*request, ready);
  Result<cache::BlockPtr> block = bases ? obtain(*request, piece, false, company) : bases.error();
  land_company(*request->archive, company, ready);
  for (Frames::Companion& companion : company)
    if (companion.block) request->company.push_back(std::move(companion));
  if (block && !*block) {
    if (wait_for_storage(request, piece)) return block;
    block = out_of_memory(request->path());
  }
  request->bases.reset();
  land(key, block, ready);
  return block;
}

// Leads a flight for a frame that nobody is at and that is not in memory.
bool Fetch::lead_missing(const cache::Key& key, Ready& ready) {
  if (store_->contains(key)) return false;
  if (!flights_.with([&](auto& flights) { return flights.try_emplace(key).second; })) return false;
  if (!store_->contains(key)) return true;
  // One landed between the first two looks. Whoever joined since then is as if he had just come, and finds the frame.
  for (const RequestPtr& waiter : end_flight(key)) ready.push_back(waiter);
  return false;
}

// Of the frames that the request, at a frame that it leads, comes to next.
Frames::Company Fetch::lead_company(Request& request, Ready& ready) {
  std::erase_if(request.company, [](const Frames::Companion& companion) { return !companion.block; });
  if (!request.company.empty()) return {};  // their turn comes first
  try {
    request.company.reserve(Frames::kMostCompany);
  } catch (const std::bad_alloc&) {
    return {};
  }
  return lead_company(*request.archive, *request.reader, std::span(request.pieces).subspan(request.next),
                      request.to_page_cache, ready);
}

// Leads flights of the small frames that come after the first piece's, too, so that they are decoded beside it.
// `serves`: their pieces go to a reader.
Frames::Company Fetch::lead_company(const OpenArchive& archive, const archive::Reader& reader,
                                    std::span<const archive::FilePiece> pieces, bool serves, Ready& ready) {
  Frames::Company company;
  const auto place_of = [&](const archive::FilePiece& of) { return archive::frame_place(reader, of); };
  if (place_of(pieces[0]).bytes > Frames::kSmallBytes) return company;
  try {
    company.reserve(Frames::kMostCompany);
    uint64_t last = pieces[0].frame_index;
    for (const archive::FilePiece& other : pieces.subspan(1).first(std::min(pieces.size() - 1, kCompanyWithin))) {
      if (company.size() == Frames::kMostCompany) break;
      if (other.piece.kind != dsl::Piece::Kind::frame || other.frame_index == last) continue;
      last = other.frame_index;
      if (place_of(other).bytes > Frames::kSmallBytes) break;
      const cache::Key key{archive.cache_id(), other.frame_index};
      if (!lead_missing(key, ready)) continue;
      company.push_back({&other, serves ? other.piece.length : 0, nullptr});
    }
  } catch (const std::bad_alloc&) {  // then there are fewer
  }
  return company;
}

// Whoever joined such a flight has the frame now or, where nothing came of it, is as if he had just come.
void Fetch::land_company(const OpenArchive& archive, const Frames::Company& company, Ready& ready) {
  for (const Frames::Companion& companion : company) {
    for (const RequestPtr& waiter : end_flight({archive.cache_id(), companion.piece->frame_index})) {
      if (companion.block) waiter->arrived = companion.block;
      ready.push_back(waiter);
    }
  }
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
Result<cache::BlockPtr> Fetch::obtain(Request& request, const archive::FilePiece& piece, bool may_wait,
                                      std::span<Frames::Companion> company) {
  const size_t serving = request.to_page_cache ? piece.piece.length : 0;
  Result<cache::BlockPtr> block;
  try {
    std::span<const ByteSpan> bases;
    if (request.bases) bases = request.bases->frame_bytes(*store_);
    block = frames_.obtain(*request.archive, *request.reader, piece,
                           {may_wait, !request.of_reader && !request.parent, serving, bases, company});
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
      Ready ready;
      ready.push_back(request);
      land({request->archive->cache_id(), piece.frame_index}, *request->arrived, ready);
      drive(std::move(ready));
    });
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

Fetch::Waiters Fetch::end_flight(const cache::Key& key) {
  return flights_.with([&](auto& flights) {
    auto flight = flights.extract(key);
    return std::move(flight.mapped());
  });
}

// Ends a flight: whoever joined it goes on with the frame, or fails as its leader does.
void Fetch::land(const cache::Key& key, const Result<cache::BlockPtr>& block, Ready& ready) {
  for (const RequestPtr& waiter : end_flight(key)) {
    try {
      waiter->arrived = block;
    } catch (const std::bad_alloc&) {  // for the text of an error
      waiter->arrived = Error(block.error().kind(), {}, block.error().os_errno());
    }
    ready.push_back(waiter);
  }
}

}  // namespace brevis::serve
