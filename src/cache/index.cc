// SPDX-License-Identifier: Apache-2.0
//
// No locks of LMDB's (MDB_NOLOCK): the directory's lock leaves one writer, and nobody reads a database that is written
// to but tools, which can live with a record that went missing. So there is no table of readers that dead processes
// could fill. No syncs (MDB_NOSYNC): after a crash of the process the kernel still has all pages; after one of the
// machine the database may be rubbish, which is found out in the child and costs the cache's content, nothing else. No
// MDB_WRITEMAP: a full disk would kill the process instead of failing a call.
//
// A database shrunk by somebody else would end a process that touches its map: its size is looked at before each use.
#include "cache/index.h"

#include <lmdb.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/apart.h"
#include "base/checksum.h"

namespace brevis::cache {
namespace {

constexpr size_t kFirstMap = size_t{64} << 10;  // grown as needed
constexpr uint32_t kVersion = 1;
constexpr size_t kMaxTold = size_t{256} << 20;
constexpr unsigned kPatience = 60;  // seconds for reading a whole index

// As they lie in the database, on this machine only: a foreign byte order shows in the version.
struct StoredKey {
  uint64_t high, low, frame;
};
struct StoredRecord {
  uint32_t version, bytes;
  uint64_t used, checksum;
  uint32_t slots[kMaxSlots];
  uint64_t check;  // of the key and all above
};
struct Told {
  StoredKey key;
  StoredRecord record;
};
static_assert(sizeof(StoredKey) == 24 && sizeof(StoredRecord) == 64 && sizeof(Told) == 88);

StoredKey to_stored(const Key& key) { return {key.archive.high, key.archive.low, key.frame}; }

uint64_t check_of(const StoredKey& key, const StoredRecord& record) {
  uint8_t bytes[sizeof(StoredKey) + offsetof(StoredRecord, check)];
  std::memcpy(bytes, &key, sizeof key);
  std::memcpy(bytes + sizeof key, &record, offsetof(StoredRecord, check));
  return xxh3_64(bytes);
}

StoredRecord to_stored(const StoredKey& key, const IndexRecord& record) {
  StoredRecord out{kVersion, record.bytes, record.used, record.checksum, {}, 0};
  std::copy(record.slots.begin(), record.slots.end(), out.slots);
  out.check = check_of(key, out);
  return out;
}

Error lmdb_error(int code, const std::string& path) {
  const std::string what = "the cache's index '" + path + "'";
  if (code > 0) return Error::from_errno(code, what);  // those of the system
  return make_error(code == MDB_MAP_FULL ? Errc::no_space : Errc::corrupt, what + ": " + mdb_strerror(code));
}

// In the child: sends every record there is.
bool tell_records(const std::string& path, const Tell& tell) {
  MDB_env* env = nullptr;
  if (mdb_env_create(&env) != 0) return false;
  if (mdb_env_open(env, path.c_str(), MDB_NOSUBDIR | MDB_RDONLY | MDB_NOLOCK, 0600) != 0) return false;
  MDB_txn* transaction = nullptr;
  MDB_dbi database = 0;
  MDB_cursor* cursor = nullptr;
  if (mdb_txn_begin(env, nullptr, MDB_RDONLY, &transaction) != 0 ||
      mdb_dbi_open(transaction, nullptr, 0, &database) != 0 || mdb_cursor_open(transaction, database, &cursor) != 0)
    return false;
  MDB_val key, value;
  Told told;
  int found = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);
  for (; found == 0; found = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
    if (key.mv_size != sizeof told.key || value.mv_size != sizeof told.record) continue;
    std::memcpy(&told.key, key.mv_data, sizeof told.key);
    std::memcpy(&told.record, value.mv_data, sizeof told.record);
    if (told.record.version != kVersion || told.record.check != check_of(told.key, told.record)) continue;
    if (!tell({reinterpret_cast<const uint8_t*>(&told), sizeof told})) return false;
  }
  return found == MDB_NOTFOUND;
}

}  // namespace

struct Index::State {
  std::string path;
  MDB_env* env = nullptr;
  MDB_dbi database = 0;
  uint64_t least_bytes = 0;  // the file had once

  ~State() {
    if (env) mdb_env_close(env);
  }
  Status open();
  Status look_at_the_file();
  int write(std::span<const Key> removed, std::span<const IndexRecord> written) const;
};

