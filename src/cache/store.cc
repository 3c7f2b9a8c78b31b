// SPDX-License-Identifier: Apache-2.0
//
// Two lists hold the kept blocks: `fresh` in order of use, and `taken` with those whose bytes have all been handed to
// readers, in order of that. Victims come from `taken` while it has more than its share (below that, readers a little
// behind the first one still find their frames), then from the cold end of `fresh`. A block that a reader
// holds is passed over: dropping it frees nothing now.
//
// Blocks die outside the lock, since their destructor takes it to give the buffer back.
#include "cache/store.h"

#include <algorithm>
#include <cstdlib>
#include <list>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

namespace brevis::cache {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kMaxSpareBuffers = 16;
constexpr uint64_t kMinSpareBytes = uint64_t{2} << 20;  // spares have an eighth of the cap, but room for a few frames
constexpr int kEvictionRounds = 8;
// The share of taken blocks: an eighth of the cap, and no more than stays in the second-level cache of a core. Decoding
// into memory that is cold, and copying out of it, costs an eighth of all that a stream costs.
constexpr uint64_t kTakenShare = uint64_t{2} << 20;

// Sizes in steps, so that buffers of nearly equal frames are of use to each other.
size_t capacity_for(size_t bytes) {
  constexpr size_t kStep = size_t{4} << 10;
  return (bytes + Block::kSlack + kStep - 1) / kStep * kStep;
}

struct Buffer {
  uint8_t* data;
  size_t capacity;
};

uint8_t* new_buffer(size_t capacity) {
  void* data = std::aligned_alloc(kAlignment, capacity);
  if (data == nullptr) throw std::bad_alloc();
  return static_cast<uint8_t*>(data);
}

struct Entry {
  Key key;
  BlockPtr block;
  size_t charge = 0;  // capacity of its buffer
  size_t served = 0;  // bytes handed to readers so far
  bool taken = false;
  bool ahead = false;  // nobody asked yet
};
using Entries = std::list<Entry>;

}  // namespace

struct StoreState {
  explicit StoreState(uint64_t bytes) : capacity(bytes), taken_share(std::min(bytes / 8, kTakenShare)) {}
  ~StoreState() {
    for (const Buffer& buffer : spare) std::free(buffer.data);
  }

  const uint64_t capacity, taken_share;
  mutable std::mutex mutex;
  Entries fresh, taken;  // front: next victim
  std::unordered_map<Key, Entries::iterator, KeyHash> index;
  std::vector<Buffer> spare;
  bool closed = false;
  uint64_t alive = 0, spare_bytes = 0, charged = 0, taken_bytes = 0;
  uint64_t hits = 0, misses = 0, evictions = 0, ahead_used = 0, ahead_wasted = 0;

  uint64_t used() const { return alive + spare_bytes + charged; }
  uint8_t* obtain(size_t wanted, size_t& got);
  // All below: with the lock held.
  bool make_room(uint64_t bytes, std::vector<BlockPtr>& victims);
  bool evict_from(Entries& list, uint64_t& freed, std::vector<BlockPtr>& victims);
  void erase(Entries::iterator entry);
  void serve(Entries::iterator entry, size_t bytes);
  uint8_t* take_spare(size_t capacity_wanted, size_t& got);
  bool keep_spare(Buffer buffer);
  void drop_spares();
};

void StoreState::erase(Entries::iterator entry) {
  index.erase(entry->key);
  if (entry->taken) taken_bytes -= entry->charge;
  (entry->taken ? taken : fresh).erase(entry);
}

// One victim of the list; false when readers hold all of it.
bool StoreState::evict_from(Entries& list, uint64_t& freed, std::vector<BlockPtr>& victims) {
  for (auto entry = list.begin(); entry != list.end(); ++entry) {
    // Only the store can make new owners, and only under this lock: a count of one cannot grow meanwhile.
    if (entry->block.use_count() != 1) continue;
    freed += entry->charge;
    ++evictions;
    ahead_wasted += entry->ahead;
    victims.push_back(std::move(entry->block));
    erase(entry);
    return true;
  }
  return false;
}

// Collects victims until `bytes` more would fit once they are dead; false when they never will.
bool StoreState::make_room(uint64_t bytes, std::vector<BlockPtr>& victims) {
  uint64_t freed = 0;
  while (used() + bytes > capacity + freed) {
    if (!spare.empty()) {
      drop_spares();
      continue;
    }
    const bool taken_first = taken_bytes > taken_share || fresh.empty();
    if (evict_from(taken_first ? taken : fresh, freed, victims)) continue;
    if (!evict_from(taken_first ? fresh : taken, freed, victims)) return false;
  }
  return true;
}

void StoreState::serve(Entries::iterator entry, size_t bytes) {
  entry->served += bytes;
  const bool now_taken = entry->taken || (bytes != 0 && entry->served >= entry->block->size());
  if (now_taken && !entry->taken) taken_bytes += entry->charge;
  Entries& from = entry->taken ? taken : fresh;
  Entries& to = now_taken ? taken : fresh;
  entry->taken = now_taken;
  to.splice(to.end(), from, entry);
}

