// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include "archive/reader.h"
#include "base/io.h"
#include "served_tree.h"
#include "support/temp_dir.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::test;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

VolumeOptions cached(const std::string& directory) {
  VolumeOptions options;
  options.memory = 64 * kMiB;  // and an eighth of it for what waits to be written
  options.cache_dir = directory;
  options.cache_size = 64 * kMiB;
  options.cache_always = true;
  return options;
}

bool read_all(Volume& volume, const std::shared_ptr<FileHandle>& file, const ByteVector& want) {
  for (uint64_t at = 0; at < want.size(); at += kMiB) {
    const uint64_t length = std::min<uint64_t>(kMiB, want.size() - at);
    const auto got = read_now(volume, file, {at, length});
    if (!got || !std::equal(got->begin(), got->end(), want.begin() + static_cast<ptrdiff_t>(at))) return false;
  }
  return true;
}

void until(const std::function<bool()>& condition) {
  for (int i = 0; i < 4000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(condition());
}

}  // namespace

TEST_CASE("M25: after a restart with a cache on disk nothing is decoded again") {
  ServedTree tree;
  TempDir folder;
  const ByteVector bytes = gaussian_words(Dtype::BF16, 4 * kMiB, 1);
  tree.pack("m", bytes, 512 * 1024);
  uint64_t frames = 0;
  {
    Volume& volume = tree.serve(cached(folder / "c"));
    CHECK(read_all(volume, tree.open("m"), bytes));
    frames = volume.counters().frames_decoded;
    CHECK(frames >= bytes.size() / (512 * 1024));
    until([&] { return volume.counters().disk_written_bytes == volume.counters().decoded_bytes; });
  }
  Volume& volume = tree.serve(cached(folder / "c"));
  CHECK(read_all(volume, tree.open("m"), bytes));
  CHECK(volume.counters().frames_decoded == 0);
  CHECK(volume.counters().disk_hits == frames);
  CHECK(volume.counters().disk_entries == frames);
}

TEST_CASE("a replaced archive is never answered from the old one's frames") {
  ServedTree tree;
  TempDir folder;
  for (uint64_t version = 0; version < 3; ++version) {
    const ByteVector bytes = gaussian_words(Dtype::BF16, kMiB, version);
    tree.pack("m", bytes, 512 * 1024);
    Volume& volume = tree.serve(cached(folder / "c"));
    CHECK(read_all(volume, tree.open("m"), bytes));
    until([&] { return volume.counters().disk_written_bytes >= volume.counters().decoded_bytes; });
  }
}

TEST_CASE("no fault of the cache on disk fails a read") {
  ServedTree tree;
  TempDir folder;
  const ByteVector bytes = gaussian_words(Dtype::BF16, 3 * kMiB, 1);
  tree.pack("m", bytes, 256 * 1024);
  {
    Volume& volume = tree.serve(cached(folder / "c"));
    CHECK(read_all(volume, tree.open("m"), bytes));
  }
  for (const int error : {EIO, ENOSPC, EROFS})
    for (const char* call : {"read", "write", "open", "any"}) {
      Volume& volume = tree.serve(cached(folder / "c"));
      const auto file = tree.open("m");
      set_fault_hook([&](const char* what, const std::string& path, uint64_t) {
        const bool ours = path.find("brevis.") != std::string::npos;
        return ours && (std::strcmp(call, "any") == 0 || std::strcmp(call, what) == 0) ? error : 0;
      });
      CHECK(read_all(volume, file, bytes));
      set_fault_hook(nullptr);
      CHECK(read_all(volume, file, bytes));
    }
  // Not even opened:
  write_file(folder / "file", "x");
  for (const std::string& place : {folder / "file", std::string("/proc/nowhere/c")}) {
    Volume& volume = tree.serve(cached(place));
    CHECK(read_all(volume, tree.open("m"), bytes));
    CHECK(volume.counters().disk_capacity == 0);
  }
}

