// SPDX-License-Identifier: Apache-2.0
//
// While the cache is in use its list is in memory: a map and a list in order of use. A look-up touches no file; a read
// pins its entry, reads without a lock, checks, and unpins. One thread writes, a batch at a time:
//
//   1. room is made: entries unused longest leave the list (never pinned ones), and the index forgets them
//   2. the frames are written over their slots
//   3. the index learns of them, and then the list
//
// So the index never names a slot that holds something else, wherever the process is killed; where the machine loses
// power, or somebody meddles, the checksum of the frame and its key tells.
//
// Trouble. A failed call or a frame that is not what it should be is a miss and a count. Slots that cannot be written
// are not used again; a full disk ends growth, and the cache lives on with what it has. Many faults in a row, and the
// cache rests for a while; many wrong frames in a row, and it begins anew. An index that fails is removed, since it
// would lie after a restart, and begun anew from the list later.
#include "cache/disk.h"

#include <algorithm>

#include "base/io_own.h"
#include "base/io_tree.h"
#include "brevis/log.h"
#include "cache/disk_state.h"

namespace brevis::cache {
namespace {

constexpr std::chrono::seconds kRest{60}, kLogEvery{60};
constexpr uint64_t kLeastWorthPs = 1000;  // a byte

}  // namespace

// The records of an earlier process, oldest first. Of two that claim a slot the younger is right.
void DiskState::restore(std::vector<IndexRecord> records) {
  std::sort(records.begin(), records.end(), [](const auto& a, const auto& b) { return a.used > b.used; });
  SlotClaims claims(free.limit());
  for (const IndexRecord& record : records) {
    if (entries.contains(record.key) || !claims.claim({record.slots.data(), record.slot_count()})) continue;
    used.push_front({record});
    entries.emplace(record.key, used.begin());
    tick = std::max(tick, record.used);
    counts.bytes += record.bytes;
    held_slots += record.slot_count();
  }
  free = claims.rest();
}

void DiskState::note_fault(const Error& error) {
  bool say = false, rests = false;
  {
    const std::lock_guard lock(mutex);
    ++counts.faults;
    const auto now = DiskClock::now();
    if (++faults_in_row >= kFaultsInRow) {
      rest_until = now + kRest;
      faults_in_row = 0;
      rests = true;
    }
    say = rests || logged_at == DiskClock::time_point{} || now - logged_at > kLogEvery;
    if (say) logged_at = now;
  }
  if (say)
    log(LogLevel::warning,
        rests ? "the cache on disk keeps failing and rests for a minute" : "a fault of the cache on disk",
        {{"directory", options.directory}, {"cause", error.message()}});
}

// An entry, its place in the list and in the map.
uint64_t DiskState::list_bytes() const { return entries.size() * (sizeof(DiskEntry) + 96); }

void DiskState::charge(uint64_t bytes) {
  if (options.charge && bytes != charged) options.charge(static_cast<int64_t>(bytes) - static_cast<int64_t>(charged));
  charged = bytes;
}

void DiskState::drop(DiskEntries::iterator entry, std::vector<Key>& removed) {
  entries.erase(entry->record.key);
  counts.bytes -= entry->record.bytes;
  held_slots -= entry->record.slot_count();
  removed.push_back(entry->record.key);
  if (entry->pins > 0) {
    entry->gone = true;
    return;
  }
  free.give({entry->record.slots.data(), entry->record.slot_count()});
  used.erase(entry);
}

bool DiskState::make_room(size_t count, std::vector<Key>& removed) {
  for (auto entry = used.begin(); free.available() < count && entry != used.end();) {
    const auto next = std::next(entry);
    if (entry->pins == 0) {
      drop(entry, removed);
      ++counts.evictions;
    }
    entry = next;
  }
  return free.available() >= count;
}

void DiskState::unpin(DiskEntries::iterator entry) {
  --pins;
  if (--entry->pins > 0 || !entry->gone) return;
  free.give({entry->record.slots.data(), entry->record.slot_count()});
  used.erase(entry);
}

void DiskState::count_read(uint64_t ns, size_t bytes) {
  const uint64_t sample = ns * 1000 / std::max<size_t>(bytes, 1);
  read_ps = (read_ps * 7 + sample) / 8;
}

Disk::Disk(std::unique_ptr<DiskState> state) : state_(std::move(state)) {
  state_->writer = std::thread([state = state_.get()] { state->run(); });
}

Disk::~Disk() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->wake.notify_all();
  state_->writer.join();
  state_->charge(0);
}

