// SPDX-License-Identifier: Apache-2.0
//
// What inverting the root of a region gave, frame by frame, for one stream. Choosing a program trains several that
// differ below one root, some of them in two passes, and scales or lists of blocks cost more to find than all that
// follows.
//
// Threads: a value, used by one thread at a time. Memory: bounded by the limit. Determinism: what is remembered equals
// what invert() would give again.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "bits/words.h"
#include "dsl/program.h"

namespace brevis::dsl {

class Inversions {
 public:
  static constexpr uint64_t kBytes = uint64_t{64} << 20;

  explicit Inversions(uint64_t limit = kBytes) : limit_(limit) {}

  // The children's streams of that frame, nullptr where they are not remembered. Of one root only: another one's frames
  // take the place of those before.
  const std::vector<bits::OwnedWords>* find(const Node& root, uint64_t position, uint64_t words) const;
  // Remembers them if there is room.
  void keep(const Node& root, uint64_t position, uint64_t words, std::vector<bits::OwnedWords>&& children);

 private:
  bool is_root(const Node& node) const;
  struct Frame {
    uint64_t position, words;
    std::vector<bits::OwnedWords> children;
  };

  const uint64_t limit_;
  uint64_t bytes_ = 0;
  std::optional<OpId> op_;
  std::vector<uint64_t> params_;
  size_t arity_ = 0;
  std::deque<Frame> frames_;  // by position
};

}  // namespace brevis::dsl