TEST_CASE("a sequential reader is read ahead of, within the memory, once a frame") {
  ServedTree tree;
  const ByteVector bytes = gaussian_words(Dtype::BF16, 16 * kMiB, 1);
  tree.pack("m", bytes, 256 * 1024);
  const size_t frames = archive::Reader::open(File::open(tree / "m.brv").value()).value()->manifest().frames.size();
  for (const bool falling : {false, true}) {
    Volume& volume = tree.serve({.memory = 32 * kMiB});
    const auto file = tree.open("m");
    for (uint64_t i = 0; i < 16; ++i) {
      const uint64_t at = (falling ? 15 - i : i) * kMiB;
      const auto got = read_now(volume, file, {at, kMiB}, true);
      REQUIRE(got);
      CHECK(std::equal(got->begin(), got->end(), bytes.begin() + static_cast<ptrdiff_t>(at)));
      // A reader slower than the read-ahead, on any machine: once it is a stream, the next four frames are there first.
      if (i >= 1 && i < 15) until([&] { return volume.counters().frames_decoded >= (i + 2) * 4; });
    }
    const VolumeCounters counters = volume.counters();
    CHECK(counters.ahead_streams == 1);
    CHECK(counters.ahead_frames >= 20);
    CHECK(counters.ahead_used >= counters.ahead_frames / 2);
    CHECK(counters.frames_decoded <= frames);
    CHECK(counters.cache_bytes <= 32 * kMiB);
  }
}

// As the kernel asks for a file that is read from its beginning: `requests` of 1 MiB.
void read_as_kernel(
    Volume& volume, const ByteVector& bytes, const std::shared_ptr<FileHandle>& file, uint64_t requests,
    const std::function<void(uint64_t)>& after = [](uint64_t) {}) {
  for (uint64_t i = 0; i < requests; ++i) {
    const auto got = read_now(volume, file, {i * kMiB, kMiB});
    REQUIRE(got);
    CHECK(std::equal(got->begin(), got->end(), bytes.begin() + static_cast<ptrdiff_t>(i * kMiB)));
    after(i + 1);
  }
}

TEST_CASE("where the kernel reads far ahead itself, what comes after that is decoded in between") {
  ServedTree tree;
  const ByteVector bytes = gaussian_words(Dtype::BF16, 8 * kMiB, 1);
  for (const uint64_t frame_bytes : {512 * 1024, 64 * 1024}) {  // small ones are decoded several at a time
    CAPTURE(frame_bytes);
    tree.pack("m", bytes, frame_bytes);
    const uint64_t in_mib = kMiB / frame_bytes;
    const size_t frames = archive::Reader::open(File::open(tree / "m.brv").value()).value()->manifest().frames.size();
    Volume& volume = tree.serve({.memory = 64 * kMiB});
    const auto file = tree.open("m");
    // A reader slower than the thread that decodes ahead, on any machine.
    read_as_kernel(volume, bytes, file, 16, [&](uint64_t done) {
      if (done >= 8 && done < 16) until([&] { return volume.counters().frames_decoded >= (done + 1) * in_mib; });
      CHECK(volume.counters().frames_decoded <= (done + 4) * in_mib + 2);
    });
    const VolumeCounters counters = volume.counters();
    CHECK(counters.ahead_streams == 1);
    CHECK(counters.ahead_frames >= 6 * in_mib);
    CHECK(counters.ahead_used == counters.ahead_frames);
    CHECK(counters.frames_decoded == frames);
    CHECK(counters.cache_bytes <= 64 * kMiB);
  }
}

TEST_CASE("nothing is decoded ahead for what the kernel asks for around one place, nor where it is off") {
  ServedTree tree;
  const ByteVector bytes = gaussian_words(Dtype::BF16, 4 * kMiB, 1);
  tree.pack("m", bytes, 512 * 1024);
  for (const bool off : {false, true}) {
    Volume& volume = tree.serve({.memory = 64 * kMiB, .readahead = off ? 0 : 16 * kMiB});
    const auto file = tree.open("m");
    read_as_kernel(volume, bytes, file, off ? 8 : 5);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CHECK(volume.counters().ahead_frames == 0);
  }
}

