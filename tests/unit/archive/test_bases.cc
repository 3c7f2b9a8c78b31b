// SPDX-License-Identifier: Apache-2.0
//
// Archives that stand on others: ranges across a chain, and every way in which a base can be wrong.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "archive/bases.h"
#include "archive/layout.h"
#include "base/checksum.h"
#include "support/simple_pack.h"
#include "support/temp_dir.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::archive;
using namespace brevis::test;

namespace {

namespace stdfs = std::filesystem;

constexpr uint64_t kPrefix = 61;
const std::string kDelta = "u16 = combine(order; map(zigzag, 0; literal(packed)), base)";

ByteVector nudged(ByteVector words, uint64_t seed) {
  const ByteVector noise = random_bytes(words.size(), seed);
  for (size_t i = 0; i < words.size(); i += 2) words[i] = static_cast<uint8_t>(words[i] + noise[i] % 5);
  return words;
}

Base base_of(const std::string& path, std::string hint) {
  const auto reader = Reader::open(File::open(path).value()).value();
  return {reader->header().id, reader->manifest().original_size, reader->manifest().depth(), std::move(hint)};
}

struct Step {
  std::string path;
  ByteVector original;
};

// A snapshot: prefix, a tensor that moved, one that did not, a patched one, and bytes of its own.
Step first_step(const TempDir& dir) {
  using enum SegmentKind;
  const std::vector<PackPart> parts = {{prefix, random_bytes(kPrefix, 1), "u8 = literal(raw)"},
                                       {tensor, gaussian_words(Dtype::BF16, 9000, 2), "u16 = literal(raw)", 0},
                                       {tensor, gaussian_words(Dtype::BF16, 5000, 3), "u16 = literal(zstd)", 1},
                                       {tensor, gaussian_words(Dtype::F32, 5000, 4), "u32 = literal(raw)", 2}};
  REQUIRE(simple_pack(dir / "step-0.brv", parts));
  return {dir / "step-0.brv", joined(parts)};
}

Step next_step(const TempDir& dir, const Step& last, int number, const std::string& hint) {
  using enum SegmentKind;
  const auto part = [&](uint64_t at, uint64_t n) {
    return ByteVector(last.original.begin() + ptrdiff_t(at), last.original.begin() + ptrdiff_t(at + n));
  };
  const uint64_t b = kPrefix + 18000, c = b + 10000;
  ByteVector patched = part(c, 20000);
  for (size_t i = 16; i < patched.size(); i += 4000) patched[i] ^= 0x55;
  const std::vector<PackPart> parts = {
      {prefix, random_bytes(kPrefix, 1), "u8 = literal(raw)"},
      {tensor,
       nudged(part(kPrefix, 18000), uint64_t(number)),
       kDelta,
       0,
       -1,
       {{0, {kPrefix, 18000}}},
       part(kPrefix, 18000)},
      {tensor, part(b, 10000), "u16 = base", 1, -1, {{0, {b, 10000}}}, {}},
      {tensor, patched, "u32 = patch(base, literal(packed), literal(raw))", 2, -1, {{0, {c, 20000}}}, part(c, 20000)},
      {opaque, random_bytes(100, uint64_t(number)), "u8 = literal(raw)"}};
  SimplePackOptions options;
  options.bases = {base_of(last.path, hint)};
  const std::string path = dir / ("step-" + std::to_string(number) + ".brv");
  REQUIRE(simple_pack(path, parts, options));
  return {path, joined(parts)};
}

void check_all_ranges(const Reader& reader, const ByteVector& original) {
  ByteVector all(original.size());
  REQUIRE(read_range(reader, {0, all.size()}, all));
  CHECK(all == original);
  Rng rng(9);
  for (int i = 0; i < 60; ++i) {
    const uint64_t offset = rng.below(original.size()),
                   length = 1 + rng.below(std::min<uint64_t>(original.size() - offset, 9000));
    ByteVector part(length);
    REQUIRE(read_range(reader, {offset, length}, part));
    CHECK(std::equal(part.begin(), part.end(), original.begin() + ptrdiff_t(offset)));
  }
}

void flip(const std::string& path, uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(std::streamoff(at));
  const char byte = static_cast<char>(file.get() ^ 0x10);
  file.seekp(std::streamoff(at));
  file.put(byte);
}

}  // namespace

TEST_CASE("bases: a chain of four is read back, whole and in any range, wherever its archives are") {
  const TempDir dir;
  std::vector<Step> steps{first_step(dir)};
  for (int i = 1; i <= 4; ++i)
    steps.push_back(next_step(dir, steps.back(), i, stdfs::path(steps.back().path).filename()));
  for (const bool moved : {false, true}) {
    if (moved) {
      stdfs::create_directories(dir / "elsewhere/deep");
      for (int i = 0; i < 4; ++i)
        stdfs::rename(steps[i].path, (dir / "elsewhere/deep/") + "renamed-" + std::to_string(i) + ".brv");
    }
    DirectoryFinder finder;
    const auto reader = open_with_bases(steps[4].path, finder);
    REQUIRE_MESSAGE(reader, (reader ? "" : reader.error().message()));
    CHECK((*reader)->manifest().depth() == 4);
    check_all_ranges(**reader, steps[4].original);
  }
  // The unchanged tensor costs next to nothing.
  const auto reader = Reader::open(File::open(steps[4].path).value()).value();
  CHECK(reader->manifest().stored_bytes_of(reader->manifest().records[2]) == 0);
  // A fifth step is one too many.
  SimplePackOptions options;
  options.bases = {base_of(steps[4].path, "")};
  const auto refused = simple_pack(
      dir / "step-5.brv", {{SegmentKind::opaque, ByteVector(100), "u8 = base", 0, -1, {{0, {0, 100}}}, {}}}, options);
  CHECK_FALSE(refused);
}

