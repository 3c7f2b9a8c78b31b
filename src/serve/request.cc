// SPDX-License-Identifier: Apache-2.0
#include "serve/request.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace brevis::serve {
namespace {

// More parts than this are gathered into one: writev takes 1,024, and copying small parts is cheaper than listing them.
constexpr size_t kMaxParts = 64;
constexpr uint64_t kLeastParts = uint64_t{32} << 10;  // bytes of a part, as a guess

}  // namespace

Error out_of_memory(const std::string& path) noexcept try {
  return Error::from_errno(ENOMEM, "reading '" + path + "'");
} catch (const std::bad_alloc&) {
  return Error(Errc::io, {}, ENOMEM);
}

Status Request::plan() {
  BREVIS_TRY(archive::plan_file(*reader, range, pieces));
  uint64_t frame_bytes = 0, largest = 0, small = 0;
  size_t parts = 0;
  const archive::FilePiece* last = nullptr;
  for (const archive::FilePiece& piece : pieces) {
    using Kind = dsl::Piece::Kind;
    if (piece.piece.kind == Kind::copy) is_flat = true;
    if (piece.piece.kind == Kind::fill) fill_bytes += piece.piece.length;
    const bool same_frame = last != nullptr && last->piece.kind == Kind::frame && piece.piece.kind == Kind::frame &&
                            last->frame_index == piece.frame_index;
    const bool adjoins = same_frame && last->piece.source + last->piece.length == piece.piece.source;
    if (!adjoins) ++parts;
    // A base's own reply may be in as many parts as it has frames.
    if (piece.piece.kind == Kind::base) parts += piece.piece.length / kLeastParts;
    if (piece.piece.kind == Kind::frame && !same_frame) {
      const uint64_t bytes = archive::frame_place(*reader, piece).bytes;
      frame_bytes += bytes;
      largest = std::max(largest, bytes);
      if (bytes <= Frames::kSmallBytes) small += bytes;
    }
    last = &piece;
  }
  if (parts > kMaxParts) is_flat = true;
  // A flat reply lets go of each frame after copying, but for those that were decoded beside it. Decoding takes about a
  // frame more.
  const uint64_t company_bytes = std::min(small, Frames::kMostCompany * Frames::kSmallBytes);
  cost = (is_flat ? range.length + largest + company_bytes : frame_bytes + fill_bytes) + largest +
         base_cost(*reader, pieces);
  return {};
}

uint8_t* Request::gather(cache::Store& store) {
  if (!gathered) gathered = store.allocate(is_flat ? range.length : fill_bytes);
  return gathered->data();
}

void Request::compute(const archive::FilePiece& piece, cache::Store& store) {
  uint8_t* base = gather(store);
  if (piece.piece.kind == dsl::Piece::Kind::copy) {  // flat by plan()
    dsl::run_copy(piece.piece, {base, range.length});
    return;
  }
  uint8_t* at = base + (is_flat ? piece.piece.at : fill_used);
  dsl::run_fill(piece.piece, {at, piece.piece.length});
  if (is_flat) return;
  fill_used += piece.piece.length;
  append({at, piece.piece.length}, gathered);
}

void Request::place(const archive::FilePiece& piece, const cache::BlockPtr& block, cache::Store& store) {
  const ByteSpan part(block->data() + piece.piece.source, piece.piece.length);
  if (is_flat) {
    std::memcpy(gather(store) + piece.piece.at, part.data(), part.size());
  } else {
    append(part, block);
  }
}

void Request::place_base(const archive::FilePiece& piece, std::vector<ReadResult> results, cache::Store& store) {
  uint64_t at = piece.piece.at;
  for (ReadResult& result : results) {
    // Each owner for all parts: which holds which is not told.
    const auto owners = std::make_shared<std::vector<std::shared_ptr<const void>>>(std::move(result.owners));
    for (const ByteSpan part : result.parts) {
      if (is_flat) {
        std::memcpy(gather(store) + at, part.data(), part.size());
      } else {
        append(part, owners);
      }
      at += part.size();
    }
  }
}

void Request::append(ByteSpan part, std::shared_ptr<const void> owner) {
  auto& [parts, owners] = reply;
  if (owners.empty() || owners.back() != owner) owners.push_back(std::move(owner));
  if (!parts.empty() && parts.back().data() + parts.back().size() == part.data()) {
    parts.back() = {parts.back().data(), parts.back().size() + part.size()};
  } else {
    parts.push_back(part);
  }
}

}  // namespace brevis::serve
