// SPDX-License-Identifier: Apache-2.0
//
// Lock order: the state's lock, then the store's (charge). Readers and archives die outside the lock.
#include "serve/archives.h"

#include <algorithm>
#include <vector>

#include "base/checksum.h"
#include "base/io_tree.h"
#include "brevis/log.h"

namespace brevis::serve {
namespace {

constexpr size_t kRemembered = 64;  // archives kept open although nobody has them open
constexpr size_t kMaxDamageNotes = 4096;
constexpr uint64_t kIndexDamage = UINT64_MAX;  // noted as if it were a frame
constexpr uint64_t kMinIndexShare = uint64_t{1} << 20;

Digest cache_id_of(const Backing& backing) {
  const FileStat& stat = backing.stat;
  const uint64_t words[] = {backing.header.id.low,
                            backing.header.id.high,
                            stat.device,
                            stat.inode,
                            stat.size,
                            static_cast<uint64_t>(stat.mtime_ns)};
  return xxh3_128({reinterpret_cast<const uint8_t*>(words), sizeof words});
}

Digest lasting_id_of(const Backing& backing) {
  const FileStat& stat = backing.stat;
  const uint64_t words[] = {backing.header.id.low, backing.header.id.high, stat.size,
                            static_cast<uint64_t>(stat.mtime_ns), stat.uid};
  return xxh3_128({reinterpret_cast<const uint8_t*>(words), sizeof words});
}

}  // namespace

struct ArchivesState {
  explicit ArchivesState(std::shared_ptr<cache::Store> the_store)
      : store(std::move(the_store)), share(std::max(store->capacity() / 4, kMinIndexShare)) {}

  const std::shared_ptr<cache::Store> store;
  Archives::FindBases find_bases;  // set before any archive is opened
  const uint64_t share;
  mutable std::mutex mutex;
  std::unordered_map<Version, std::weak_ptr<OpenArchive>, VersionHash> known;
  std::list<std::shared_ptr<OpenArchive>> remembered;  // front: next to go
  std::list<OpenArchive*> loaded;                      // with an index; front: next to lose it
  uint64_t index_bytes = 0;
  uint64_t last_number = 0;

