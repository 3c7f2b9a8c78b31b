// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "base/io.h"
#include "brevis/cache_admin.h"
#include "cache/directory.h"
#include "cache/disk.h"
#include "cache/slots.h"
#include "support/temp_dir.h"

using namespace brevis;
using namespace brevis::cache;
using brevis::test::TempDir;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr size_t kFrame = size_t{512} << 10;

Key key(uint64_t n) { return {{n, n + 1}, n}; }

// What belongs to the key: to be told from any other.
void fill(uint64_t n, MutByteSpan out) {
  std::mt19937_64 source(n);
  size_t at = 0;
  for (; at + 8 <= out.size(); at += 8) {
    const uint64_t word = source();
    std::memcpy(out.data() + at, &word, 8);
  }
  for (; at < out.size(); ++at) out[at] = static_cast<uint8_t>(n);
}

struct Cache {
  explicit Cache(std::string path, uint64_t size = 64 * kMiB, Admission admission = Admission::always)
      : options{std::move(path), size, admission}, disk(Disk::open(options).value()) {}
  DiskOptions options;
  Store store{256 * kMiB};
  std::unique_ptr<Disk> disk;

  void put(uint64_t n, size_t bytes = kFrame, uint64_t cost_ns = 1'000'000'000) {
    auto block = store.allocate(bytes);
    fill(n, {block->data(), bytes});
    disk->offer(key(n), block, cost_ns);
  }
  // Whether it is there; what is there must be right.
  bool has(uint64_t n, size_t bytes = kFrame) {
    if (disk->holds(key(n)) != bytes) return false;
    ByteVector got(bytes), want(bytes);
    if (disk->read(key(n), got, true) != Disk::Found::hit) return false;
    fill(n, want);
    REQUIRE(got == want);
    return true;
  }
  void reopen() {
    disk.reset();
    disk = Disk::open(options).value();
  }
};

struct Hook {
  explicit Hook(FaultHook hook) { set_fault_hook(std::move(hook)); }
  ~Hook() { set_fault_hook(nullptr); }
};

std::vector<std::string> names(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) out.push_back(entry.path().filename());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

TEST_CASE("M25, D11: frames of every size are held, across restarts, and in another place") {
  TempDir folder;
  const size_t sizes[] = {1, 4096, kSlotBytes, kSlotBytes + 1, kFrame, kFrame + 13, kMaxSlots * kSlotBytes};
  Cache cache(folder / "c");
  uint64_t n = 0;
  for (const size_t size : sizes) cache.put(++n, size);
  cache.put(99, kMaxSlots * kSlotBytes + 1);  // larger than any frame: not kept
  cache.disk->settle();
  for (int round = 0; round < 3; ++round) {
    n = 0;
    for (const size_t size : sizes) CHECK(cache.has(++n, size));
    CHECK(!cache.has(100));
    CHECK(cache.disk->counters().entries == std::size(sizes));
    cache.reopen();
  }
  cache.disk.reset();
  std::filesystem::rename(folder / "c", folder / "moved");
  cache.options.directory = folder / "moved";
  cache.disk = Disk::open(cache.options).value();
  CHECK(cache.has(5, kFrame));
  CHECK(cache.disk->counters().faults == 0);
  CHECK(cache.disk->counters().rebuilds == 0);
  struct stat st;
  REQUIRE(stat((folder / "moved/brevis.blocks.0000").c_str(), &st) == 0);
  CHECK((st.st_mode & 077) == 0);  // for its owner's eyes only
}

TEST_CASE("the budget holds and the least recently used goes first, also after a restart") {
  TempDir folder;
  Cache cache(folder / "c", 8 * kMiB);
  for (uint64_t i = 0; i < 16; ++i) cache.put(i);
  cache.disk->settle();
  for (uint64_t i = 0; i < 4; ++i) CHECK(cache.has(i));
  cache.reopen();
  for (uint64_t i = 100; i < 108; ++i) cache.put(i);
  cache.disk->settle();
  for (uint64_t i = 0; i < 4; ++i) CHECK(cache.has(i));
  for (uint64_t i = 4; i < 12; ++i) CHECK(!cache.has(i));
  for (uint64_t i = 100; i < 108; ++i) CHECK(cache.has(i));
  CHECK(cache.disk->counters().evictions == 8);
  CHECK(cache.disk->counters().bytes <= 8 * kMiB);
  CHECK(cache.disk->counters().capacity == 8 * kMiB);
  CHECK(std::filesystem::file_size(folder / "c/brevis.blocks.0000") <= 8 * kMiB);
}

