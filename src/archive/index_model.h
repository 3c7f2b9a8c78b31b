// SPDX-License-Identifier: Apache-2.0
//
// The two small models that the writing and the reading side of the index share: signed differences as varints, and
// where a segment's bytes are expected to stand.
//
// Errors: none. Threads: values.
#pragma once

#include "archive/format.h"
#include "archive/manifest.h"

namespace brevis::archive {

// A difference (mod 2^64) folded so that small ones of either sign are small numbers.
constexpr uint64_t zigzag(uint64_t difference) { return difference << 1 ^ (difference >> 63 != 0 ? ~uint64_t{0} : 0); }
constexpr uint64_t unzigzag(uint64_t folded) { return folded >> 1 ^ ((folded & 1) != 0 ? ~uint64_t{0} : 0); }

// Walks the segments of a file in order.
class PlaceCursor {
 public:
  Placement placement_of(const Segment& segment) const {
    if (segment.length == 0) return Placement::empty;
    if (any_ && segment.record == record_ && segment.record_offset == end_) return Placement::behind;
    if (segment.record == next_ && segment.record_offset == 0) return Placement::next;
    return Placement::explicitly;
  }
  // Fills record and record_offset; false where `behind` has nothing to follow. For empty, behind and next.
  bool place(Placement placement, Segment& segment) const {
    if (placement == Placement::behind) {
      segment.record = record_;
      segment.record_offset = end_;
      return any_;
    }
    segment.record = placement == Placement::next ? next_ : 0;
    segment.record_offset = 0;
    return true;
  }
  void advance(const Segment& segment) {
    if (segment.length == 0) return;
    any_ = true;
    record_ = segment.record;
    end_ = segment.record_offset + segment.length;
    if (segment.record >= next_) next_ = segment.record + 1;
  }

 private:
  bool any_ = false;
  uint32_t record_ = 0, next_ = 0;
  uint64_t end_ = 0;
};

}  // namespace brevis::archive
