// SPDX-License-Identifier: Apache-2.0
//
// What one decode needs besides its output, kept for the next: stored bytes and the arena. Fresh memory for each frame
// would cost more than the frame.
//
// Threads: the pool any; a Scratch one at a time. Owns: the idle ones; all are charged to the store.
#pragma once

#include <memory>
#include <vector>

#include "base/arena.h"
#include "base/threads.h"
#include "brevis/types.h"
#include "cache/store.h"

namespace brevis::serve {

struct Scratch {
  ByteVector stored;
  Arena arena;
  uint64_t charged = 0;
};

class ScratchPool {
 public:
  ScratchPool(cache::Store& store, size_t idle) : store_(store), idle_(idle) {}
  ~ScratchPool() {
    idle_ones_.with([&](auto& idle) {
      for (auto& scratch : idle) charge(*scratch, 0);
    });
  }

  std::unique_ptr<Scratch> take() {
    auto scratch = idle_ones_.with([](auto& idle) {
      std::unique_ptr<Scratch> out;
      if (!idle.empty()) {
        out = std::move(idle.back());
        idle.pop_back();
      }
      return out;
    });
    return scratch ? std::move(scratch) : std::make_unique<Scratch>();
  }
  void give(std::unique_ptr<Scratch> scratch) {
    const uint64_t bytes = scratch->stored.capacity() + scratch->arena.capacity();
    charge(*scratch, bytes);
    const bool kept = bytes <= kMaxIdleBytes && idle_ones_.with([&](auto& idle) {
      if (idle.size() >= idle_) return false;
      idle.push_back(std::move(scratch));
      return true;
    });
    if (!kept) charge(*scratch, 0);
  }

 private:
  // Ordinary frames need a fraction of it; what a hostile one blew up is not kept.
  static constexpr uint64_t kMaxIdleBytes = uint64_t{8} << 20;

  void charge(Scratch& scratch, uint64_t bytes) {
    if (bytes != scratch.charged) store_.charge(static_cast<int64_t>(bytes) - static_cast<int64_t>(scratch.charged));
    scratch.charged = bytes;
  }

  cache::Store& store_;
  const size_t idle_;
  Guarded<std::vector<std::unique_ptr<Scratch>>> idle_ones_;
};

}  // namespace brevis::serve
