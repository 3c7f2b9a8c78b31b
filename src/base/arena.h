// SPDX-License-Identifier: Apache-2.0
//
// Scratch memory of one call: buffers handed out in order, all given back at once, the pages kept for the next call,
// so that decoding allocates nothing in steady state; or given back down to a mark, as a stack. Buffers are 64-byte
// aligned and followed by at least 64 spare bytes, which vector kernels may read (never rely on) and overwrite.
//
// Errors:  std::bad_alloc when memory runs out (caught at the boundary that `guarded` work enters through).
// Threads: one thread at a time. Owns: every buffer until reset(), rewind() or destruction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace brevis {

class Arena {
 public:
  static constexpr size_t kSlack = 64;

  uint8_t* take(size_t bytes) {
    const size_t size = (bytes + kSlack + 63) / 64 * 64;
    while (current_ < chunks_.size() && chunks_[current_].size - used_ < size) ++current_, used_ = 0;
    if (current_ == chunks_.size()) add_chunk(size);
    uint8_t* at = chunks_[current_].base() + used_;
    used_ += size;
    return at;
  }
  // Everything taken so far is free again; memory stays with the arena.
  void reset() { current_ = used_ = 0; }
  // Everything taken after mark() is free again. Requires: no reset() in between.
  struct Mark {
    size_t chunk, used;
  };
  Mark mark() const { return {current_, used_}; }
  void rewind(Mark mark) { current_ = mark.chunk, used_ = mark.used; }
  size_t capacity() const {
    size_t sum = 0;
    for (const auto& chunk : chunks_) sum += chunk.size;
    return sum;
  }

 private:
  struct Chunk {
    std::unique_ptr<uint8_t[]> store;
    size_t size;  // from the first aligned byte
    uint8_t* base() const {
      return reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(store.get()) + 63) / 64 * 64);
    }
  };
  void add_chunk(size_t least) {
    constexpr size_t kChunk = size_t{1} << 20;
    const size_t size = least < kChunk ? kChunk : least;
    chunks_.push_back({std::unique_ptr<uint8_t[]>(new uint8_t[size + 64]), size});
    used_ = 0;
  }

  std::vector<Chunk> chunks_;
  size_t current_ = 0, used_ = 0;
};

}  // namespace brevis
