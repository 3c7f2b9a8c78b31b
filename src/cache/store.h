// SPDX-License-Identifier: Apache-2.0
//
// Decoded frames in memory, least recently used first out, under a hard cap. Knows keys and bytes, nothing of tensors
// or programs. (A disk tier behind it comes as rooms of its own: index, blocks.)
//
// Errors:  none: what does not fit is not kept.
// Threads: any. Blocks are immutable once inserted and live on with their readers after eviction.
// Owns:    the blocks it holds; memory charged by charge() belongs to somebody else but counts against the cap.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/threads.h"
#include "brevis/types.h"

namespace brevis::cache {

// A decoded frame, 64-byte aligned, with kSlack spare bytes behind it.
class Block {
 public:
  static std::shared_ptr<Block> allocate(size_t bytes);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  Block(uint8_t* data, size_t size) : data_(data), size_(size) {}
  uint8_t* data_;
  size_t size_;
};
using BlockPtr = std::shared_ptr<const Block>;

// Names a frame over all archives: the archive's id and the frame's index in it.
struct Key {
  Digest archive;
  uint64_t frame = 0;
  friend bool operator==(const Key&, const Key&) = default;
};
struct KeyHash {
  size_t operator()(const Key& key) const { return key.archive.low ^ (key.frame * 0x9e3779b97f4a7c15u); }
};

class Store {
 public:
  explicit Store(uint64_t capacity_bytes);
  BlockPtr find(const Key& key);
  // Keeps the block if it fits beside what is charged, evicting others.
  void insert(const Key& key, BlockPtr block);
  // Memory held elsewhere that counts against the cap (indexes, decodes under way): evicts to make room.
  void charge(int64_t bytes);
  struct Counters {
    uint64_t bytes, charged, blocks, hits, misses, evictions;
  };
  Counters counters() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace brevis::cache
