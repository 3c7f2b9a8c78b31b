// SPDX-License-Identifier: Apache-2.0
//
// No locks of LMDB's (MDB_NOLOCK): the directory's lock leaves one writer, and nobody reads a database that is written
// to but tools, which can live with a record that went missing. So there is no table of readers that dead processes
// could fill. No syncs (MDB_NOSYNC): after a crash of the process the kernel still has all pages; after one of the
// machine the database may be rubbish, which is found out in the child and costs the cache's content, nothing else. No
// MDB_WRITEMAP: a full disk would kill the process instead of failing a call.
//
// LMDB trusts the pages that it maps: one that is damaged, or cut off, while it is in use ends the process. So LMDB is
// used in a process of its own (Servant), which is told what to write; when that ends, the list in memory is still
// whole and a new database is begun. A file cut short or replaced is found out before that by a look at its size.
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
  if (code == MDB_CORRUPTED) return make_error(Errc::corrupt, what + " was damaged, cut short or replaced");
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

// In the servant: the database as it is written.
class Database {
 public:
  explicit Database(std::string path) : path_(std::move(path)) { code_ = open(); }
  ~Database() {
    if (env_) mdb_env_close(env_);
  }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  ByteVector answer(ByteSpan question);

 private:
  int open();
  int look_at_the_file();
  int write(const std::vector<StoredKey>& removed, const std::vector<Told>& written) const;
  int apply(const std::vector<StoredKey>& removed, const std::vector<Told>& written);

  const std::string path_;
  MDB_env* env_ = nullptr;
  MDB_dbi database_ = 0;
  uint64_t least_bytes_ = 0;  // the file had once
  int code_ = 0;
};

int Database::open() {
  int code = mdb_env_create(&env_);
  if (code == 0) code = mdb_env_set_mapsize(env_, kFirstMap);
  if (code == 0)
    code = mdb_env_open(env_, path_.c_str(), MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC | MDB_NORDAHEAD | MDB_NOTLS, 0600);
  MDB_txn* transaction = nullptr;
  if (code == 0) code = mdb_txn_begin(env_, nullptr, 0, &transaction);
  if (code != 0) return code;
  code = mdb_dbi_open(transaction, nullptr, 0, &database_);
  if (code == 0) return mdb_txn_commit(transaction);
  mdb_txn_abort(transaction);
  return code;
}

int Database::look_at_the_file() {
  struct stat by_name {
  }, ours{};
  int fd = -1;
  if (mdb_env_get_fd(env_, &fd) != 0 || ::fstat(fd, &ours) != 0 || ::stat(path_.c_str(), &by_name) != 0) return errno;
  if (by_name.st_ino != ours.st_ino || by_name.st_dev != ours.st_dev ||
      static_cast<uint64_t>(ours.st_size) < least_bytes_)
    return MDB_CORRUPTED;
  least_bytes_ = static_cast<uint64_t>(ours.st_size);
  return 0;
}

int Database::write(const std::vector<StoredKey>& removed, const std::vector<Told>& written) const {
  MDB_txn* transaction = nullptr;
  int code = mdb_txn_begin(env_, nullptr, 0, &transaction);
  if (code != 0) return code;
  for (StoredKey key : removed) {
    MDB_val name{sizeof key, &key};
    code = mdb_del(transaction, database_, &name, nullptr);
    if (code == MDB_NOTFOUND) code = 0;
    if (code != 0) break;
  }
  for (size_t i = 0; code == 0 && i < written.size(); ++i) {
    Told one = written[i];
    MDB_val name{sizeof one.key, &one.key}, value{sizeof one.record, &one.record};
    code = mdb_put(transaction, database_, &name, &value, 0);
  }
  if (code == 0) return mdb_txn_commit(transaction);
  mdb_txn_abort(transaction);
  return code;
}

int Database::apply(const std::vector<StoredKey>& removed, const std::vector<Told>& written) {
  for (;;) {
    if (const int code = look_at_the_file()) return code;
    const int code = write(removed, written);
    if (code != MDB_MAP_FULL) return code;
    MDB_envinfo info;
    mdb_env_info(env_, &info);
    if (const int grown = mdb_env_set_mapsize(env_, info.me_mapsize * 2)) return grown;
  }
}

// Question: how many keys to remove, those, then what to write, to the end. Answer: a code of LMDB's, and the file's
// size.
struct Outcome {
  int64_t code;
  uint64_t file_bytes;
};

ByteVector Database::answer(ByteSpan question) {
  uint64_t count = 0;
  std::memcpy(&count, question.data(), sizeof count);
  std::vector<StoredKey> removed(count);
  question = question.subspan(sizeof count);
  if (count != 0) std::memcpy(removed.data(), question.data(), count * sizeof(StoredKey));
  question = question.subspan(count * sizeof(StoredKey));
  std::vector<Told> written(question.size() / sizeof(Told));
  if (!written.empty()) std::memcpy(written.data(), question.data(), question.size());
  if (code_ == 0) code_ = apply(removed, written);
  const Outcome outcome{code_, least_bytes_};
  ByteVector bytes(sizeof outcome);
  std::memcpy(bytes.data(), &outcome, sizeof outcome);
  return bytes;
}

template <class T>
void add(ByteVector& bytes, const T& value) {
  const auto* from = reinterpret_cast<const uint8_t*>(&value);
  bytes.insert(bytes.end(), from, from + sizeof value);
}

}  // namespace

struct Index::State {
  std::string path;
  Servant servant;
  uint64_t file_bytes = 0;
};

Index::Index(std::unique_ptr<State> state) : state_(std::move(state)) {}
Index::~Index() = default;

Result<std::unique_ptr<Index>> Index::create(const std::string& path) {
  BREVIS_ASSIGN(Servant servant, Servant::start([&path]() -> Servant::Answer {
                  return [database = std::make_shared<Database>(path)](ByteSpan question) {
                    return database->answer(question);
                  };
                }));
  std::unique_ptr<Index> index(new Index(std::unique_ptr<State>(new State{path, std::move(servant)})));
  BREVIS_TRY(index->apply({}, {}));
  return index;
}

Status Index::apply(std::span<const Key> removed, std::span<const IndexRecord> written) {
  ByteVector question;
  add(question, uint64_t{removed.size()});
  for (const Key& key : removed) add(question, to_stored(key));
  for (const IndexRecord& record : written) {
    const StoredKey key = to_stored(record.key);
    add(question, Told{key, to_stored(key, record)});
  }
  auto answer = state_->servant.ask(question, kPatience);
  if (!answer) return std::move(answer).error().within("the cache's index '" + state_->path + "'");
  Outcome outcome{};
  if (answer->size() != sizeof outcome) return lmdb_error(MDB_CORRUPTED, state_->path);
  std::memcpy(&outcome, answer->data(), sizeof outcome);
  state_->file_bytes = outcome.file_bytes;
  if (outcome.code != 0) return lmdb_error(static_cast<int>(outcome.code), state_->path);
  return {};
}

uint64_t Index::file_bytes() const { return state_->file_bytes; }

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