  // All below with the lock held; what must die goes to `dead`.
  void set_charge(OpenArchive& archive, uint64_t bytes) {
    store->charge(static_cast<int64_t>(bytes) - static_cast<int64_t>(archive.charged_));
    index_bytes += bytes - archive.charged_;
    archive.charged_ = bytes;
  }
  void unload(OpenArchive& archive, std::vector<ReaderPtr>& dead) {
    if (!archive.reader_) return;
    dead.push_back(std::move(archive.reader_));
    archive.reader_ = nullptr;
    loaded.erase(archive.loaded_at_);
    set_charge(archive, 0);
  }
  void trim(std::vector<ReaderPtr>& dead) {
    while (index_bytes > share && loaded.size() > 1) unload(*loaded.front(), dead);
  }
};

OpenArchive::OpenArchive(std::shared_ptr<ArchivesState> state, uint64_t number, Backing backing, File file)
    : state_(std::move(state)),
      number_(number),
      backing_(std::move(backing)),
      file_(std::move(file)),
      cache_id_(cache_id_of(backing_)),
      lasting_id_(lasting_id_of(backing_)) {}

OpenArchive::~OpenArchive() {
  std::vector<ReaderPtr> dead;
  const std::lock_guard lock(state_->mutex);
  state_->unload(*this, dead);
  const auto known = state_->known.find(Version::of(backing_.stat));
  // Another of the same version may have taken the place meanwhile.
  if (known != state_->known.end() && known->second.expired()) state_->known.erase(known);
}

ReaderPtr OpenArchive::reader() const {
  const std::lock_guard lock(state_->mutex);
  if (reader_) state_->loaded.splice(state_->loaded.end(), state_->loaded, loaded_at_);
  return reader_;
}

Result<ReaderPtr> OpenArchive::read_index() const {
  BREVIS_ASSIGN(File copy, duplicate(file_));
  BREVIS_ASSIGN(ReaderPtr reader, archive::Reader::open(std::move(copy)));
  if (reader->header().id != header().id)
    return make_error(Errc::changed, path() + ": the archive was changed in place");
  return reader;
}

std::vector<std::shared_ptr<OpenArchive>> OpenArchive::bases() const {
  const std::lock_guard lock(state_->mutex);
  return bases_;
}

Status OpenArchive::find_bases(const archive::Reader& reader) {
  if (reader.manifest().bases.empty()) return {};
  {
    const std::lock_guard lock(state_->mutex);
    if (has_bases_) return {};
  }
  if (!state_->find_bases) return make_error(Errc::unsupported, path() + ": stands on other archives");
  BREVIS_ASSIGN(auto found, state_->find_bases(*this, reader));
  const std::lock_guard lock(state_->mutex);
  if (has_bases_) return {};  // those are taken that were first: replies may hold on to them
  bases_ = std::move(found);
  has_bases_ = true;
  return {};
}

Result<ReaderPtr> OpenArchive::load() {
  Result<ReaderPtr> read = read_index();
  if (read)
    if (Status found = find_bases(**read); !found) read = std::move(found).error();
  if (!read) {
    if (first_damage(kIndexDamage))
      log(LogLevel::error, "cannot open an archive: " + read.error().message(), {{"archive", path()}});
    return read;
  }
  ReaderPtr reader = std::move(*read);
  const uint64_t bytes = reader->memory();
  std::vector<ReaderPtr> dead;
  const std::lock_guard lock(state_->mutex);
  state_->unload(*this, dead);
  reader_ = reader;
  loaded_at_ = state_->loaded.insert(state_->loaded.end(), this);
  state_->set_charge(*this, bytes);
  state_->trim(dead);
  return reader;
}

uint64_t OpenArchive::mean_cost(uint64_t ns, uint64_t bytes) {
  // By bytes, so that a small first frame, for which tables are loaded, does not speak for all; older ones count less.
  constexpr uint64_t kRemembered = uint64_t{64} << 20;
  return costs_.with([&](Costs& costs) {
    if (costs.bytes > kRemembered) costs.ns /= 2, costs.bytes /= 2;
    costs.ns += ns;
    costs.bytes += std::max<uint64_t>(bytes, 1);
    return static_cast<uint64_t>(static_cast<unsigned __int128>(costs.ns) * bytes / costs.bytes);
  });
}

void OpenArchive::count_decode() {
  // Asking an index for its size walks it: often at first, while tables come in, then seldom.
  const uint64_t n = decodes_.fetch_add(1, std::memory_order_relaxed) + 1;
  if ((n & (n - 1)) == 0 || n % 1024 == 0) recount();
}

void OpenArchive::recount() {
  const ReaderPtr reader = this->reader();
  if (!reader) return;
  const uint64_t bytes = reader->memory();
  std::vector<ReaderPtr> dead;
  const std::lock_guard lock(state_->mutex);
  if (reader_ != reader) return;
  state_->set_charge(*this, bytes);
  state_->trim(dead);
}

bool OpenArchive::first_damage(uint64_t frame) {
  return damaged_.with([&](auto& frames) { return frames.size() < kMaxDamageNotes && frames.insert(frame).second; });
}

Archives::Archives(std::shared_ptr<cache::Store> store) : state_(std::make_shared<ArchivesState>(std::move(store))) {}

Archives::~Archives() {
  std::list<std::shared_ptr<OpenArchive>> dead;
  const std::lock_guard lock(state_->mutex);
  dead.swap(state_->remembered);
}

void Archives::set_find_bases(FindBases find) { state_->find_bases = std::move(find); }

std::shared_ptr<OpenArchive> Archives::find(const Version& version) const {
  const std::lock_guard lock(state_->mutex);
  const auto known = state_->known.find(version);
  return known == state_->known.end() ? nullptr : known->second.lock();
}

std::shared_ptr<OpenArchive> Archives::adopt(const Backing& backing, File file) {
  uint64_t number;
  {
    const std::lock_guard lock(state_->mutex);
    number = ++state_->last_number;
  }
  auto fresh = std::make_shared<OpenArchive>(state_, number, backing, std::move(file));
  std::shared_ptr<OpenArchive> known;  // both die outside the lock
  const std::lock_guard lock(state_->mutex);
  auto& place = state_->known[Version::of(backing.stat)];
  known = place.lock();
  if (known) return known;
  place = fresh;
  return fresh;
}

void Archives::remember(const std::shared_ptr<OpenArchive>& archive) {
  std::shared_ptr<OpenArchive> dead;
  const std::lock_guard lock(state_->mutex);
  auto& list = state_->remembered;
  const auto at = std::find(list.begin(), list.end(), archive);
  if (at != list.end()) {
    list.splice(list.end(), list, at);
    return;
  }
  list.push_back(archive);
  if (list.size() <= kRemembered) return;
  dead = std::move(list.front());
  list.pop_front();
}

void Archives::forget_removed() {
  std::list<std::shared_ptr<OpenArchive>> looked_at, dead;
  {
    const std::lock_guard lock(state_->mutex);
    looked_at = state_->remembered;
  }
  looked_at.remove_if([](const auto& archive) {
    const auto now = archive->file_.stat();
    return now && now->links > 0;
  });
  const std::lock_guard lock(state_->mutex);
  auto& list = state_->remembered;
  for (const auto& gone : looked_at) {
    const auto at = std::find(list.begin(), list.end(), gone);
    if (at != list.end()) dead.splice(dead.end(), list, at);
  }
}

uint64_t Archives::index_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->index_bytes;
}

size_t Archives::open_archives() const {
  const std::lock_guard lock(state_->mutex);
  return state_->known.size();
}

}  // namespace brevis::serve
