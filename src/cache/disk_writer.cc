// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/io_own.h"
#include "brevis/log.h"
#include "cache/disk_state.h"

namespace brevis::cache {
namespace {

using std::chrono::seconds;

constexpr size_t kBatch = 16;         // frames
constexpr size_t kMaxTouched = 4096;  // whose order of use is written with a batch
constexpr seconds kIndexRetry{30}, kIdle{10};

}  // namespace

// What reading a frame back takes here, before any was: of a file of its own, past the page cache.
void DiskState::measure() {
  constexpr const char* kName = "brevis.blocks.9999";  // a name that clear() knows; no cache has so many
  const std::string shown = options.directory + "/" + kName;
  const auto attempt = [&]() -> Result<uint64_t> {
    ByteVector bytes(size_t{2} << 20);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 2654435761u >> 24);
    BREVIS_ASSIGN(const File file, open_own_at(directory.fd(), kName, shown, true));
    BREVIS_TRY(write_exact_at(file, 0, bytes));
    BREVIS_TRY(sync_own(file));
    file.drop_cached({0, bytes.size()});
    const auto began = DiskClock::now();
    BREVIS_TRY(file.read_exact(0, bytes));
    (void)block_checksum({}, bytes);
    return ns_since(began) * 1000 / bytes.size();
  };
  const Result<uint64_t> ps = attempt();
  (void)remove_at(directory.fd(), kName, shown);
  if (!ps) return note_fault(ps.error());
  const std::lock_guard lock(mutex);
  read_ps = std::max<uint64_t>(*ps, 1);
}

std::vector<DiskState::Work> DiskState::begin_batch(std::vector<Key>& removed) {
  std::vector<Work> works;
  const std::lock_guard lock(mutex);
  removed.swap(forgotten);
  while (!queue.empty() && works.size() < kBatch) {
    DiskOffer offer = std::move(queue.front());
    queue.pop_front();
    queued_bytes -= offer.block->size();
    IndexRecord record;
    record.key = offer.key;
    record.bytes = static_cast<uint32_t>(offer.block->size());
    std::vector<uint32_t> taken;
    if (!resting() && make_room(record.slot_count(), removed)) taken = free.take(record.slot_count());
    if (taken.empty() && !works.empty() && !resting()) {  // all room is the batch's own: in the next one
      queued_bytes += offer.block->size();
      queue.push_front(std::move(offer));
      break;
    }
    if (taken.empty()) {
      ++counts.dropped;
      waiting.erase(offer.key);
      continue;
    }
    std::copy(taken.begin(), taken.end(), record.slots.begin());
    record.used = ++tick;
    works.push_back({record, std::move(offer.block)});
  }
  return works;
}

void DiskState::tell_index(std::span<const Key> removed, std::span<const IndexRecord> written) {
  if (!index) {
    if (DiskClock::now() - index_failed < kIndexRetry) return;
    std::vector<IndexRecord> all;
    {
      const std::lock_guard lock(mutex);
      for (const DiskEntry& entry : used)
        if (!entry.gone) all.push_back(entry.record);
    }
    all.insert(all.end(), written.begin(), written.end());
    auto fresh = directory.begin_index(all);
    index_failed = DiskClock::now();
    if (!fresh) return note_fault(fresh.error());
    index = std::move(*fresh);
    const std::lock_guard lock(mutex);
    ++counts.rebuilds;
    return;
  }
  if (removed.empty() && written.empty()) return;
  if (const Status told = index->apply(removed, written); !told) {
    index.reset();
    directory.drop_index();
    index_failed = told.error().kind() == Errc::corrupt ? DiskClock::time_point{} : DiskClock::now();
    note_fault(told.error());
  }
}

std::vector<IndexRecord> DiskState::touched_records(size_t limit) {
  std::vector<IndexRecord> records;
  const std::lock_guard lock(mutex);
  while (!touched.empty() && records.size() < limit) {
    const auto found = entries.find(touched.back());
    touched.pop_back();
    if (found == entries.end() || !found->second->touched) continue;
    found->second->touched = false;
    records.push_back(found->second->record);
  }
  return records;
}

void DiskState::write_batch() {
  std::vector<Key> removed;
  std::vector<Work> works = begin_batch(removed);
  if (!removed.empty()) tell_index(removed, {});
  std::vector<IndexRecord> written = touched_records(kMaxTouched);
  const size_t old = written.size();
  for (Work& work : works) {
    IndexRecord& record = work.record;
    const ByteSpan bytes(work.block->data(), work.block->size());
    record.checksum = block_checksum(record.key, bytes);
    const Status stored = slots.write({record.slots.data(), record.slot_count()}, bytes);
    if (stored) {
      written.push_back(record);
    } else {
      {
        const std::lock_guard lock(mutex);
        if (stored.error().kind() == Errc::no_space) free.stop_growing();
        ++counts.dropped;
      }
      note_fault(stored.error());
    }
    work.block.reset();
  }
  tell_index({}, written);
  const std::lock_guard lock(mutex);
  for (size_t i = old; i < written.size(); ++i) {
    used.push_back({written[i]});
    entries.emplace(written[i].key, std::prev(used.end()));
    counts.bytes += written[i].bytes;
    counts.written_bytes += written[i].bytes;
    held_slots += written[i].slot_count();
  }
  if (written.size() > old) faults_in_row = 0;
  for (const Work& work : works) waiting.erase(work.record.key);
}

// Everything is thrown away. Readers that are at it keep their files.
void DiskState::clear_all() {
  {
    const std::lock_guard lock(mutex);
    for (auto entry = used.begin(); entry != used.end();) {
      const auto next = std::next(entry);
      if (!entry->gone) drop(entry, forgotten);
      entry = next;
    }
    touched.clear();
    forgotten.clear();
  }
  slots.close();
  index.reset();
  Status cleared = directory.clear();
  std::string why;
  if (cleared)
    if (const auto loaded = directory.load(why); !loaded) cleared = loaded.error();
  if (cleared) {
    auto fresh = directory.begin_index({});
    if (fresh)
      index = std::move(*fresh);
    else
      cleared = fresh.error();
  }
  index_failed = DiskClock::now();
  if (!cleared) note_fault(cleared.error());
  log(LogLevel::warning, "the cache on disk held wrong frames and begins anew", {{"directory", options.directory}});
  const std::lock_guard lock(mutex);
  if (pins == 0) free = SlotList(first_limit);
  ++counts.rebuilds;
  begin_anew = false;
}

void DiskState::run() {
  if (options.admission == Admission::automatic) measure();
  std::unique_lock lock(mutex);
  for (;;) {
    wake.wait_for(lock, kIdle, [&] { return stopping || begin_anew || !queue.empty(); });
    const bool ending = stopping && queue.empty(), clearing = begin_anew;
    writing = true;
    lock.unlock();
    try {
      if (clearing) clear_all();
      if (!ending) {
        write_batch();
      } else if (index) {
        tell_index({}, touched_records(SIZE_MAX));
      }
    } catch (const std::exception& e) {  // no memory: what was to be kept is not, and the daemon lives on
      note_fault(make_error(Errc::internal, std::string("the cache's thread: ") + e.what()));
    }
    if (ending) index.reset();  // its child would end with this thread
    lock.lock();
    const uint64_t memory = list_bytes();
    lock.unlock();
    charge(memory);
    lock.lock();
    writing = false;
    settled.notify_all();
    if (ending) return;
  }
}

}  // namespace brevis::cache
