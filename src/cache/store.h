// SPDX-License-Identifier: Apache-2.0
//
// Decoded frames in memory under a hard cap. Knows keys and bytes, nothing of tensors or programs. Frames that outlive
// the process are disk.h's.
//
// The cap counts every block that lives, also those that only a reader still holds, the buffers kept for reuse, and
// what others charge. Fresh pages cost as much time as a decode, so buffers of dead blocks are kept and handed out
// again. Blocks that readers have taken whole are in the kernel's page cache by then: they go first, oldest first, so
// that one long stream does not push out what others come back for; and beyond 2 MiB of them their buffers are used
// again before the cap is reached, so that a stream goes through memory that is warm and never grows the process.
//
// Errors:  std::bad_alloc from allocate(); otherwise none: what does not fit is not kept.
// Threads: any. A block is written by whoever allocated it until it is inserted, and immutable from then on.
// Owns:    the blocks it holds; memory charged by charge() belongs to somebody else but counts against the cap.
#pragma once

#include <memory>

#include "brevis/types.h"

namespace brevis::cache {

struct StoreState;

// Bytes on a 64-byte boundary, with kSlack spare bytes behind them that vector kernels may overwrite.
class Block {
 public:
  static constexpr size_t kSlack = 64;
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  friend class Store;
  Block(std::shared_ptr<StoreState> state, uint8_t* data, size_t size, size_t capacity)
      : state_(std::move(state)), data_(data), size_(size), capacity_(capacity) {}
  std::shared_ptr<StoreState> state_;
  uint8_t* data_;
  size_t size_, capacity_;
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
  // Blocks may outlive it.
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // A block to write to. Evicts to make room; beyond the cap only when readers hold that much.
  std::shared_ptr<Block> allocate(size_t bytes);
  // nullptr on a miss. `serving`: how many of its bytes the caller is about to hand to a reader.
  BlockPtr find(const Key& key, size_t serving = 0);
  // A look that does not count as use.
  bool contains(const Key& key) const;
  // Keeps the block if it fits. A key that is there already keeps its block. `ahead`: nobody asked for it yet.
  void insert(const Key& key, BlockPtr block, size_t serving = 0, bool ahead = false);
  // Memory held elsewhere that counts against the cap (indexes, scratch): evicts to make room. Negative: given back.
  void charge(int64_t bytes);

  uint64_t capacity() const;
  struct Counters {
    uint64_t bytes = 0;    // of all living blocks and spare buffers
    uint64_t charged = 0;  // by charge()
    uint64_t blocks = 0;   // kept under a key
    uint64_t hits = 0, misses = 0, evictions = 0;
    uint64_t ahead_used = 0, ahead_wasted = 0;  // blocks inserted ahead: found later, or evicted before that
  };
  Counters counters() const;

 private:
  std::shared_ptr<StoreState> state_;
};

}  // namespace brevis::cache
