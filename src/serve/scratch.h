// SPDX-License-Identifier: Apache-2.0
//
// What one decode needs besides its output, kept for the next: stored bytes and the arena. Fresh memory for each frame
// would cost more than the frame.
//
// Threads: the pool any; a Scratch one at a time. Owns: the idle ones; all are charged to the store.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "base/arena.h"
#include "base/threads.h"
#include "brevis/types.h"
#include "cache/store.h"

namespace brevis::serve {

struct Scratch {
  static constexpr size_t kFrames = 4;
  std::array<ByteVector, kFrames> stored;  // of frames that are decoded beside each other
  Arena arena;
  uint64_t charged = 0;
};

class ScratchPool {
 public:
  ScratchPool(cache::Store& store, size_t idle) : store_(store), idle_(idle) {
    idle_ones_.with([&](auto& ones) { ones.reserve(idle); });
  }
  ~ScratchPool() {
    idle_ones_.with([&](auto& idle) {
      for (auto& scratch : idle) charge(*scratch, 0);
    });
  }

  // Goes back by itself.
  struct Return {
    ScratchPool* pool;
    void operator()(Scratch* scratch) const { pool->give(std::unique_ptr<Scratch>(scratch)); }
  };
  using Lease = std::unique_ptr<Scratch, Return>;
  Lease take() {
    auto scratch = idle_ones_.with([](auto& idle) {
      std::unique_ptr<Scratch> out;
      if (!idle.empty()) {
        out = std::move(idle.back());
        idle.pop_back();
      }
      return out;
    });
    if (!scratch) scratch = std::make_unique<Scratch>();
    return Lease(scratch.release(), {this});
  }

 private:
  // Ordinary frames need a fraction of it; what a hostile one blew up is not kept.
  static constexpr uint64_t kMaxIdleBytes = uint64_t{8} << 20;

  void give(std::unique_ptr<Scratch> scratch) {
    uint64_t bytes = scratch->arena.capacity();
    for (const ByteVector& stored : scratch->stored) bytes += stored.capacity();
    charge(*scratch, bytes);
    const bool kept = bytes <= kMaxIdleBytes && idle_ones_.with([&](auto& idle) {
      if (idle.size() >= idle_) return false;
      idle.push_back(std::move(scratch));
      return true;
    });
    if (!kept) charge(*scratch, 0);
  }

  void charge(Scratch& scratch, uint64_t bytes) {
    if (bytes != scratch.charged) store_.charge(static_cast<int64_t>(bytes) - static_cast<int64_t>(scratch.charged));
    scratch.charged = bytes;
  }

  cache::Store& store_;
  const size_t idle_;
  Guarded<std::vector<std::unique_ptr<Scratch>>> idle_ones_;
};

}  // namespace brevis::serve
