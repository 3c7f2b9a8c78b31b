// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "cache/store.h"
#include "support/weights.h"

using namespace brevis;
using cache::BlockPtr;
using cache::Key;
using cache::Store;

namespace {

constexpr size_t kFrame = size_t{512} << 10;
constexpr uint64_t kMiB = uint64_t{1} << 20;

Key key(uint64_t archive, uint64_t frame) { return {{archive, ~archive}, frame}; }

BlockPtr filled(Store& store, size_t bytes, uint8_t value) {
  auto block = store.allocate(bytes);
  std::memset(block->data(), value, bytes + cache::Block::kSlack);
  return block;
}

uint64_t total(const Store& store) {
  const auto counters = store.counters();
  return counters.bytes + counters.charged;
}

}  // namespace

TEST_CASE("blocks are aligned and found under their key only") {
  Store store(8 * kMiB);
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{4096}, kFrame + 1}) {
    const auto block = store.allocate(bytes);
    CHECK(block->size() == bytes);
    CHECK(reinterpret_cast<uintptr_t>(block->data()) % 64 == 0);
  }
  CHECK(store.find(key(1, 0)) == nullptr);
  store.insert(key(1, 0), filled(store, kFrame, 7));
  store.insert(key(1, 0), filled(store, kFrame, 9));  // the first stays
  const BlockPtr found = store.find(key(1, 0));
  REQUIRE(found != nullptr);
  CHECK(found->data()[kFrame - 1] == 7);
  CHECK(store.find(key(1, 1)) == nullptr);
  CHECK(store.find(key(2, 0)) == nullptr);
  CHECK(store.find({{1, 0}, 0}) == nullptr);  // same low half, another archive
  CHECK(store.counters().hits == 1);
  CHECK(store.counters().misses == 4);
}

TEST_CASE("the least recently used block goes first and the cap holds") {
  Store store(4 * kMiB);
  size_t kept = 0;
  for (uint64_t i = 0; i < 40; ++i) {
    store.insert(key(1, i), filled(store, kFrame, static_cast<uint8_t>(i)));
    CHECK(store.find(key(1, 0)) != nullptr);  // used again and again: stays
    CHECK(total(store) <= 4 * kMiB);
  }
  for (uint64_t i = 0; i < 40; ++i) {
    const BlockPtr block = store.find(key(1, i));
    if (block == nullptr) continue;
    ++kept;
    CHECK(block->data()[0] == static_cast<uint8_t>(i));
    CHECK((i == 0 || i > 30));
  }
  CHECK(kept == 7);  // 512 KiB and slack take 576 KiB
  CHECK(store.counters().evictions == 33);
}

TEST_CASE("blocks that readers took whole go before those they come back for") {
  Store store(8 * kMiB);
  store.insert(key(1, 0), filled(store, kFrame, 1));
  CHECK(store.find(key(1, 0), 4096) != nullptr);
  for (uint64_t i = 0; i < 100; ++i) {  // a stream, each frame in two requests
    store.insert(key(2, i), filled(store, kFrame, 2), kFrame / 2);
    CHECK(store.find(key(2, i), kFrame / 2) != nullptr);
  }
  CHECK(store.find(key(1, 0)) != nullptr);
  // The stream's last frames are still there for readers a little behind.
  CHECK(store.find(key(2, 99)) != nullptr);
  CHECK(store.find(key(2, 98)) != nullptr);
}

TEST_CASE("what readers hold counts, survives eviction, and is never written over") {
  Store store(2 * kMiB);
  std::vector<BlockPtr> held;
  for (uint64_t i = 0; i < 8; ++i) {
    const BlockPtr block = filled(store, kFrame, static_cast<uint8_t>(i));
    store.insert(key(1, i), block);
    held.push_back(block);
  }
  CHECK(store.counters().bytes >= 8 * kFrame);
  for (uint64_t i = 0; i < 8; ++i) CHECK(held[i]->data()[100] == static_cast<uint8_t>(i));
  held.clear();
  store.insert(key(2, 0), filled(store, kFrame, 1));
  CHECK(total(store) <= 2 * kMiB);
}

TEST_CASE("charges push blocks out and give the room back") {
  Store store(4 * kMiB);
  for (uint64_t i = 0; i < 7; ++i) store.insert(key(1, i), filled(store, kFrame, 1));
  store.charge(3 * kMiB);
  CHECK(store.counters().blocks <= 1);
  CHECK(total(store) <= 4 * kMiB);
  store.charge(-int64_t{3 * kMiB});
  CHECK(store.counters().charged == 0);
  for (uint64_t i = 10; i < 17; ++i) store.insert(key(1, i), filled(store, kFrame, 1));
  CHECK(store.counters().blocks == 7);
}

TEST_CASE("no capacity: blocks can be made, none is kept") {
  Store store(0);
  store.insert(key(1, 0), filled(store, kFrame, 1));
  CHECK(store.find(key(1, 0)) == nullptr);
  CHECK(store.counters().bytes == 0);
  const BlockPtr block = filled(store, 100, 3);
  CHECK(block->data()[99] == 3);
}

TEST_CASE("buffers are used again") {
  Store store(4 * kMiB);
  const uint8_t* first = filled(store, kFrame, 1)->data();
  CHECK(filled(store, kFrame, 2)->data() == first);
  CHECK(filled(store, kFrame - 5000, 2)->data() == first);
  CHECK(filled(store, 1000, 2)->data() != first);  // not for something much smaller
}

TEST_CASE("blocks outlive the store") {
  BlockPtr kept, loose;
  {
    Store store(4 * kMiB);
    kept = filled(store, kFrame, 5);
    loose = filled(store, 10, 6);
    store.insert(key(1, 0), kept);
  }
  CHECK(kept->data()[kFrame - 1] == 5);
  CHECK(loose->data()[9] == 6);
}

TEST_CASE("S12: threads that find, insert and charge at once") {
  Store store(6 * kMiB);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      test::Rng random(t);
      for (int i = 0; i < 400; ++i) {
        const uint64_t frame = random.below(24);
        BlockPtr block = store.find(key(1, frame), 4096);
        if (block == nullptr) {
          block = filled(store, 100'000, static_cast<uint8_t>(frame));
          store.insert(key(1, frame), block);
        }
        for (size_t at = 0; at < 100'000; at += 9'999)
          if (block->data()[at] != static_cast<uint8_t>(frame)) ++wrong;
        if (i % 16 == 0) store.charge(100'000);
        if (i % 16 == 8) store.charge(-100'000);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(store.counters().charged == 0);
  CHECK(total(store) <= 6 * kMiB);
}
