// SPDX-License-Identifier: Apache-2.0
//
// Coded fields of few lanes that are decoded before their frames are run, side by side with those of other frames or of
// the same one: whatever then takes their words, a kernel or the nodes one by one, finds them ready.
//
// Errors:  a payload that its codec refuses makes its frame corrupt, as it would on the way.
// Threads: belongs to one call. Owns: nothing; words are the arena's.
#pragma once

#include <array>

#include "codec/alias.h"
#include "dsl/fused.h"

namespace brevis::dsl {

class Ahead {
 public:
  explicit Ahead(Arena& arena) : arena_(arena) {}

  // The fields of a frame that gain by it, as far as there is room. `nodes` are the frame's and outlive decode().
  void add(const FrameView& frame, std::span<NodeFrame> nodes);
  // Whether more would only cool the caches.
  bool full() const { return count_ == tasks_.size() || words_ >= kMostWords; }
  // Words of the fields added, into NodeFrame::ready.
  void decode();

 private:
  static constexpr size_t kMostWords = size_t{1} << 18;

  Arena& arena_;
  std::array<codec::AliasTask, codec::kMostAliasTasks> tasks_;
  std::array<NodeFrame*, codec::kMostAliasTasks> nodes_;
  size_t count_ = 0, words_ = 0;
};

}  // namespace brevis::dsl
