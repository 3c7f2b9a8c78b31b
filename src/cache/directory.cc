// SPDX-License-Identifier: Apache-2.0
#include "cache/directory.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>

#include "base/checksum.h"
#include "base/io_own.h"

namespace brevis::cache {
namespace {

constexpr const char* kLock = "brevis.lock";
constexpr const char* kStamp = "brevis.cache";
constexpr std::string_view kIndex = "brevis.index.";
constexpr std::string_view kBlocks = "brevis.blocks.";
constexpr std::string_view kStampText = "brevis block cache, version 1, slots of 131072 bytes\n";
// A killed user's helper that was just begun holds the lock, too, until it is told of the death.
constexpr int kLockTries = 50;
constexpr std::chrono::milliseconds kLockPause{20};
static_assert(kSlotBytes == 131072, "the stamp names the size of slots");

bool number_after(std::string_view name, std::string_view prefix, uint64_t& number) {
  if (!name.starts_with(prefix)) return false;
  const auto [end, fault] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
  return fault == std::errc{} && end == name.data() + name.size();
}

}  // namespace

uint64_t block_checksum(const Key& key, ByteSpan bytes) {
  const uint64_t words[] = {xxh3_64(bytes), bytes.size(), key.archive.high, key.archive.low, key.frame};
  return xxh3_64({reinterpret_cast<const uint8_t*>(words), sizeof words});
}

Result<CacheDirectory> CacheDirectory::take(const std::string& path, bool allow_remote) {
  CacheDirectory out;
  out.path_ = path;
  BREVIS_ASSIGN(out.fd_, open_private_directory(path));
  const std::string remote = remote_file_system(out.fd_.get());
  if (!remote.empty() && !allow_remote)
    return make_error(Errc::invalid_argument, "'" + path + "' is on a file system of type " + remote +
                                                  ": the cache must lie on a disk of this machine");
  auto lock = lock_file_at(out.fd_.get(), kLock, out.in(kLock));
  for (int tries = 1; !lock && lock.error().kind() == Errc::busy && tries < kLockTries; ++tries) {
    std::this_thread::sleep_for(kLockPause);
    lock = lock_file_at(out.fd_.get(), kLock, out.in(kLock));
  }
  if (!lock && lock.error().kind() == Errc::busy)
    return make_error(Errc::busy, "the cache directory '" + path +
                                      "' is used by another process: give each mount a directory of its own");
  if (!lock) return lock.error();
  out.lock_ = std::move(*lock);
  return out;
}

Result<CacheDirectory> CacheDirectory::look(const std::string& path) {
  CacheDirectory out;
  out.path_ = path;
  BREVIS_ASSIGN(out.fd_, open_directory(path));
  BREVIS_ASSIGN(const std::vector<std::string> names, out.own_names());
  if (names.empty()) return make_error(Errc::not_found, "'" + path + "' holds no cache of Brevis");
  return out;
}

Result<std::vector<std::string>> CacheDirectory::own_names() const {
  BREVIS_ASSIGN(const std::vector<DirEntry> entries, list_directory_at(fd_.get(), "."));
  std::vector<std::string> names;
  uint64_t number = 0;
  for (const DirEntry& entry : entries) {
    const bool ours =
        entry.name == kStamp || number_after(entry.name, kIndex, number) || number_after(entry.name, kBlocks, number);
    if (ours) names.push_back(entry.name);
  }
  return names;
}

Result<std::vector<uint64_t>> CacheDirectory::index_numbers() const {
  BREVIS_ASSIGN(const std::vector<std::string> names, own_names());
  std::vector<uint64_t> numbers;
  uint64_t number = 0;
  for (const std::string& name : names)
    if (number_after(name, kIndex, number)) numbers.push_back(number);
  std::sort(numbers.rbegin(), numbers.rend());
  return numbers;
}

bool CacheDirectory::of_this_version() const {
  const auto file = open_own_at(fd_.get(), kStamp, in(kStamp), false);
  if (!file) return false;
  ByteVector text(kStampText.size() + 1);
  const auto got = file->read_some(0, text);
  return got && *got == kStampText.size() && std::equal(kStampText.begin(), kStampText.end(), text.begin());
}

Result<std::vector<IndexRecord>> CacheDirectory::records() const {
  BREVIS_ASSIGN(const std::vector<uint64_t> numbers, index_numbers());
  Status failed;
  bool any = false;
  for (const uint64_t number : numbers) {
    // One that was begun when its process died is empty, and the one before it still counts.
    auto found = read_index(in(std::string(kIndex) + std::to_string(number)));
    if (found && !found->empty()) return found;
    any = any || found;
    if (!found) failed = found.error();
  }
  if (!failed && !any) return failed.error();
  return std::vector<IndexRecord>();
}

Result<std::vector<IndexRecord>> CacheDirectory::load(std::string& why) {
  BREVIS_ASSIGN(const std::vector<std::string> names, own_names());
  // A first start that was killed leaves a stamp or an index half made: nothing is lost then.
  const bool holds_frames =
      std::any_of(names.begin(), names.end(), [](const auto& name) { return name.starts_with(kBlocks); });
  if (names.empty() || !of_this_version()) {
    if (!names.empty()) {
      if (holds_frames) why = "what is there is of another version or damaged";
      BREVIS_TRY(clear());
    }
    BREVIS_ASSIGN(const File stamp, open_own_at(fd_.get(), kStamp, in(kStamp), true));
    const auto* text = reinterpret_cast<const uint8_t*>(kStampText.data());
    BREVIS_TRY(write_exact_at(stamp, 0, {text, kStampText.size()}));
    return std::vector<IndexRecord>();
  }
  auto found = records();
  if (found) return found;
  if (holds_frames) why = found.error().message();
  BREVIS_TRY(clear());
  return load(why);
}

Result<std::unique_ptr<Index>> CacheDirectory::begin_index(std::span<const IndexRecord> records) {
  BREVIS_ASSIGN(const std::vector<uint64_t> numbers, index_numbers());
  const uint64_t number = numbers.empty() ? 1 : numbers.front() + 1;
  BREVIS_ASSIGN(std::unique_ptr<Index> index, Index::create(in(std::string(kIndex) + std::to_string(number))));
  if (Status filled = index->apply({}, records); !filled) {
    index.reset();
    const std::string name = std::string(kIndex) + std::to_string(number);
    (void)remove_at(fd_.get(), name, in(name));
    return filled.error();
  }
  for (const uint64_t old : numbers) {
    const std::string name = std::string(kIndex) + std::to_string(old);
    BREVIS_TRY(remove_at(fd_.get(), name, in(name)));
  }
  return index;
}

void CacheDirectory::drop_index() {
  const auto numbers = index_numbers();
  if (!numbers) return;
  for (const uint64_t number : *numbers) {
    const std::string name = std::string(kIndex) + std::to_string(number);
    (void)remove_at(fd_.get(), name, in(name));
  }
}

Status CacheDirectory::clear() {
  BREVIS_ASSIGN(const std::vector<std::string> names, own_names());
  for (const std::string& name : names) BREVIS_TRY(remove_at(fd_.get(), name, in(name)));
  return {};
}

Result<uint64_t> CacheDirectory::disk_bytes() const {
  BREVIS_ASSIGN(const std::vector<std::string> names, own_names());
  uint64_t sum = 0;
  for (const std::string& name : names)
    if (const auto stat = stat_at(fd_.get(), name, false)) sum += stat->blocks * 512;
  return sum;
}

}  // namespace brevis::cache