uint8_t* StoreState::take_spare(size_t wanted, size_t& got) {
  for (auto buffer = spare.rbegin(); buffer != spare.rend(); ++buffer) {
    if (buffer->capacity < wanted || buffer->capacity > 2 * wanted) continue;
    uint8_t* data = buffer->data;
    got = buffer->capacity;
    spare_bytes -= got;
    spare.erase(std::next(buffer).base());
    return data;
  }
  return nullptr;
}

bool StoreState::keep_spare(Buffer buffer) {
  if (closed || spare.size() >= kMaxSpareBuffers ||
      spare_bytes + buffer.capacity > std::max(capacity / 8, kMinSpareBytes))
    return false;
  if (used() + buffer.capacity > capacity) return false;
  spare.push_back(buffer);
  spare_bytes += buffer.capacity;
  return true;
}

void StoreState::drop_spares() {
  for (const Buffer& buffer : spare) std::free(buffer.data);
  spare.clear();
  spare_bytes = 0;
}

Block::~Block() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->alive -= capacity_;
    if (state_->keep_spare({data_, capacity_})) return;
  }
  std::free(data_);
}

Store::Store(uint64_t capacity_bytes) : state_(std::make_shared<StoreState>(capacity_bytes)) {}

Store::~Store() {
  // Blocks hold the state: emptying it here is what lets it die.
  Entries fresh, taken;
  {
    const std::lock_guard lock(state_->mutex);
    state_->closed = true;
    state_->index.clear();
    fresh.swap(state_->fresh);
    taken.swap(state_->taken);
    state_->drop_spares();
  }
}

// A spare buffer, or else the right to make a new one: its capacity is counted as living either way.
uint8_t* StoreState::obtain(size_t wanted, size_t& got) {
  // A victim must die before its buffer can be handed out, and others may be quicker: hence rounds, but not for ever.
  for (int round = 0;; ++round) {
    std::vector<BlockPtr> victims;  // before the lock: they die after it
    const std::lock_guard lock(mutex);
    got = wanted;
    uint8_t* data = take_spare(wanted, got);
    const bool fits = data != nullptr || used() + wanted <= capacity;
    if (!fits && round < kEvictionRounds) make_room(wanted, victims);
    if (data == nullptr && fits && round == 0 && taken_bytes > taken_share) {
      uint64_t freed = 0;
      evict_from(taken, freed, victims);
    }
    if (victims.empty()) {
      alive += got;
      return data;
    }
  }
}

std::shared_ptr<Block> Store::allocate(size_t bytes) {
  size_t capacity = 0;
  uint8_t* data = state_->obtain(capacity_for(bytes), capacity);
  try {
    if (data == nullptr) data = new_buffer(capacity);
    return std::shared_ptr<Block>(new Block(state_, data, bytes, capacity));
  } catch (...) {
    std::free(data);
    const std::lock_guard lock(state_->mutex);
    state_->alive -= capacity;
    throw;
  }
}

BlockPtr Store::find(const Key& key, size_t serving) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->index.find(key);
  if (found == state_->index.end()) {
    ++state_->misses;
    return nullptr;
  }
  ++state_->hits;
  state_->ahead_used += found->second->ahead;
  found->second->ahead = false;
  state_->serve(found->second, serving);
  return found->second->block;
}

bool Store::contains(const Key& key) const {
  const std::lock_guard lock(state_->mutex);
  return state_->index.contains(key);
}

void Store::insert(const Key& key, BlockPtr block, size_t serving, bool ahead) {
  std::vector<BlockPtr> victims;
  const std::lock_guard lock(state_->mutex);
  if (state_->index.contains(key)) return;
  const size_t charge = block->capacity_;
  // The block lives already, so its bytes are counted: room is needed only for what is over the cap.
  if (charge > state_->capacity || !state_->make_room(0, victims)) return;
  state_->fresh.push_back({key, std::move(block), charge, 0, false, ahead});
  const auto entry = std::prev(state_->fresh.end());
  state_->index.emplace(key, entry);
  state_->serve(entry, serving);
}

void Store::charge(int64_t bytes) {
  std::vector<BlockPtr> victims;
  const std::lock_guard lock(state_->mutex);
  state_->charged += static_cast<uint64_t>(bytes);
  try {
    if (bytes > 0) state_->make_room(0, victims);
  } catch (const std::bad_alloc&) {  // whoever allocates next makes room
  }
}

uint64_t Store::capacity() const { return state_->capacity; }

Store::Counters Store::counters() const {
  const std::lock_guard lock(state_->mutex);
  Counters out;
  out.bytes = state_->alive + state_->spare_bytes;
  out.charged = state_->charged;
  out.blocks = state_->index.size();
  out.hits = state_->hits;
  out.misses = state_->misses;
  out.evictions = state_->evictions;
  out.ahead_used = state_->ahead_used;
  out.ahead_wasted = state_->ahead_wasted;
  return out;
}

}  // namespace brevis::cache
