// SPDX-License-Identifier: Apache-2.0
//
// What one step of a read needs of other archives, asked for span by span: a stretch that is a base's as it stands, or
// the words under a frame that is a difference.
//
// Errors:  none. Threads: as the request it belongs to. Owns: the blocks that were read.
#pragma once

#include <vector>

#include "archive/layout.h"
#include "brevis/volume.h"
#include "cache/store.h"

namespace brevis::serve {

class BaseReads {
 public:
  // Of a `base` piece, or of the frame of a frame piece; done() at once when that needs none.
  BaseReads(const archive::Reader& reader, const archive::FilePiece& piece);

  bool done() const { return results_.size() == spans_.size(); }
  const archive::BaseSpan& next() const { return spans_[results_.size()].span; }
  void add(ReadResult result) { results_.push_back(std::move(result)); }

  // All results, in order.
  std::vector<ReadResult> take() { return std::move(results_); }
  // The bytes of each `base` node of the frame; valid while this object lives.
  const std::vector<ByteSpan>& frame_bytes(cache::Store& store);

 private:
  struct Span {
    uint32_t node;  // counted over the piece's or frame's
    archive::BaseSpan span;
  };
  void add_spans(const archive::Record& record, uint32_t number, uint32_t node, Range range);

  std::vector<Span> spans_;
  std::vector<ReadResult> results_;
  std::vector<ByteSpan> bytes_;
  bool is_joined_ = false;
  std::vector<std::shared_ptr<cache::Block>> joined_;  // of nodes whose bytes came in several parts
};

// Memory that a request for these pieces may hold for its bases at most, beside its own.
uint64_t base_cost(const archive::Reader& reader, const std::vector<archive::FilePiece>& pieces);

}  // namespace brevis::serve