Status Index::State::open() {
  int code = mdb_env_create(&env);
  if (code == 0) code = mdb_env_set_mapsize(env, kFirstMap);
  if (code == 0)
    code = mdb_env_open(env, path.c_str(), MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC | MDB_NORDAHEAD | MDB_NOTLS, 0600);
  MDB_txn* transaction = nullptr;
  if (code == 0) code = mdb_txn_begin(env, nullptr, 0, &transaction);
  if (code == 0) {
    code = mdb_dbi_open(transaction, nullptr, 0, &database);
    if (code == 0)
      code = mdb_txn_commit(transaction);
    else
      mdb_txn_abort(transaction);
  }
  if (code != 0) return lmdb_error(code, path);
  return {};
}

Status Index::State::look_at_the_file() {
  struct stat by_name {
  }, ours{};
  int fd = -1;
  if (mdb_env_get_fd(env, &fd) != 0 || ::fstat(fd, &ours) != 0) return Error::from_errno(errno, "examining " + path);
  if (::stat(path.c_str(), &by_name) != 0) return Error::from_errno(errno, "examining " + path);
  if (by_name.st_ino != ours.st_ino || by_name.st_dev != ours.st_dev ||
      static_cast<uint64_t>(ours.st_size) < least_bytes)
    return make_error(Errc::corrupt, "the cache's index '" + path + "' was cut short or replaced by somebody else");
  least_bytes = static_cast<uint64_t>(ours.st_size);
  return {};
}

int Index::State::write(std::span<const Key> removed, std::span<const IndexRecord> written) const {
  MDB_txn* transaction = nullptr;
  int code = mdb_txn_begin(env, nullptr, 0, &transaction);
  if (code != 0) return code;
  for (const Key& key : removed) {
    StoredKey stored = to_stored(key);
    MDB_val name{sizeof stored, &stored};
    code = mdb_del(transaction, database, &name, nullptr);
    if (code == MDB_NOTFOUND) code = 0;
    if (code != 0) break;
  }
  for (size_t i = 0; code == 0 && i < written.size(); ++i) {
    StoredKey stored = to_stored(written[i].key);
    StoredRecord record = to_stored(stored, written[i]);
    MDB_val name{sizeof stored, &stored}, value{sizeof record, &record};
    code = mdb_put(transaction, database, &name, &value, 0);
  }
  if (code == 0) return mdb_txn_commit(transaction);
  mdb_txn_abort(transaction);
  return code;
}

Index::Index(std::unique_ptr<State> state) : state_(std::move(state)) {}
Index::~Index() = default;

Result<std::unique_ptr<Index>> Index::create(const std::string& path) {
  auto state = std::make_unique<State>();
  state->path = path;
  BREVIS_TRY(state->open());
  return std::unique_ptr<Index>(new Index(std::move(state)));
}

Status Index::apply(std::span<const Key> removed, std::span<const IndexRecord> written) {
  for (;;) {
    BREVIS_TRY(state_->look_at_the_file());
    const int code = state_->write(removed, written);
    if (code == 0) return {};
    if (code != MDB_MAP_FULL) return lmdb_error(code, state_->path);
    MDB_envinfo info;
    mdb_env_info(state_->env, &info);
    if (const int grown = mdb_env_set_mapsize(state_->env, info.me_mapsize * 2)) return lmdb_error(grown, state_->path);
  }
}

uint64_t Index::file_bytes() const { return state_->least_bytes; }

Result<std::vector<IndexRecord>> read_index(const std::string& path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) return Error::from_errno(errno, "examining '" + path + "'");
  BREVIS_ASSIGN(const ByteVector told,
                run_apart([&](const Tell& tell) { return tell_records(path, tell); }, kMaxTold, kPatience));
  std::vector<IndexRecord> records(told.size() / sizeof(Told));
  for (size_t i = 0; i < records.size(); ++i) {
    Told one;
    std::memcpy(&one, told.data() + i * sizeof one, sizeof one);
    IndexRecord& record = records[i];
    record.key = {{one.key.low, one.key.high}, one.key.frame};
    record.used = one.record.used, record.checksum = one.record.checksum, record.bytes = one.record.bytes;
    std::copy(std::begin(one.record.slots), std::end(one.record.slots), record.slots.begin());
  }
  std::erase_if(records, [](const IndexRecord& r) { return r.bytes == 0 || r.slot_count() > kMaxSlots; });
  return records;
}

}  // namespace brevis::cache
