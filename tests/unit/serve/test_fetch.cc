// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "archive/layout.h"
#include "brevis/log.h"
#include "served_tree.h"
#include "support/safetensors_writer.h"
#include "support/simple_pack.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::test;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

ByteVector weights(size_t bytes, uint64_t seed) { return gaussian_words(Dtype::BF16, bytes / 2, seed); }

bool matches(const ByteVector& all, Range range, const ByteVector& got) {
  const uint64_t want = range.offset >= all.size() ? 0 : std::min<uint64_t>(range.length, all.size() - range.offset);
  return got.size() == want &&
         std::equal(got.begin(), got.end(), all.begin() + static_cast<ptrdiff_t>(want == 0 ? 0 : range.offset));
}

void in_threads(unsigned count, const std::function<void(unsigned)>& body) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < count; ++t) threads.emplace_back([&body, t] { body(t); });
  for (auto& thread : threads) thread.join();
}

uint64_t frames_in(const std::string& archive) {
  return archive::Reader::open(File::open(archive).value()).value()->manifest().frames.size();
}

// Reads of paths that end so: on the threads of `callers` storage has to be waited for; elsewhere they wait here.
class Storage {
 public:
  explicit Storage(const std::string& stalled) {
    set_fault_hook(
        [state = state_, stalled, caller = std::this_thread::get_id()](const char*, const std::string& path, uint64_t) {
          if (std::this_thread::get_id() == caller) return EAGAIN;  // nothing is in memory
          if (path.ends_with(stalled)) state->wait();
          return 0;
        });
  }
  ~Storage() {
    answer();
    set_fault_hook(nullptr);
  }
  void answer() {
    const std::lock_guard lock(state_->mutex);
    state_->open = true;
    state_->changed.notify_all();
  }
  unsigned waiting() {
    const std::lock_guard lock(state_->mutex);
    return state_->waiting;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
    unsigned waiting = 0;
    void wait() {
      std::unique_lock lock(mutex);
      ++waiting;
      changed.wait(lock, [&] { return open; });
      --waiting;
    }
  };
  // A worker may wake up after the test has gone on.
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

struct CaughtLine {
  std::string message;
  std::map<std::string, std::string> fields;
};

void until(const std::function<bool()>& condition) {
  for (int i = 0; i < 4000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(condition());
}

}  // namespace

TEST_CASE("M18: sixteen readers of one file decode each frame once") {
  ServedTree tree;
  // No more than is kept of what somebody has taken: a reader may fall behind as far as he likes.
  const ByteVector bytes = weights(3 * kMiB / 2, 1);
  tree.pack("m", bytes, 65536);
  Volume& volume = tree.serve({.memory = 64 * kMiB});
  std::atomic<int> wrong{0};
  const auto file = tree.open("m");
  in_threads(16, [&](unsigned) {
    for (uint64_t at = 0; at < bytes.size(); at += 131'072) {
      const auto got = read_now(volume, file, {at, 131'072});
      if (!got || !matches(bytes, {at, 131'072}, *got)) ++wrong;
    }
  });
  CHECK(wrong == 0);
  const VolumeCounters counters = volume.counters();
  CHECK(counters.frames_decoded == frames_in(tree / "m.brv"));
  CHECK(counters.frame_hits + counters.flights_joined + counters.frames_decoded >= 16 * frames_in(tree / "m.brv"));
  CHECK(counters.bytes_read == 16 * bytes.size());
}

TEST_CASE("M18: the same when every frame has to be waited for") {
  ServedTree tree;
  const ByteVector bytes = weights(kMiB, 1);
  tree.pack("m", bytes, 65536);
  const uint64_t frames = frames_in(tree / "m.brv");
  Volume& volume = tree.serve({.memory = 256 * kMiB});
  const auto file = tree.open("m");
  // Storage answers after all have asked: flights must be joined.
  Storage storage("m.brv");
  std::atomic<int> right{0};
  for (int reader = 0; reader < 16; ++reader) {
    volume.read(file, {0, bytes.size()}, [&](Result<ReadResult> result) {
      if (result && result->bytes() == bytes.size()) ++right;
    });
  }
  until([&] { return storage.waiting() >= 1; });
  CHECK(right == 0);
  storage.answer();
  until([&] { return right == 16; });
  CHECK(volume.counters().frames_decoded == frames);
  CHECK(volume.counters().flights_joined >= 15);
}

TEST_CASE("M07: sixty-four readers on a cache of two MiB all get their bytes") {
  ServedTree tree;
  std::vector<ByteVector> originals;
  for (uint64_t i = 0; i < 4; ++i) {
    originals.push_back(weights(2 * kMiB + 2 * i, i));
    tree.pack("m" + std::to_string(i), originals.back(), 512 * 1024);
  }
  Volume& volume = tree.serve({.memory = 2 * kMiB});
  std::vector<std::shared_ptr<FileHandle>> files;
  for (int i = 0; i < 4; ++i) files.push_back(tree.open("m" + std::to_string(i)));
  std::atomic<int> wrong{0};
  std::atomic<uint64_t> peak{0};
  in_threads(64, [&](unsigned t) {
    Rng random(t);
    for (int i = 0; i < 4; ++i) {
      const size_t which = random.below(4);
      const Range range{random.below(originals[which].size()), i % 2 == 0 ? 4096 : kMiB};
      const auto got = read_now(volume, files[which], range);
      if (!got || !matches(originals[which], range, *got)) ++wrong;
      const VolumeCounters counters = volume.counters();
      uint64_t seen = peak;
      while (counters.cache_bytes > seen && !peak.compare_exchange_weak(seen, counters.cache_bytes)) {
      }
    }
  });
  CHECK(wrong == 0);
  // A few frames beyond the cap are held by replies under way (each of the four files may have one).
  CHECK(peak <= 12 * kMiB);
  const VolumeCounters counters = volume.counters();
  CHECK(counters.cache_bytes <= 2 * kMiB);
}

TEST_CASE("M11, D01: many open archives and random reads stay within one budget, indexes included") {
  ServedTree tree;
  const ByteVector bytes = weights(300'000, 7);
  const ByteVector archive = packed_bytes(bytes, 16384);
  for (int i = 0; i < 200; ++i) tree.put("m" + std::to_string(i) + ".brv", archive);
  Volume& volume = tree.serve({.memory = 4 * kMiB});
  std::vector<std::shared_ptr<FileHandle>> files;
  for (int i = 0; i < 200; ++i) files.push_back(tree.open("m" + std::to_string(i)));
  std::atomic<int> wrong{0}, over{0};
  in_threads(8, [&](unsigned t) {
    Rng random(t);
    for (int i = 0; i < 500; ++i) {
      const Range range{random.below(bytes.size()), 4096};
      const auto got = read_now(volume, files[random.below(files.size())], range);
      if (!got || !matches(bytes, range, *got)) ++wrong;
      const VolumeCounters counters = volume.counters();
      if (counters.cache_bytes + counters.index_bytes > 4 * kMiB + kMiB / 2) ++over;
    }
  });
  CHECK(wrong == 0);
  CHECK(over == 0);
  const VolumeCounters counters = volume.counters();
  CHECK(counters.index_bytes <= kMiB);  // of 200 indexes most were dropped, and read again on use
  CHECK(counters.open_archives == 200);
  CHECK(counters.open_files == 200);
}

TEST_CASE("no memory at all decodes straight through") {
  ServedTree tree;
  const ByteVector bytes = weights(300'000, 1);
  tree.pack("m", bytes);
  Volume& volume = tree.serve({.memory = 0});
  CHECK(tree.contents("m") == bytes);
  CHECK(tree.contents("m") == bytes);
  CHECK(volume.counters().cache_bytes == 0);
  CHECK(volume.counters().frame_hits == 0);
  // What was decoded beside another frame waits for its turn, kept or not.
  const uint64_t before = volume.counters().frames_decoded;
  CHECK(read_now(volume, tree.open("m"), {0, bytes.size()}).value() == bytes);
  CHECK(volume.counters().frames_decoded - before == frames_in(tree / "m.brv"));
}

TEST_CASE("M25: a second pass past the page cache is served from memory") {
  ServedTree tree;
  const ByteVector bytes = weights(kMiB, 1);
  tree.pack("m", bytes);
  Volume& volume = tree.serve({.memory = 8 * kMiB});
  const auto file = tree.open("m");
  for (int pass = 0; pass < 2; ++pass)
    for (uint64_t at = 0; at < bytes.size(); at += 65536)
      CHECK(matches(bytes, {at, 65536}, read_now(volume, file, {at, 65536}, true).value()));
  CHECK(volume.counters().frames_decoded == frames_in(tree / "m.brv"));
  CHECK(volume.counters().frame_hits >= frames_in(tree / "m.brv"));
}

TEST_CASE("M13: a damaged frame fails its range only, is logged once with its place, and counted") {
  ServedTree tree;
  const ByteVector bytes = safetensors_bytes({flat_tensor("first", Dtype::BF16, weights(200'000, 1)),
                                              flat_tensor("second.weight", Dtype::BF16, weights(200'000, 2))});
  ByteVector archive = packed_bytes(bytes, 16384);
  uint64_t frame_offset = 0, original_offset = 0, frame_number = 0;
  {
    write_file(tree / "scan.brv", archive);
    const auto reader = archive::Reader::open(File::open(tree / "scan.brv").value()).value();
    // The third frame of the record that holds the second tensor.
    const auto& segment = reader->manifest().segments.back();
    frame_number = reader->manifest().records[segment.record].first_frame[0] + 2;
    frame_offset = reader->manifest().frames[frame_number].offset;
    original_offset = segment.offset + 2 * 16384;
    REQUIRE(remove_file(tree / "scan.brv"));
  }
  archive[frame_offset + 3] ^= 0x10;
  tree.put("m.safetensors.brv", archive);

  std::mutex mutex;
  std::vector<CaughtLine> lines;
  set_log_sink([&](LogLevel, std::string_view message, const LogFields& fields) {
    const std::lock_guard lock(mutex);
    lines.push_back({std::string(message), {}});
    for (const auto& [key, value] : fields) lines.back().fields[std::string(key)] = value;
  });
  Volume& volume = tree.serve();
  const auto file = tree.open("m.safetensors");
  for (int attempt = 0; attempt < 3; ++attempt) {
    CHECK(to_errno(read_now(volume, file, {original_offset + 100, 10}).error()) == EIO);
    CHECK(to_errno(read_now(volume, file, {0, bytes.size()}).error()) == EIO);
    CHECK(matches(bytes, {0, original_offset}, read_now(volume, file, {0, original_offset}).value()));
    const Range after{original_offset + 16384, bytes.size()};
    CHECK(matches(bytes, after, read_now(volume, file, after).value()));
  }
  CHECK(volume.counters().damaged_frames == 1);
  set_log_sink([](LogLevel, std::string_view, const LogFields&) {});
  REQUIRE(lines.size() == 1);
  auto& fields = lines[0].fields;
  CHECK(fields["archive"].ends_with("m.safetensors.brv"));
  CHECK(fields["tensor"] == "second.weight");
  CHECK(fields["frame"] == std::to_string(frame_number));
  CHECK(fields["offset"] == std::to_string(frame_offset));
}

TEST_CASE("M24: an archive whose storage does not answer holds up nobody else") {
  ServedTree tree;
  const ByteVector bytes = weights(kMiB, 1), other = weights(kMiB, 2);
  tree.pack("stalled", bytes, 65536);
  tree.pack("good", other, 65536);
  tree.put("plain", other);
  for (const uint64_t memory : {2 * kMiB, 64 * kMiB}) {
    Volume& volume = tree.serve({.memory = memory, .jobs = 4});
    const auto stalled = tree.open("stalled"), good = tree.open("good"), plain = tree.open("plain");
    std::atomic<int> answered{0};
    {
      Storage storage("stalled.brv");
      for (uint64_t i = 0; i < 64; ++i) {
        volume.read(stalled, {i * 4096 % bytes.size(), 200'000}, [&](Result<ReadResult> result) {
          if (result) ++answered;
        });
      }
      until([&] { return storage.waiting() >= 1; });
      for (uint64_t at = 0; at < other.size(); at += 100'000) {
        CHECK(matches(other, {at, 100'000}, read_now(volume, good, {at, 100'000}).value()));
        CHECK(matches(other, {at, 100'000}, read_now(volume, plain, {at, 100'000}).value()));
      }
      CHECK(answered == 0);
    }
    until([&] { return answered == 64; });
  }
}

TEST_CASE("storage that fails gives its error, and works again when it does") {
  ServedTree tree;
  const ByteVector bytes = weights(200'000, 1);
  tree.pack("m", bytes);
  tree.put("p", bytes);
  Volume& volume = tree.serve();
  const auto file = tree.open("m"), plain = tree.open("p");
  set_fault_hook([](const char*, const std::string&, uint64_t) { return EIO; });
  CHECK(to_errno(read_now(volume, file, {0, 100}).error()) == EIO);
  CHECK(to_errno(read_now(volume, plain, {0, 100}).error()) == EIO);
  set_fault_hook(nullptr);
  CHECK(matches(bytes, {0, 200'000}, read_now(volume, file, {0, 200'000}).value()));
  CHECK(matches(bytes, {0, 200'000}, read_now(volume, plain, {0, 200'000}).value()));
  CHECK(volume.counters().damaged_frames == 0);
}

TEST_CASE("replies of many small pieces come in few parts, computed and repeated ones included") {
  ServedTree tree;
  std::vector<PackPart> parts;
  for (uint64_t i = 0; i < 300; ++i) {
    PackPart part;
    if (i % 3 == 0) {
      part.bytes = constant_words(32, 300, i);
      part.program = "u32 = constant(" + std::to_string(i) + ")";
    } else if (i % 3 == 1) {
      part.bytes = random_bytes(801, i);
    } else {
      const ByteVector period = random_bytes(24, i);
      for (int k = 0; k < 50; ++k) part.bytes.insert(part.bytes.end(), period.begin(), period.end());
      part.program = "u8 = repeat(50; literal(raw))";  // 24 bytes, fifty times
    }
    parts.push_back(part);
  }
  REQUIRE(simple_pack(tree / "m.brv", parts));
  const ByteVector bytes = joined(parts);
  {
    ByteVector all(bytes.size());
    const auto reader = archive::Reader::open(File::open(tree / "m.brv").value()).value();
    REQUIRE(archive::read_range(*reader, {0, bytes.size()}, all));
    REQUIRE(all == bytes);
  }
  Volume& volume = tree.serve();
  const auto file = tree.open("m");
  REQUIRE(read_now(volume, file, {0, bytes.size()}).value() == bytes);
  Rng random(1);
  for (int i = 0; i < 400; ++i) {
    const Range range{random.below(bytes.size()), random.below(uint64_t{1} << random.below(19))};
    REQUIRE(matches(bytes, range, read_now(volume, file, range).value()));
  }
  std::atomic<size_t> most{0};
  volume.read(file, {0, bytes.size()}, [&](Result<ReadResult> result) { most = result.value().parts.size(); });
  until([&] { return most != 0; });
  CHECK(most <= 64);
}

TEST_CASE("a volume that ends answers what was asked first") {
  ServedTree tree;
  const ByteVector bytes = weights(kMiB, 1);
  tree.pack("m", bytes, 65536);
  Volume& volume = tree.serve({.memory = 2 * kMiB, .jobs = 2});
  std::atomic<int> answered{0};
  {
    const auto file = tree.open("m");
    Storage storage("nothing stalls");
    for (uint64_t i = 0; i < 40; ++i)
      volume.read(file, {i * 20'000, 100'000}, [&](Result<ReadResult> result) { answered += result ? 1 : 100; });
    tree.stop();
  }
  CHECK(answered == 40);
}