Result<std::unique_ptr<Disk>> Disk::open(const DiskOptions& options) {
  BREVIS_ASSIGN(CacheDirectory directory, CacheDirectory::take(options.directory, options.allow_remote));
  std::string why;
  BREVIS_ASSIGN(std::vector<IndexRecord> records, directory.load(why));
  BREVIS_ASSIGN(const uint64_t held, directory.disk_bytes());
  BREVIS_ASSIGN(const FileSystemSpace space, space_of(directory.fd(), options.directory));
  const uint64_t half = (space.available_blocks * space.block_size + held) / 2;
  const uint64_t slots = std::min<uint64_t>(std::min(options.size, half) / kSlotBytes, UINT32_MAX);
  if (slots < kMaxSlots)
    return make_error(Errc::no_space, "'" + options.directory +
                                          "' has no room for a cache: half of what is free, and " +
                                          "--cache-size, must be 1 MiB or more");
  auto state = std::make_unique<DiskState>(options, std::move(directory), static_cast<uint32_t>(slots));
  if (!why.empty()) {
    ++state->counts.rebuilds;
    log(LogLevel::warning, "the cache on disk begins anew", {{"directory", options.directory}, {"cause", why}});
  }
  state->restore(std::move(records));
  std::vector<IndexRecord> kept;
  for (const DiskEntry& entry : state->used) kept.push_back(entry.record);
  BREVIS_ASSIGN(state->index, state->directory.begin_index(kept));
  state->charge(state->list_bytes());
  try {
    return std::unique_ptr<Disk>(new Disk(std::move(state)));
  } catch (const std::system_error& e) {
    return make_error(Errc::internal, std::string("cannot start the cache's thread: ") + e.what());
  }
}

size_t Disk::holds(const Key& key) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->entries.find(key);
  if (found == state_->entries.end() || state_->resting()) return 0;
  return found->second->record.bytes;
}

Disk::Found Disk::read(const Key& key, MutByteSpan out, bool may_wait) {
  DiskState& state = *state_;
  DiskEntries::iterator entry;
  IndexRecord record;
  {
    const std::lock_guard lock(state.mutex);
    const auto found = state.entries.find(key);
    if (found == state.entries.end() || found->second->record.bytes != out.size() || state.resting()) {
      if (may_wait) ++state.counts.misses;
      return Found::miss;
    }
    entry = found->second;
    record = entry->record;
    ++entry->pins, ++state.pins;
  }
  const auto began = DiskClock::now();
  const Result<bool> got = state.slots.read({record.slots.data(), record.slot_count()}, out, may_wait);
  const bool right = got && *got && block_checksum(key, out) == record.checksum;
  const uint64_t ns = ns_since(began);
  if (got && *got && !right)
    state.note_fault(make_error(Errc::corrupt, "a frame in '" + state.options.directory + "' is not what it was"));
  if (!got) state.note_fault(got.error());
  const std::lock_guard lock(state.mutex);
  if (right) {
    state.count_read(ns, out.size());
    ++state.counts.hits;
    state.counts.hit_bytes += out.size();
    state.faults_in_row = state.wrong_in_row = 0;
    entry->record.used = ++state.tick;
    if (!entry->touched && !entry->gone) {
      entry->touched = true;
      state.touched.push_back(key);
    }
    if (!entry->gone) state.used.splice(state.used.end(), state.used, entry);
  } else if (!got || *got) {
    ++state.counts.misses;
    if (!entry->gone) state.drop(entry, state.forgotten);
    if (got && ++state.wrong_in_row >= kFaultsInRow) {
      state.begin_anew = true;
      state.wrong_in_row = 0;
      state.wake.notify_all();
    }
  }
  state.unpin(entry);
  return right ? Found::hit : got && !*got ? Found::would_wait : Found::miss;
}

void Disk::offer(const Key& key, const BlockPtr& block, uint64_t cost_ns) {
  DiskState& state = *state_;
  const size_t bytes = block->size();
  if (bytes == 0 || bytes > kMaxSlots * kSlotBytes) return;
  {
    const std::lock_guard lock(state.mutex);
    if (state.stopping || state.entries.contains(key) || state.waiting.contains(key)) return;
    // Twice as fast, or it is not worth the writing; and what is decoded at a gigabyte a second waits for nothing.
    const uint64_t worth_ps = std::max(2 * state.read_ps, kLeastWorthPs);
    if (state.options.admission == Admission::automatic && cost_ns * 1000 <= worth_ps * bytes) {
      ++state.counts.unworthy;
      return;
    }
    if (state.resting() || state.queued_bytes + bytes > state.options.queue_bytes) {
      ++state.counts.dropped;
      return;
    }
    state.queue.push_back({key, block});
    state.waiting.insert(key);
    state.queued_bytes += bytes;
  }
  state.wake.notify_one();
}

Disk::Counters Disk::counters() const {
  const std::lock_guard lock(state_->mutex);
  Counters out = state_->counts;
  out.entries = state_->entries.size();
  out.capacity = (state_->free.available() + state_->held_slots) * kSlotBytes;
  out.memory = state_->list_bytes();
  return out;
}

void Disk::settle() {
  std::unique_lock lock(state_->mutex);
  state_->settled.wait(lock, [&] { return state_->queue.empty() && !state_->writing && !state_->begin_anew; });
}

}  // namespace brevis::cache
