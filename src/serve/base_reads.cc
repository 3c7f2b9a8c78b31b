// SPDX-License-Identifier: Apache-2.0
#include "serve/base_reads.h"

#include <cstring>

#include "dsl/verify.h"

namespace brevis::serve {

BaseReads::BaseReads(const archive::Reader& reader, const archive::FilePiece& piece) {
  const archive::Record& record = reader.manifest().records[piece.record];
  if (piece.piece.kind == dsl::Piece::Kind::base) {
    add_spans(record, piece.piece.region, 0, {piece.piece.source, piece.piece.length});
  } else if (piece.piece.kind == dsl::Piece::Kind::frame && !record.bases.empty()) {
    uint32_t node = 0;
    for (const archive::FrameBase& base : frame_bases(reader, frame_place(reader, piece)))
      add_spans(record, base.node, node++, base.range);
    bytes_.resize(node);
  }
}

void BaseReads::add_spans(const archive::Record& record, uint32_t number, uint32_t node, Range range) {
  std::vector<archive::BaseSpan> spans;
  base_spans_of(record, number, range, spans);
  for (const archive::BaseSpan& span : spans) spans_.push_back({node, span});
}

const std::vector<ByteSpan>& BaseReads::frame_bytes(cache::Store& store) {
  if (is_joined_) return bytes_;
  for (size_t i = 0; i < spans_.size();) {
    const uint32_t node = spans_[i].node;
    size_t end = i, parts = 0;
    uint64_t bytes = 0;
    for (; end < spans_.size() && spans_[end].node == node; ++end) {
      parts += results_[end].parts.size();
      bytes += results_[end].bytes();
    }
    if (parts == 1) {
      bytes_[node] = results_[i].parts.front();
    } else {
      joined_.push_back(store.allocate(bytes));
      uint8_t* to = joined_.back()->data();
      bytes_[node] = {to, bytes};
      for (; i < end; ++i)
        for (const ByteSpan part : results_[i].parts) {
          std::memcpy(to, part.data(), part.size());
          to += part.size();
        }
    }
    i = end;
  }
  is_joined_ = true;
  return bytes_;
}

uint64_t base_cost(const archive::Reader& reader, const std::vector<archive::FilePiece>& pieces) {
  const uint64_t depth = reader.manifest().depth();
  if (depth == 0) return 0;
  uint64_t kept = 0;
  bool any = false;
  for (const archive::FilePiece& piece : pieces) {
    any |= !reader.manifest().records[piece.record].bases.empty();
    // Its frames stay until the reply is gone, and reach beyond it on both sides.
    if (piece.piece.kind == dsl::Piece::Kind::base) kept += piece.piece.length + 2 * dsl::kMaxFrameBytes;
  }
  // One frame after the other; at each step down it lies over two frames there at most, which are joined.
  return any ? kept + depth * 4 * dsl::kMaxFrameBytes : 0;
}

}  // namespace brevis::serve
