// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "cache/index.h"
#include "support/temp_dir.h"

using namespace brevis;
using namespace brevis::cache;
using brevis::test::TempDir;

namespace {

IndexRecord record(uint64_t n) {
  IndexRecord out;
  out.key = {{n, ~n}, n % 7};
  out.used = n;
  out.checksum = n * 0x9e3779b97f4a7c15u;
  out.bytes = static_cast<uint32_t>(n % (kMaxSlots * kSlotBytes) + 1);
  for (size_t i = 0; i < out.slot_count(); ++i) out.slots[i] = static_cast<uint32_t>(n * 8 + i);
  return out;
}

bool equal(const IndexRecord& a, const IndexRecord& b) {
  return a.key == b.key && a.used == b.used && a.checksum == b.checksum && a.bytes == b.bytes && a.slots == b.slots;
}

std::vector<IndexRecord> sorted(std::vector<IndexRecord> records) {
  std::sort(records.begin(), records.end(), [](const auto& a, const auto& b) { return a.used < b.used; });
  return records;
}

}  // namespace

TEST_CASE("L01: a map of 64 KiB grows, and a hundred thousand entries come back") {
  TempDir folder;
  std::vector<IndexRecord> all;
  for (uint64_t i = 0; i < 100'000; ++i) all.push_back(record(i));
  {
    auto index = Index::create(folder / "i").value();
    for (size_t at = 0; at < all.size(); at += 1000) REQUIRE(index->apply({}, {all.data() + at, 1000}));
  }
  const auto back = sorted(read_index(folder / "i").value());
  REQUIRE(back.size() == all.size());
  for (size_t i = 0; i < all.size(); ++i) REQUIRE(equal(back[i], all[i]));
}

TEST_CASE("what is removed is gone, what is written again is replaced") {
  TempDir folder;
  auto index = Index::create(folder / "i").value();
  const IndexRecord a = record(1), b = record(2);
  IndexRecord changed = a;
  changed.used = 99;
  REQUIRE(index->apply({}, std::vector<IndexRecord>{a, b}));
  REQUIRE(index->apply(std::vector<Key>{b.key, record(3).key}, std::vector<IndexRecord>{changed}));
  const auto back = read_index(folder / "i").value();
  REQUIRE(back.size() == 1);
  CHECK(equal(back[0], changed));
}

TEST_CASE("L02: ten thousand commits leave the file at its size; readers that died leave nothing behind") {
  TempDir folder;
  auto index = Index::create(folder / "i").value();
  uint64_t early = 0;
  for (uint64_t i = 0; i < 10'000; ++i) {
    const IndexRecord one = record(i % 100);
    REQUIRE(index->apply({}, {&one, 1}));
    if (i % 500 == 0) (void)read_index(folder / "i");  // a child reads beside the writer and ends
    if (i == 1000) early = index->file_bytes();
  }
  CHECK(index->file_bytes() <= 2 * early);
  CHECK(read_index(folder / "i").value().size() == 100);
}

TEST_CASE("D11: a damaged index never takes its reader along") {
  TempDir folder;
  {
    auto index = Index::create(folder / "i").value();
    std::vector<IndexRecord> all;
    for (uint64_t i = 0; i < 500; ++i) all.push_back(record(i));
    REQUIRE(index->apply({}, all));
  }
  std::ifstream in(folder / "i", std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  std::mt19937 source(3);
  int refused = 0;
  for (int round = 0; round < 40; ++round) {
    std::string bad = good;
    if (round % 4 == 0) {
      bad.resize(source() % bad.size());
    } else {
      for (int i = 0; i < 200; ++i) bad[source() % bad.size()] = static_cast<char>(source());
    }
    std::ofstream(folder / "bad", std::ios::binary) << bad;
    const auto found = read_index(folder / "bad");
    if (!found) {
      CHECK(found.error().kind() == Errc::corrupt);
      ++refused;
      continue;
    }
    for (const IndexRecord& one : *found) CHECK(equal(one, record(one.used)));
  }
  CHECK(refused > 5);
  std::ofstream(folder / "bad", std::ios::binary) << std::string(100'000, 'x');
  CHECK(!read_index(folder / "bad"));
  CHECK(read_index(folder / "missing").error().kind() == Errc::not_found);
}

TEST_CASE("L03: an index cut short or replaced under its writer is an error, not a crash") {
  TempDir folder;
  auto index = Index::create(folder / "i").value();
  std::vector<IndexRecord> all;
  for (uint64_t i = 0; i < 5000; ++i) all.push_back(record(i));
  REQUIRE(index->apply({}, all));
  REQUIRE(truncate((folder / "i").c_str(), 4096) == 0);
  CHECK(index->apply({}, all).error().kind() == Errc::corrupt);
  auto other = Index::create(folder / "j").value();
  REQUIRE(other->apply({}, all));
  REQUIRE(unlink((folder / "j").c_str()) == 0);
  CHECK(!other->apply({}, all));
}

TEST_CASE("D11: an index damaged under its writer ends no process but its own") {
  std::mt19937 source(7);
  int failed = 0;
  for (int round = 0; round < 12; ++round) {
    TempDir folder;
    auto index = Index::create(folder / "i").value();
    std::vector<IndexRecord> all;
    for (uint64_t i = 0; i < 3000; ++i) all.push_back(record(i));
    REQUIRE(index->apply({}, all));
    {
      std::fstream file(folder / "i", std::ios::binary | std::ios::in | std::ios::out);
      const uint64_t size = index->file_bytes();
      for (int i = 0; i < 4000; ++i) {
        file.seekp(static_cast<std::streamoff>(source() % size));
        file.put(static_cast<char>(source()));
      }
    }
    bool fine = true;
    for (uint64_t i = 0; i < 3000 && fine; i += 50) {
      std::vector<Key> removed;
      for (uint64_t k = i; k < i + 50; ++k) removed.push_back(record(k).key);
      fine = !!index->apply(removed, std::span(all).subspan(i, 25));
    }
    failed += !fine;
    if (!fine) CHECK(!index->apply({}, all));  // and it stays so
  }
  CHECK(failed > 6);
}
