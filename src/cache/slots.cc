// SPDX-License-Identifier: Apache-2.0
#include "cache/slots.h"

#include <algorithm>

#include "base/io_own.h"

namespace brevis::cache {

std::string block_file_name(uint32_t file) {
  std::string number = std::to_string(file);
  number.insert(0, number.size() < 4 ? 4 - number.size() : 0, '0');
  return "brevis.blocks." + number;
}

Result<Slots::Place> Slots::file_of(uint32_t slot, bool create) {
  const uint32_t number = slot / kSlotsPerFile;
  Place known = files_.with([&](auto& files) { return number < files.size() ? files[number] : nullptr; });
  if (known) return known;
  const std::string name = block_file_name(number);
  BREVIS_ASSIGN(File file, open_own_at(directory_, name, path_ + "/" + name, create));
  Place fresh = std::make_shared<const File>(std::move(file));
  return files_.with([&](auto& files) {
    if (files.size() <= number) files.resize(number + 1);
    if (!files[number]) files[number] = fresh;
    return files[number];
  });
}

// Calls run(file, offset in it, offset in the frame, bytes) for each stretch of slots that lie side by side.
template <class Do>
Status Slots::in_runs(std::span<const uint32_t> slots, size_t bytes, bool create, Do run) {
  size_t at = 0;
  for (size_t i = 0; i < slots.size();) {
    size_t n = 1;
    while (i + n < slots.size() && slots[i + n] == slots[i] + n && slots[i + n] % kSlotsPerFile != 0) ++n;
    BREVIS_ASSIGN(const Place file, file_of(slots[i], create));
    const size_t length = std::min(n * kSlotBytes, bytes - at);
    BREVIS_TRY(run(*file, uint64_t{slots[i] % kSlotsPerFile} * kSlotBytes, at, length));
    at += length;
    i += n;
  }
  return {};
}

Result<bool> Slots::read(std::span<const uint32_t> slots, MutByteSpan out, bool may_wait) {
  bool at_hand = true;
  BREVIS_TRY(in_runs(slots, out.size(), false, [&](const File& file, uint64_t offset, size_t at, size_t n) -> Status {
    const MutByteSpan part = out.subspan(at, n);
    if (!may_wait) {
      at_hand = at_hand && file.read_exact_nowait(offset, part);
    } else {
      BREVIS_TRY(file.read_exact(offset, part));
      file.drop_cached({offset, n});
    }
    return {};
  }));
  return at_hand;
}

Status Slots::write(std::span<const uint32_t> slots, ByteSpan bytes) {
  return in_runs(slots, bytes.size(), true, [&](const File& file, uint64_t offset, size_t at, size_t n) -> Status {
    BREVIS_TRY(write_exact_at(file, offset, bytes.subspan(at, n)));
    start_writing(file, {offset, n});
    return {};
  });
}

void Slots::close() {
  files_.with([](auto& files) { files.clear(); });
}

std::vector<uint32_t> SlotList::take(size_t count) {
  std::vector<uint32_t> out;
  if (count > available()) return out;
  // Fresh ones lie side by side; so do mostly those that one frame gave back.
  if (free_.size() < count && limit_ - next_ >= count) {
    for (size_t i = 0; i < count; ++i) out.push_back(next_++);
    return out;
  }
  while (out.size() < count && !free_.empty()) {
    out.push_back(*free_.begin());
    free_.erase(free_.begin());
  }
  while (out.size() < count) out.push_back(next_++);
  return out;
}

bool SlotClaims::claim(std::span<const uint32_t> slots) {
  for (size_t i = 0; i < slots.size(); ++i) {
    const bool free = slots[i] < taken_.size() && !taken_[slots[i]];
    if (free) {
      taken_[slots[i]] = true;
      continue;
    }
    for (size_t k = 0; k < i; ++k) taken_[slots[k]] = false;
    return false;
  }
  return true;
}

SlotList SlotClaims::rest() const {
  SlotList list(static_cast<uint32_t>(taken_.size()));
  for (uint32_t i = 0; i < taken_.size(); ++i)
    if (taken_[i]) list.next_ = i + 1;
  for (uint32_t i = 0; i < list.next_; ++i)
    if (!taken_[i]) list.free_.insert(i);
  return list;
}

}  // namespace brevis::cache
