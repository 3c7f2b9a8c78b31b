// SPDX-License-Identifier: Apache-2.0
//
// A cache directory that somebody changed: opening it gives a cache or a refusal, and what it then calls a hit is what
// was put there. The first byte picks the way:
//
//   even  edits of the files of a whole cache: which file, where, how many bytes, the bytes; or cut there
//   odd   an index of records with sound checksums of their own that say anything, over the blocks of that cache
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>

#include "base/io.h"
#include "brevis/log.h"
#include "cache/directory.h"
#include "cache/disk.h"
#include "cache/slots.h"
#include "fuzz/fuzz.h"

using namespace brevis;
using namespace brevis::cache;

namespace {

constexpr size_t kFrames[] = {1, 4096, kSlotBytes, kSlotBytes + 1, 3 * kSlotBytes};
constexpr uint64_t kSize = uint64_t{4} << 20;

Key key_of(uint64_t n) { return {{n, n + 1}, n}; }

ByteVector frame_of(uint64_t n, size_t bytes) {
  ByteVector out(bytes);
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<uint8_t>(n * 37 + i * 11 + i / 251);
  return out;
}

void put(int directory, const std::string& name, ByteSpan bytes) {
  const int fd = ::openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  BREVIS_FUZZ_CHECK(fd >= 0 && ::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  ::close(fd);
}

ByteVector get(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  BREVIS_FUZZ_CHECK(fd >= 0);
  ByteVector out(std::filesystem::file_size(path));
  BREVIS_FUZZ_CHECK(::read(fd, out.data(), out.size()) == static_cast<ssize_t>(out.size()));
  ::close(fd);
  return out;
}

void offer_all(Disk& disk) {
  Store store(kSize);
  for (uint64_t n = 0; n < std::size(kFrames); ++n) {
    const auto block = store.allocate(kFrames[n]);
    const ByteVector frame = frame_of(n, kFrames[n]);
    std::copy(frame.begin(), frame.end(), block->data());
    disk.offer(key_of(n), block, 1'000'000'000);
  }
  disk.settle();
}

std::filesystem::path new_folder() {
  std::string name = std::filesystem::temp_directory_path() / "brevis-fuzz-cache.XXXXXX";
  BREVIS_FUZZ_CHECK(::mkdtemp(name.data()) != nullptr);
  return name;
}

// A whole cache, made once: its files, and the records of its index.
struct Whole {
  const std::filesystem::path folder = new_folder();
  DiskOptions options;
  std::map<std::string, ByteVector> files;
  std::vector<IndexRecord> records;

  ~Whole() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  Whole() {
    set_log_sink([](LogLevel, std::string_view, const LogFields&) {});
    options.directory = (folder / "c").string();
    options.size = kSize;
    options.admission = Admission::always;
    options.allow_remote = true;
    {
      const auto disk = Disk::open(options);
      BREVIS_FUZZ_CHECK(disk.has_value());
      offer_all(**disk);
    }
    for (const auto& entry : std::filesystem::directory_iterator(options.directory))
      if (entry.path().filename() != "brevis.lock") files[entry.path().filename()] = get(entry.path());
    const auto directory = CacheDirectory::look(options.directory);
    BREVIS_FUZZ_CHECK(directory && files.size() == 3);
    const auto told = directory->records();
    BREVIS_FUZZ_CHECK(told && told->size() == std::size(kFrames));
    records = *told;
  }
};

// Takes numbers off the input; zeros when it has ended.
struct Input {
  const uint8_t* at;
  const uint8_t* end;
  bool more() const { return at < end; }
  uint64_t take(size_t bytes) {
    uint64_t value = 0;
    const size_t n = std::min<size_t>(bytes, static_cast<size_t>(end - at));
    std::memcpy(&value, at, n);
    at += n;
    return value;
  }
};

void edit(std::map<std::string, ByteVector>& files, Input& input) {
  for (int edits = 0; input.more() && edits < 64; ++edits) {
    const uint64_t what = input.take(1);
    ByteVector& file = std::next(files.begin(), static_cast<ptrdiff_t>(what % files.size()))->second;
    // Both what counts in pages of the index and in slots of the blocks is within reach of two bytes.
    const uint64_t place = input.take(2) * (what & 8 ? 1 : 16);
    if (file.empty()) continue;
    const size_t offset = place % file.size();
    if (what & 16) {
      file.resize(offset);
      continue;
    }
    for (uint64_t left = input.take(1) % 16 + 1, i = 0; i < left && offset + i < file.size(); ++i)
      file[offset + i] = static_cast<uint8_t>(input.take(1));
  }
}

std::vector<IndexRecord> invented(const std::vector<IndexRecord>& sound, Input& input) {
  std::vector<IndexRecord> out;
  while (input.more() && out.size() < 64) {
    const uint64_t what = input.take(1);
    IndexRecord record = sound[what % sound.size()];
    if (what & 16) record.key = key_of(input.take(1));
    if (what & 32) record.bytes = static_cast<uint32_t>(input.take(4));
    if (what & 64) record.slots[input.take(1) % kMaxSlots] = static_cast<uint32_t>(input.take(what & 128 ? 4 : 1));
    record.used = input.take(1);
    out.push_back(record);
  }
  return out;
}

void look(Disk& disk) {
  ByteVector got(kMaxSlots * kSlotBytes);
  for (uint64_t n = 0; n < 256; ++n) {
    const size_t bytes = disk.holds(key_of(n));
    if (bytes == 0) continue;
    BREVIS_FUZZ_CHECK(bytes <= got.size());
    if (disk.read(key_of(n), MutByteSpan(got).first(bytes), true) != Disk::Found::hit) continue;
    BREVIS_FUZZ_CHECK(n < std::size(kFrames) && bytes == kFrames[n]);
    const ByteVector want = frame_of(n, bytes);
    BREVIS_FUZZ_CHECK(std::equal(want.begin(), want.end(), got.begin()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Whole whole;
  if (size == 0) return 0;
  Input input{data + 1, data + size};
  auto files = whole.files;
  if (data[0] % 2 == 0) edit(files, input);
  std::filesystem::remove_all(whole.options.directory);
  {
    auto directory = CacheDirectory::take(whole.options.directory, true);
    BREVIS_FUZZ_CHECK(directory.has_value());
    for (const auto& [name, bytes] : files) put(directory->fd(), name, bytes);
    if (data[0] % 2 == 1) BREVIS_FUZZ_CHECK(directory->begin_index(invented(whole.records, input)).has_value());
  }
  const auto disk = Disk::open(whole.options);
  if (!disk) return 0;
  look(**disk);
  BREVIS_FUZZ_CHECK((*disk)->counters().bytes <= kSize);
  // Whatever it was, it takes frames and gives them back.
  offer_all(**disk);
  look(**disk);
  return 0;
}