TEST_CASE("Z09: a base that is missing, swapped or damaged is refused by name") {
  const TempDir dir;
  const Step first = first_step(dir);
  const Step second = next_step(dir, first, 1, "step-0.brv");
  const Step third = next_step(dir, second, 2, "step-1.brv");
  const auto refusal = [&] {
    DirectoryFinder finder;
    const auto reader = open_with_bases(third.path, finder);
    REQUIRE_FALSE(reader);
    CHECK(reader.error().message().find(to_hex(base_of(dir / "kept", "").id)) != std::string::npos);
    return reader.error();
  };
  stdfs::copy_file(first.path, dir / "kept");

  stdfs::remove(first.path);
  Error error = refusal();
  CHECK(error.kind() == Errc::not_found);
  CHECK(error.message().find("step-0.brv") != std::string::npos);

  const Step other = [&] {
    const TempDir apart;
    REQUIRE(simple_pack(apart / "x.brv", {{SegmentKind::opaque, random_bytes(40000, 77), "u8 = literal(raw)"}}));
    stdfs::copy_file(apart / "x.brv", first.path);
    return Step{first.path, {}};
  }();
  error = refusal();
  CHECK(error.kind() == Errc::not_found);
  CHECK(error.message().find("is another archive, of id " + to_hex(base_of(other.path, "").id)) != std::string::npos);

  // A flipped bit of header or index.
  const uint64_t size = stdfs::file_size(dir / "kept");
  for (const uint64_t at : {uint64_t{9}, uint64_t{30}, size - 40}) {
    stdfs::copy_file(dir / "kept", first.path, stdfs::copy_options::overwrite_existing);
    flip(first.path, at);
    error = refusal();
    CHECK(error.kind() == Errc::corrupt);
  }

  // A damaged frame fails the ranges that stand on it and no others.
  stdfs::copy_file(dir / "kept", first.path, stdfs::copy_options::overwrite_existing);
  flip(first.path, 64 + kPrefix + 10);
  DirectoryFinder finder;
  const auto reader = open_with_bases(third.path, finder);
  REQUIRE(reader);
  ByteVector out(100);
  const auto damaged = read_range(**reader, {kPrefix, 100}, out);
  REQUIRE_FALSE(damaged);
  CHECK(damaged.error().kind() == Errc::corrupt);
  CHECK(damaged.error().message().find("step-0.brv") != std::string::npos);
  REQUIRE(read_range(**reader, {kPrefix + 10000, 100}, out));
  CHECK(std::equal(out.begin(), out.end(), third.original.begin() + kPrefix + 10000));
}

TEST_CASE("bases: reading without them gives what stands alone") {
  const TempDir dir;
  const Step first = first_step(dir);
  const Step second = next_step(dir, first, 1, "");
  stdfs::remove(first.path);
  const auto reader = Reader::open(File::open(second.path).value()).value();
  ByteVector prefix(kPrefix), more(kPrefix + 1);
  REQUIRE(read_range(*reader, {0, kPrefix}, prefix));
  CHECK(std::equal(prefix.begin(), prefix.end(), second.original.begin()));
  CHECK_FALSE(read_range(*reader, {0, kPrefix + 1}, more));
}

TEST_CASE("bases: what the index says of them is checked") {
  const TempDir dir;
  const Step first = first_step(dir);
  const Base good = base_of(first.path, "step-0.brv");
  const auto pack = [&](const std::vector<Base>& bases, std::vector<BaseSpan> spans,
                        const std::string& program = "u8 = base") {
    SimplePackOptions options;
    options.bases = bases;
    return simple_pack(dir / "x.brv",
                       {{SegmentKind::opaque, ByteVector(100), program, 0, -1, std::move(spans), ByteVector(100)}},
                       options);
  };
  CHECK(pack({good}, {{0, {5, 100}}}));
  CHECK(pack({good}, {{0, {5, 60}}, {0, {0, 40}}}));
  CHECK_FALSE(pack({good}, {{0, {5, 60}}, {0, {65, 40}}}));             // one span in two
  CHECK_FALSE(pack({good}, {{0, {first.original.size() - 99, 100}}}));  // beyond the base
  CHECK_FALSE(pack({good}, {{0, {UINT64_MAX - 3, 100}}}));
  CHECK_FALSE(pack({good}, {}));
  CHECK_FALSE(pack({good}, {{1, {0, 100}}}));
  CHECK_FALSE(pack({}, {{0, {0, 100}}}));
  Base other = good;
  other.id.low ^= 1;
  CHECK_FALSE(pack({good, other}, {{0, {0, 100}}}));  // never used
  other = good;
  other.hint = "a\nb";
  CHECK_FALSE(pack({other}, {{0, {0, 100}}}));
  other = good;
  other.depth = 4;
  CHECK_FALSE(pack({other}, {{0, {0, 100}}}));
  // Sealed, but not what the base says of itself: refused when it is opened.
  for (const bool depth : {false, true}) {
    other = good;
    if (depth)
      other.depth = 2;
    else
      other.original_size += 5;
    REQUIRE(pack({other}, {{0, {0, 100}}}));
    DirectoryFinder finder;
    const auto reader = open_with_bases(dir / "x.brv", finder);
    REQUIRE_FALSE(reader);
    CHECK(reader.error().kind() == Errc::corrupt);
  }
  // Relations without a base are an archive that stands alone.
  CHECK(pack({}, {}, "u8 = combine(xor; literal(raw), constant(0))"));
}