TEST_CASE("frames that others come back for outlast a stream that is decoded ahead of") {
  ServedTree tree;
  const ByteVector kept = gaussian_words(Dtype::BF16, 2 * kMiB, 1),
                   streamed = gaussian_words(Dtype::BF16, 12 * kMiB, 2);
  tree.pack("kept", kept, 512 * 1024);
  tree.pack("streamed", streamed, 512 * 1024);
  Volume& volume = tree.serve({.memory = 16 * kMiB});
  const auto file = tree.open("kept");
  for (uint64_t at = 0; at < kept.size(); at += 512 * 1024) REQUIRE(read_now(volume, file, {at + 4096, 4096}));
  read_as_kernel(volume, streamed, tree.open("streamed"), 24);
  CHECK(volume.counters().cache_bytes <= 16 * kMiB);
  const uint64_t before = volume.counters().frames_decoded;
  for (uint64_t at = 0; at < kept.size(); at += 512 * 1024) REQUIRE(read_now(volume, file, {at + 4096, 4096}));
  CHECK(volume.counters().frames_decoded == before);
}

TEST_CASE("what is pushed is right, in whole pages, with holes, and ends when it shall") {
  ServedTree tree;
  const ByteVector bytes = gaussian_words(Dtype::BF16, 24 * kMiB + 1234, 1);
  tree.pack("m", bytes, 256 * 1024);
  for (const bool falling : {false, true}) {
    Volume& volume = tree.serve({.memory = 128 * kMiB});
    const auto file = tree.open("m");
    std::mutex mutex;
    std::vector<bool> pushed(bytes.size() / 4096 + 1);
    std::atomic<int> wrong{0};
    std::set<std::thread::id> threads;
    volume.start_pushing([&](NodeId, uint64_t offset, const ReadResult& result) {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
      uint64_t at = offset;
      for (const ByteSpan part : result.parts) {
        wrong += !std::equal(part.begin(), part.end(), bytes.begin() + static_cast<ptrdiff_t>(at));
        at += part.size();
      }
      wrong += offset % 4096 != 0 || (at % 4096 != 0 && at != bytes.size());
      for (uint64_t page = offset / 4096; page * 4096 < at; ++page) pushed[page] = true;
      return true;
    });
    // A reader in small pieces, as an ordinary user's kernel makes them; what was pushed he does not ask for.
    constexpr uint64_t kStep = 128 * 1024;
    uint64_t asked = 0;
    for (uint64_t i = 0; i < bytes.size() / kStep; ++i) {
      const uint64_t at = (falling ? bytes.size() / kStep - 1 - i : i) * kStep;
      {
        const std::lock_guard lock(mutex);
        bool all = true;
        for (uint64_t page = at / 4096; page < (at + kStep) / 4096; ++page) all = all && pushed[page];
        if (all) continue;
      }
      ++asked;
      const uint64_t before = volume.counters().pushed_bytes;
      CHECK(read_now(volume, file, {at, kStep}));
      // Time to push something, where there is something to push, also for slow machines.
      for (int tries = 0; tries < 20 && volume.counters().pushed_bytes == before; ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
    CHECK(volume.stop_pushing(std::chrono::seconds(20)));
    CHECK(wrong == 0);
    CHECK(threads.size() >= 1);
    CHECK(threads.count(std::this_thread::get_id()) == 0);
    const VolumeCounters counters = volume.counters();
    CHECK(counters.pushed_bytes >= 8 * kMiB);
    CHECK(asked < bytes.size() / kStep);
    // The holes are what makes the reader show himself.
    for (uint64_t block = 4; block < 20; block += 4)
      CHECK(!pushed[(falling ? (block + 4) * kMiB - 4096 : block * kMiB) / 4096]);
    CHECK(read_now(volume, file, {0, 100}));  // still serves
  }
}