TEST_CASE("a smaller budget at the next start is kept to") {
  TempDir folder;
  Cache cache(folder / "c", 16 * kMiB);
  for (uint64_t i = 0; i < 32; ++i) cache.put(i);
  cache.disk->settle();
  cache.options.size = 4 * kMiB;
  cache.reopen();
  CHECK(cache.disk->counters().entries <= 8);
  for (uint64_t i = 50; i < 70; ++i) cache.put(i);
  cache.disk->settle();
  CHECK(cache.disk->counters().bytes <= 4 * kMiB);
  CHECK(cache.has(69));
}

TEST_CASE("only what costs more than reading it back is admitted") {
  TempDir folder;
  Cache cache(folder / "c", 64 * kMiB, Admission::automatic);
  for (uint64_t i = 0; i < 8; ++i) cache.put(i, kFrame, 1000);  // half a microsecond for 512 KiB: no disk does that
  cache.disk->settle();
  CHECK(cache.disk->counters().entries == 0);
  CHECK(cache.disk->counters().unworthy == 8);
  for (uint64_t i = 0; i < 8; ++i) cache.put(i, kFrame, 60'000'000'000);
  cache.disk->settle();
  CHECK(cache.disk->counters().entries == 8);
}

TEST_CASE("L06: a second user of the directory is told that it is in use") {
  TempDir folder;
  Cache cache(folder / "c");
  CHECK(Disk::open(cache.options).error().kind() == Errc::busy);
  cache.disk.reset();
  CHECK(Disk::open(cache.options).has_value());
}

TEST_CASE("places that are no place for a cache are refused") {
  TempDir folder;
  CHECK(Disk::open({folder / "c", kMiB / 2}).error().kind() == Errc::no_space);
  std::filesystem::create_directory(folder / "open");
  REQUIRE(chmod((folder / "open").c_str(), 0777) == 0);
  CHECK(Disk::open({folder / "open"}).error().kind() == Errc::invalid_argument);
  std::ofstream(folder / "file") << "x";
  CHECK(!Disk::open({folder / "file"}));
}

TEST_CASE("files of others stay; damaged ones of ours are begun anew") {
  TempDir folder;
  const std::string place = folder / "c";
  const std::vector<std::pair<std::string, std::string>> damage = {{"brevis.cache", "brevis block cache, version 2\n"},
                                                                   {"brevis.index.9", std::string(20'000, 'x')},
                                                                   {"brevis.index.9", ""},
                                                                   {"brevis.cache", ""}};
  for (const auto& [name, text] : damage) {
    {
      Cache cache(place);
      std::ofstream(place + "/notes.txt") << "mine";
      cache.put(1);
      cache.disk->settle();
    }
    std::ofstream(place + "/" + name, std::ios::binary) << text;
    Cache cache(place);
    CHECK(cache.disk->counters().entries <= 1);
    CHECK((cache.has(1) || cache.disk->counters().rebuilds == 1));
    cache.put(2);
    cache.disk->settle();
    CHECK(cache.has(2));
    std::string mine;
    std::ifstream(place + "/notes.txt") >> mine;
    CHECK(mine == "mine");
    cache.disk.reset();
    for (const std::string& file : names(place))
      if (file.starts_with("brevis.")) std::filesystem::remove(place + "/" + file);
  }
}

TEST_CASE("any damaged byte of the blocks is a miss, and much damage a new beginning") {
  TempDir folder;
  Cache cache(folder / "c");
  for (uint64_t i = 0; i < 32; ++i) cache.put(i);
  cache.disk->settle();
  const std::string blocks = folder / "c/brevis.blocks.0000";
  const int fd = open(blocks.c_str(), O_RDWR);
  const uint8_t odd = 0xa5;
  REQUIRE(pwrite(fd, &odd, 1, 3 * kFrame + 77) == 1);
  int held = 0;
  for (uint64_t i = 0; i < 32; ++i) held += cache.has(i);
  CHECK(held == 31);
  CHECK(cache.disk->counters().faults == 1);
  CHECK(cache.disk->counters().rebuilds == 0);
  for (uint64_t i = 0; i < 32; ++i) REQUIRE(pwrite(fd, &odd, 1, static_cast<off_t>(i * kFrame + 5)) == 1);
  close(fd);
  for (uint64_t i = 0; i < 32; ++i) CHECK(!cache.has(i));
  cache.disk->settle();
  CHECK(cache.disk->counters().rebuilds == 1);
  CHECK(cache.disk->counters().entries == 0);
  cache.put(7);
  cache.disk->settle();
}

TEST_CASE("a frame where another's should lie is found out") {
  TempDir folder;
  Cache cache(folder / "c");
  cache.put(1), cache.put(2);
  cache.disk->settle();
  const int fd = open((folder / "c/brevis.blocks.0000").c_str(), O_RDWR);
  std::vector<char> bytes(kFrame);
  REQUIRE(pread(fd, bytes.data(), kFrame, 0) == static_cast<ssize_t>(kFrame));
  REQUIRE(pwrite(fd, bytes.data(), kFrame, kFrame) == static_cast<ssize_t>(kFrame));
  close(fd);
  CHECK(cache.has(1));
  CHECK(!cache.has(2));
}

TEST_CASE("failing disks: misses, never wrong bytes, and the cache comes to rest") {
  TempDir folder;
  Cache cache(folder / "c");
  for (uint64_t i = 0; i < 8; ++i) cache.put(i);
  cache.disk->settle();
  {
    Hook hook([](const char* call, const std::string& path, uint64_t) {
      return std::strcmp(call, "read") == 0 && path.find("brevis.blocks") != std::string::npos ? EIO : 0;
    });
    CHECK(!cache.has(3));
  }
  CHECK(cache.has(4));
  {
    Hook hook([](const char* call, const std::string& path, uint64_t) {
      return std::strcmp(call, "write") == 0 && path.find("brevis.blocks") != std::string::npos ? ENOSPC : 0;
    });
    for (uint64_t i = 10; i < 14; ++i) cache.put(i);
    cache.disk->settle();
    for (uint64_t i = 10; i < 14; ++i) CHECK(!cache.has(i));
  }
  // Full: it lives on with the slots it has.
  for (uint64_t i = 20; i < 24; ++i) cache.put(i);
  cache.disk->settle();
  CHECK(cache.has(23));
  CHECK(cache.disk->counters().capacity < 8 * kMiB);
  {
    Hook hook([](const char*, const std::string& path, uint64_t) {
      return path.find("brevis.blocks") != std::string::npos ? EIO : 0;
    });
    for (uint64_t i = 0; i < 24; ++i) CHECK(!cache.has(i));
    for (uint64_t i = 30; i < 60; ++i) cache.put(i);
    cache.disk->settle();
  }
  CHECK(cache.disk->counters().faults >= 8);
  CHECK(cache.disk->holds(key(23)) == 0);  // at rest
}

TEST_CASE("an index that somebody cut is begun anew from memory; nothing is lost") {
  TempDir folder;
  Cache cache(folder / "c");
  for (uint64_t i = 0; i < 8; ++i) cache.put(i);
  cache.disk->settle();
  for (const std::string& name : names(folder / "c"))
    if (name.starts_with("brevis.index")) REQUIRE(truncate((folder / "c/" + name).c_str(), 100) == 0);
  for (uint64_t i = 8; i < 12; ++i) {
    cache.put(i);
    cache.disk->settle();
    CHECK(cache.has(i));
  }
  CHECK(cache.disk->counters().rebuilds == 1);
  cache.reopen();
  for (uint64_t i = 0; i < 12; ++i) CHECK(cache.has(i));
}

TEST_CASE("D11: an index that is damaged while in use costs nothing that is held") {
  TempDir folder;
  Cache cache(folder / "c");
  for (uint64_t i = 0; i < 8; ++i) cache.put(i);
  cache.disk->settle();
  for (const std::string& name : names(folder / "c"))
    if (name.starts_with("brevis.index")) {
      std::ofstream file(folder / ("c/" + name), std::ios::binary | std::ios::in);
      for (int i = 0; i < 16 * 4096; ++i) file.put('\xee');
    }
  for (uint64_t i = 8; i < 12; ++i) {
    cache.put(i);
    cache.disk->settle();
    for (uint64_t k = 0; k <= i; ++k) CHECK(cache.has(k));
  }
  CHECK(cache.disk->counters().rebuilds == 1);
  cache.reopen();
  for (uint64_t i = 0; i < 12; ++i) CHECK(cache.has(i));
}

TEST_CASE("the list's memory is charged, and given back") {
  TempDir folder;
  std::atomic<int64_t> charged{0};
  {
    DiskOptions options{folder / "c", 4 * kMiB, Admission::always};
    options.charge = [&](int64_t bytes) { charged += bytes; };
    Store store(64 * kMiB);
    const auto offer = [&](Disk& disk, uint64_t n) {
      const auto block = store.allocate(kFrame);
      fill(n, {block->data(), kFrame});
      disk.offer(key(n), block, 1'000'000'000);
      disk.settle();
    };
    auto disk = Disk::open(options).value();
    CHECK(charged == 0);
    offer(*disk, 1);
    CHECK(charged == static_cast<int64_t>(disk->counters().memory));
    for (uint64_t i = 2; i < 40; ++i) offer(*disk, i);  // more than there is room for
    CHECK(charged == static_cast<int64_t>(disk->counters().memory));
    const int64_t full = charged;
    disk.reset();
    CHECK(charged == 0);
    disk = Disk::open(options).value();
    CHECK(charged == full);
  }
  CHECK(charged == 0);
}

TEST_CASE("many threads: right bytes or misses while everything is being replaced") {
  TempDir folder;
  Cache cache(folder / "c", 4 * kMiB);
  for (uint64_t i = 0; i < 8; ++i) cache.put(i);
  cache.disk->settle();  // something to find, however slow the disk is
  std::atomic<int> hits{0}, wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937_64 source(t);
      ByteVector got(kFrame), want(kFrame);
      for (int i = 0; i < 150; ++i) {
        const uint64_t n = source() % 24;
        if (cache.disk->read(key(n), got, source() % 2 == 0) == Disk::Found::hit) {
          ++hits;
          fill(n, want);
          wrong += got != want;
        } else {
          cache.put(n);
        }
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(hits > 0);
  CHECK(cache.disk->counters().faults == 0);
}

TEST_CASE("killed at any time: the next start has right frames or none") {
  TempDir folder;
  const std::string place = folder / "c";
  uint64_t survived = 0;
  for (int round = 0; round < 10; ++round) {
    int settled[2];
    REQUIRE(pipe2(settled, O_CLOEXEC) == 0);
    const pid_t child = fork();
    if (child == 0) {
      auto disk = Disk::open({place, 6 * kMiB, Admission::always});
      Store store(64 * kMiB);
      for (uint64_t n = 0; disk; ++n) {
        auto block = store.allocate(kFrame);
        fill(n % 30, {block->data(), kFrame});
        (*disk)->offer(key(n % 30), block, 1);
        if (n % 8 == 7) {
          (*disk)->settle();
          (void)!write(settled[1], "x", 1);
        }
      }
      _exit(3);
    }
    close(settled[1]);
    // Every other round not before frames are on disk, however slow the machine is.
    char begun = 0;
    if (round % 2 == 1) CHECK(read(settled[0], &begun, 1) == 1);
    usleep(20'000 + 7'000 * static_cast<unsigned>(round));
    kill(child, SIGKILL);
    int status;
    waitpid(child, &status, 0);
    close(settled[0]);
    REQUIRE(WIFSIGNALED(status));
    Cache cache(place, 6 * kMiB);
    for (uint64_t n = 0; n < 30; ++n) survived += cache.has(n);
    CHECK(cache.disk->counters().faults == 0);
    CHECK(cache.disk->counters().rebuilds == 0);
  }
  CHECK(survived > 10);
}

TEST_CASE("a lock that is about to be given up is waited for, one that is kept is refused") {
  TempDir folder;
  const std::string place = folder / "c";
  auto first = CacheDirectory::take(place, false);
  REQUIRE(first);
  CHECK(CacheDirectory::take(place, false).error().kind() == Errc::busy);
  std::thread leaving([&] {
    usleep(200'000);
    const CacheDirectory gone = std::move(*first);
  });
  CHECK(CacheDirectory::take(place, false));
  leaving.join();
}

TEST_CASE("killed at the first start: what is half made is finished without a word") {
  TempDir folder;
  const std::string place = folder / "c";
  REQUIRE(mkdir(place.c_str(), 0700) == 0);
  close(creat((place + "/brevis.cache").c_str(), 0600));
  {
    Cache cache(place);
    CHECK(cache.disk->counters().rebuilds == 0);
  }
  for (const std::string& name : names(place))
    if (name.starts_with("brevis.index")) REQUIRE(truncate((place + "/" + name).c_str(), 0) == 0);
  Cache cache(place);
  CHECK(cache.disk->counters().rebuilds == 0);
  cache.put(1);
  cache.disk->settle();
  CHECK(cache.has(1));
}

TEST_CASE("a cache is listed, checked and emptied from outside") {
  TempDir folder;
  const std::string place = folder / "c";
  CHECK(report_cache(folder / "none").error().kind() == Errc::not_found);
  CHECK(clear_cache(folder.path()).error().kind() == Errc::not_found);
  Cache cache(place);
  for (uint64_t i = 0; i < 5; ++i) cache.put(i);
  cache.disk->settle();
  CHECK(report_cache(place)->frames == 5);
  CHECK(report_cache(place)->in_use);
  CHECK(clear_cache(place).error().kind() == Errc::busy);
  CHECK(verify_cache(place).error().kind() == Errc::busy);
  cache.disk.reset();
  CHECK(report_cache(place)->archives.size() == 5);
  CHECK(report_cache(place)->bytes == 5 * kFrame);
  CHECK(!report_cache(place)->in_use);
  CHECK(verify_cache(place)->wrong == 0);
  const int fd = open((place + "/brevis.blocks.0000").c_str(), O_RDWR);
  REQUIRE(pwrite(fd, "x", 1, 100) == 1);
  close(fd);
  CHECK(verify_cache(place)->wrong == 1);
  REQUIRE(clear_cache(place));
  CHECK(names(place) == std::vector<std::string>{"brevis.lock"});
}
