// SPDX-License-Identifier: Apache-2.0
//
// Whole archives through writer, reader and layout: ranges, damage, faults while writing, determinism, overhead.
#include <doctest/doctest.h>

#include <algorithm>

#include "archive/format.h"
#include "archive/layout.h"
#include "archive/reader.h"
#include "archive/writer.h"
#include "base/checksum.h"
#include "base/coding.h"
#include "dsl/text.h"
#include "dsl/verify.h"
#include "support/simple_pack.h"
#include "support/temp_dir.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::archive;
using namespace brevis::test;

namespace {

Result<std::shared_ptr<const Reader>> open_archive(const std::string& path) {
  BREVIS_ASSIGN(File file, File::open(path));
  return Reader::open(std::move(file));
}

Result<ByteVector> read_all(const Reader& reader) {
  ByteVector out(reader.header().original_size);
  BREVIS_TRY(read_range(reader, {0, out.size()}, out));
  return out;
}

// Every kind of thing an archive holds, small: a prefix, ranks and plain streams, fills, a ref, a period, a bundle, an
// empty tensor, opaque bytes.
std::vector<PackPart> every_kind(uint64_t seed) {
  using enum SegmentKind;
  const ByteVector weights = gaussian_words(Dtype::BF16, 3000, seed);
  ByteVector periodic;
  const ByteVector period = random_bytes(96, seed + 1);
  for (int i = 0; i < 50; ++i) periodic.insert(periodic.end(), period.begin(), period.end());
  ByteVector mixed = constant_words(16, 100, 7);
  const ByteVector tail = random_bytes(5000, seed + 2);
  mixed.insert(mixed.end(), tail.begin(), tail.end());
  const std::string ranked =
      "u16 = merge(9, 7; rank(7; literal(packed), literal(packed), literal(packed)), literal(packed))";
  return {
      {prefix, random_bytes(61, seed + 3), "u8 = literal(raw)"},
      {tensor, weights, ranked, 0},
      {tensor, {}, "", 1},
      {tensor, weights, "u16 = ref(61)", 2},
      {tensor, constant_words(32, 4000, 0x3f800000), "u32 = constant(0x3f800000)", 4},
      {tensor, ramp_words(64, 300, 5, 3), "u64 = ramp(5, 3)", 3},
      {tensor, periodic, "u8 = repeat(50; literal(raw))", 5},
      {tensor, mixed, "u16 = concat(100; constant(7), literal(zstd))", 6},
      {tensor, random_bytes(40, seed + 4), "u8 = literal(zstd)", 7, 1},
      {opaque, random_bytes(3, seed + 5), "u8 = literal(raw)"},
      {tensor, random_bytes(5000, seed + 6), "u8 = literal(zstd)", 8, 1},
      {tensor, random_bytes(1, seed + 7), "u8 = literal(zstd)", 9, 1},
      {tensor, {}, "", 10},
  };
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("an archive gives back its file, whole and in any range") {
  const TempDir dir;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const auto parts = every_kind(seed * 100);
    const ByteVector original = joined(parts);
    SimplePackOptions options;
    options.frame_bytes = 4096 + 1000 * seed;
    REQUIRE(simple_pack(dir / "a.brv", parts, options));
    auto reader = open_archive(dir / "a.brv");
    REQUIRE_MESSAGE(reader, (reader ? "" : reader.error().message()));
    CHECK((*reader)->header().original_size == original.size());
    CHECK((*reader)->header().features == kFeatureRef);
    auto all = read_all(**reader);
    REQUIRE_MESSAGE(all, (all ? "" : all.error().message()));
    CHECK(*all == original);
    Rng rng(seed);
    for (int i = 0; i < 400; ++i) {
      const uint64_t offset = rng.below(original.size() + 1);
      const uint64_t length = rng.below(4) == 0 ? rng.below(3) : rng.below(original.size());
      const Range range{offset, std::min(length, original.size() - offset)};
      ByteVector out(range.length);
      REQUIRE(read_range(**reader, range, out));
      CHECK(std::equal(out.begin(), out.end(), original.begin() + ptrdiff_t(offset)));
    }
    ByteVector one(1);
    CHECK(read_range(**reader, {original.size(), 1}, one).error().kind() == Errc::invalid_argument);
    CHECK(read_range(**reader, {UINT64_MAX, 1}, one).error().kind() == Errc::invalid_argument);
    CHECK(read_range(**reader, {original.size(), 0}, {}));
    CHECK((*reader)->memory() > (*reader)->manifest().memory());
  }
}

TEST_CASE("pieces of a plan cover the range in order, refs resolved") {
  const TempDir dir;
  const auto parts = every_kind(5);
  REQUIRE(simple_pack(dir / "a.brv", parts));
  const auto reader = open_archive(dir / "a.brv").value();
  const uint64_t size = reader->header().original_size;
  Rng rng(3);
  for (int i = 0; i < 200; ++i) {
    const uint64_t offset = rng.below(size);
    const Range range{offset, rng.below(size - offset + 1)};
    std::vector<FilePiece> pieces;
    REQUIRE(plan_file(*reader, range, pieces));
    uint64_t at = 0;
    for (const FilePiece& piece : pieces) {
      CHECK(piece.piece.at == at);
      CHECK(piece.piece.kind != dsl::Piece::Kind::ref);
      if (piece.piece.kind == dsl::Piece::Kind::frame) {
        const auto owner = reader->manifest().owner_of_frame(piece.frame_index);
        CHECK(owner == std::pair(piece.record, piece.piece.region));
        CHECK(piece.piece.source + piece.piece.length <= frame_place(*reader, piece).bytes);
      }
      at += piece.piece.length;
    }
    CHECK(at == range.length);
  }
}

TEST_CASE("I07: every frame decodes with all others destroyed, and none is larger than the limit") {
  const TempDir dir;
  const auto parts = every_kind(8);
  const ByteVector original = joined(parts);
  REQUIRE(simple_pack(dir / "a.brv", parts));
  const ByteVector archive = read_file(dir / "a.brv");
  const auto reader = open_archive(dir / "a.brv").value();
  std::vector<FilePiece> pieces;
  REQUIRE(plan_file(*reader, {0, reader->header().original_size}, pieces));
  std::reverse(pieces.begin(), pieces.end());
  const auto& frames = reader->manifest().frames;
  size_t decoded = 0;
  for (const FilePiece& piece : pieces) {
    if (piece.piece.kind != dsl::Piece::Kind::frame) continue;
    ByteVector alone = archive;
    for (size_t i = 0; i < frames.size(); ++i) {
      if (i == piece.frame_index) continue;
      std::fill_n(alone.begin() + ptrdiff_t(frames[i].offset), frames[i].length, uint8_t(0xa5));
    }
    write_file(dir / "alone.brv", alone);
    const auto lonely = open_archive(dir / "alone.brv").value();
    ByteVector out(frame_place(*lonely, piece).bytes), stored;
    CHECK(out.size() <= dsl::kMaxFrameBytes);
    Arena arena;
    REQUIRE(decode_piece_frame(*lonely, piece, out, stored, arena));
    CHECK(std::equal(out.begin() + ptrdiff_t(piece.piece.source),
                     out.begin() + ptrdiff_t(piece.piece.source + piece.piece.length),
                     original.begin() + ptrdiff_t(piece.piece.at)));
    ++decoded;
  }
  CHECK(decoded >= 6);
}

TEST_CASE("an empty file and a file of opaque bytes alone") {
  const TempDir dir;
  REQUIRE(simple_pack(dir / "e.brv", {}));
  auto empty = open_archive(dir / "e.brv");
  REQUIRE(empty);
  CHECK(read_all(**empty).value().empty());
  const ByteVector bytes = random_bytes(10001, 1);
  REQUIRE(simple_pack(dir / "o.brv", {{SegmentKind::opaque, bytes}}));
  CHECK(read_all(*open_archive(dir / "o.brv").value()).value() == bytes);
}

TEST_CASE("the same calls give the same bytes") {
  const TempDir dir;
  const auto a = simple_pack(dir / "a.brv", every_kind(1)), b = simple_pack(dir / "b.brv", every_kind(1));
  REQUIRE(a);
  REQUIRE(b);
  CHECK(a->id == b->id);
  const ByteVector bytes = read_file(dir / "a.brv");
  CHECK(bytes == read_file(dir / "b.brv"));
  CHECK(a->bytes == bytes.size());
  REQUIRE(simple_pack(dir / "b.brv", every_kind(2)));
  CHECK(bytes != read_file(dir / "b.brv"));
}

TEST_CASE("the archive has the mode and times it was sealed with") {
  const TempDir dir;
  SimplePackOptions options;
  options.mode = 0640;
  options.mtime_ns = 1'234'567'890'987'654'321;
  REQUIRE(simple_pack(dir / "a.brv", every_kind(1), options));
  const auto stat = File::open(dir / "a.brv").value().stat().value();
  CHECK((stat.mode & 07777) == 0640);
  CHECK(stat.mtime_ns == options.mtime_ns);
}

TEST_CASE("law 5: every changed byte and every cut of an archive is an error or gives the right bytes") {
  const TempDir dir;
  const auto parts = every_kind(11);
  const ByteVector original = joined(parts);
  REQUIRE(simple_pack(dir / "a.brv", parts));
  const ByteVector archive = read_file(dir / "a.brv");
  Rng rng(1);
  const auto outcome = [&](const ByteVector& bytes) -> Result<ByteVector> {
    write_file(dir / "x.brv", bytes);
    BREVIS_ASSIGN(const auto reader, open_archive(dir / "x.brv"));
    return read_all(*reader);
  };
  CHECK(outcome(archive).value() == original);
  for (size_t at = 0; at < archive.size(); at += at < 64 || at + 600 > archive.size() ? 1 : 1 + rng.below(40)) {
    ByteVector changed = archive;
    changed[at] = uint8_t(changed[at] ^ (1u << rng.below(8)));
    const auto read = outcome(changed);
    CAPTURE(at);
    CHECK_FALSE(read);  // checksums cover every byte: a change may not go unseen
  }
  for (size_t length = 0; length < archive.size();
       length += length < 100 || length + 600 > archive.size() ? 1 : 1 + rng.below(200)) {
    CAPTURE(length);
    const auto read = outcome(ByteVector(archive.begin(), archive.begin() + ptrdiff_t(length)));
    REQUIRE_FALSE(read);
    CHECK((read.error().kind() == (length < 8 ? Errc::not_found : Errc::truncated)));
  }
  ByteVector longer = archive;
  longer.push_back(0);
  CHECK(contains(outcome(longer).error().message(), "1 stray bytes"));
}

TEST_CASE("a header of another version or with unknown features is refused by name, a foreign file is no archive") {
  const TempDir dir;
  REQUIRE(simple_pack(dir / "a.brv", every_kind(1)));
  ByteVector header = read_file(dir / "a.brv");
  header.resize(64);
  const auto sealed = [&](size_t at, uint8_t value) {
    ByteVector changed = header;
    changed[at] = value;
    const uint64_t sum = xxh3_64(ByteSpan(changed).first(56));
    std::memcpy(changed.data() + 56, &sum, 8);
    return parse_header(changed);
  };
  CHECK(parse_header(header));
  CHECK(contains(sealed(8, 9).error().message(), "version 9"));
  CHECK(sealed(8, 9).error().kind() == Errc::unsupported);
  CHECK(sealed(15, 0x80).error().kind() == Errc::unsupported);
  CHECK(sealed(23, 0x80).error().kind() == Errc::corrupt);  // original size
  CHECK(sealed(47, 0x80).error().kind() == Errc::corrupt);  // index offset
  std::fill(header.begin() + 40, header.begin() + 48, uint8_t{0});
  CHECK(sealed(40, 64));
  CHECK_FALSE(sealed(40, 63));
  CHECK(parse_header(ByteSpan(header).first(20)).error().kind() == Errc::truncated);
  CHECK(parse_header(random_bytes(64, 1)).error().kind() == Errc::not_found);
  CHECK(parse_header({}).error().kind() == Errc::not_found);
}

TEST_CASE("a table that is no table is found when the record is first used, and nothing else suffers") {
  const TempDir dir;
  auto writer = Writer::create(dir / "a.brv", false).value();
  const ByteVector good = random_bytes(100, 1);
  const uint32_t raw = add_stream(writer, good, "u8 = literal(raw)");
  Record record;
  record.program = writer.add_program(std::make_shared<const dsl::Program>(
      dsl::parse_program("u8 = rank(3; literal(packed), literal(packed), literal(packed))").value()));
  record.words = 10;
  record.frame_words = {10};
  record.bindings = {{writer.add_table({0xff, 0xff})}};
  REQUIRE(writer.append_frame(random_bytes(10, 2)));
  const uint32_t bad = writer.add_record(record);
  writer.add_segment({SegmentKind::opaque, 0, 100, 0, raw, 0});
  writer.add_segment({SegmentKind::opaque, 0, 10, 0, bad, 0});
  REQUIRE(writer.seal(0644, 0, 0));
  const auto reader = open_archive(dir / "a.brv").value();
  ByteVector out(100);
  CHECK(read_range(*reader, {0, 100}, out));
  CHECK(out == good);
  CHECK(reader->bound(bad).error().kind() == Errc::corrupt);
  CHECK(read_range(*reader, {50, 60}, MutByteSpan(out).first(60)).error().kind() == Errc::corrupt);
}

TEST_CASE("the writer refuses parts that do not make an archive, and leaves nothing behind") {
  const TempDir dir;
  const auto attempt = [&](const std::function<void(Writer&)>& build) {
    auto writer = Writer::create(dir / "a.brv", false).value();
    build(writer);
    auto sealed = writer.seal(0644, 0, 0);
    REQUIRE_FALSE(sealed);
    CHECK(sealed.error().kind() == Errc::invalid_argument);
    return sealed.error().message();
  };
  const auto raw_record = [](Writer& writer) {
    Record record;
    record.program =
        writer.add_program(std::make_shared<const dsl::Program>(dsl::parse_program("u8 = literal(raw)").value()));
    record.words = 10;
    record.frame_words = {10};
    return record;
  };
  CHECK(contains(attempt([&](Writer& writer) { writer.add_record(raw_record(writer)); }), "0 frames were appended"));
  CHECK(contains(attempt([&](Writer& writer) {
                   Record record = raw_record(writer);
                   record.program = 5;
                   writer.add_record(record);
                 }),
                 "program that was not added"));
  CHECK(contains(attempt([&](Writer& writer) {
                   Record record = raw_record(writer);
                   record.bindings = {{0}};
                   writer.add_record(record);
                 }),
                 "slot"));
  CHECK(contains(attempt([&](Writer& writer) {
                   writer.add_segment({SegmentKind::opaque, 0, 10, 0, 0, 0});
                 }),
                 "record that was not added"));
  CHECK(contains(attempt([&](Writer& writer) {
                   add_stream(writer, random_bytes(10, 1), "u8 = literal(raw)");
                   writer.add_segment({SegmentKind::opaque, 0, 9, 0, 0, 0});
                 }),
                 "do not make an archive"));
  CHECK(names_in(dir.path()).empty());
}

TEST_CASE("a failing disk at any call leaves no file, neither under the name nor beside it") {
  const TempDir dir;
  const auto parts = every_kind(4);
  struct Unhook {
    ~Unhook() { set_fault_hook({}); }
  } unhook;
  for (const int failure : {EIO, ENOSPC}) {
    int calls = 0;
    set_fault_hook([&](const char*, const std::string&, uint64_t) { return ++calls, 0; });
    REQUIRE(simple_pack(dir / "a.brv", parts));
    set_fault_hook({});
    REQUIRE(remove_file(dir / "a.brv"));
    const int all = calls;
    CHECK(all > 10);
    int survived = 0;
    for (int victim = 1; victim <= all; ++victim) {
      int call = 0;
      std::string failed;
      set_fault_hook([&](const char* name, const std::string&, uint64_t) {
        if (++call != victim) return 0;
        failed = name;
        return failure;
      });
      Result<Writer::Sealed> sealed = [&]() -> Result<Writer::Sealed> {
        BREVIS_ASSIGN(Writer writer, Writer::create(dir / "a.brv", false));
        for (const PackPart& part : parts) {
          if (part.bytes.empty()) continue;
          BREVIS_TRY(writer.append_frame(part.bytes));
          Record record;
          record.program =
              writer.add_program(std::make_shared<const dsl::Program>(dsl::parse_program("u8 = literal(raw)").value()));
          record.words = part.bytes.size();
          record.frame_words = {std::max<uint64_t>(part.bytes.size(), 1)};
          record.digest = xxh3_128(part.bytes);
          writer.add_segment({SegmentKind::opaque, 0, part.bytes.size(), 0, writer.add_record(record), 0});
        }
        return writer.seal(0644, 0, 0);
      }();
      set_fault_hook({});
      if (sealed) {
        ++survived;
        REQUIRE(remove_file(dir / "a.brv"));
        continue;
      }
      CAPTURE(victim);
      CHECK(sealed.error().kind() == (failure == ENOSPC ? Errc::no_space : Errc::io));
      // The directory's own fsync comes after the rename: then the file is there, whole.
      if (names_in(dir.path()) == std::vector<std::string>{"a.brv"}) {
        CHECK(failed == "fsync");
        CHECK(open_archive(dir / "a.brv"));
        REQUIRE(remove_file(dir / "a.brv"));
      }
      CHECK(names_in(dir.path()).empty());
    }
    CHECK(survived < all);
  }
}

TEST_CASE("a frame that cannot be read is an error of the ranges that need it") {
  const TempDir dir;
  const auto parts = every_kind(6);
  REQUIRE(simple_pack(dir / "a.brv", parts));
  const auto reader = open_archive(dir / "a.brv").value();
  struct Unhook {
    ~Unhook() { set_fault_hook({}); }
  } unhook;
  set_fault_hook([&](const char* call, const std::string&, uint64_t offset) {
    return std::string(call) == "read" && offset == reader->manifest().frames[1].offset ? EIO : 0;
  });
  ByteVector out(61 + 10);
  CHECK(read_range(*reader, {0, 61}, MutByteSpan(out).first(61)));
  CHECK(read_range(*reader, {0, 71}, out).error().kind() == Errc::io);
}

TEST_CASE("reading without waiting gives the same frame or says that it would wait") {
  const TempDir dir;
  REQUIRE(simple_pack(dir / "a.brv", every_kind(6)));
  const auto reader = open_archive(dir / "a.brv").value();
  ByteVector waited, direct;
  for (uint64_t frame = 0; frame < reader->manifest().frames.size(); ++frame) {
    REQUIRE(reader->read_frame(frame, waited));
    const auto read = reader->read_frame_nowait(frame, direct);
    REQUIRE(read);
    if (*read) CHECK(direct == waited);
  }
  ByteVector damaged = read_file(dir / "a.brv");
  damaged[reader->manifest().frames[2].offset] ^= 1;
  write_file(dir / "b.brv", damaged);
  const auto other = open_archive(dir / "b.brv").value();
  const auto read = other->read_frame_nowait(2, direct);
  CHECK((read ? !*read : read.error().kind() == Errc::corrupt));
}

TEST_CASE("F25: small tensors cost at most a few bytes each in bundles") {
  const TempDir dir;
  constexpr size_t kTensors = 6336;
  std::vector<PackPart> parts = {{SegmentKind::prefix, ByteVector(64), "u8 = constant(0)"}};
  Rng rng(1);
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < kTensors; ++i) {
    const size_t size = 4 * (1 + rng.below(256));
    parts.push_back({SegmentKind::tensor, random_bytes(size, i), "u8 = literal(raw)", i, int(rng.below(8))});
    bytes += size;
  }
  SimplePackOptions options;
  options.frame_bytes = 512 << 10;
  const auto sealed = simple_pack(dir / "a.brv", parts, options);
  REQUIRE(sealed);
  const double overhead = double(sealed->bytes - bytes) / double(kTensors);
  MESSAGE("overhead of a bundled tensor: ", overhead, " bytes");
  CHECK(overhead <= 8);
  CHECK(read_all(*open_archive(dir / "a.brv").value()).value() == joined(parts));
}

TEST_CASE("F25: small tensors as records of their own cost at most 48 bytes each") {
  const TempDir dir;
  constexpr size_t kTensors = 6336;
  auto writer = Writer::create(dir / "a.brv", false).value();
  const ByteVector bytes = random_bytes(1024, 1);
  for (uint32_t i = 0; i < kTensors; ++i)
    writer.add_segment(
        {SegmentKind::opaque, 0, 1024, 0, add_stream(writer, random_bytes(1024, i), "u8 = literal(raw)"), 0});
  const auto sealed = writer.seal(0644, 0, 0);
  REQUIRE(sealed);
  const double overhead = double(sealed->bytes) / double(kTensors) - 1024;
  MESSAGE("overhead of a lone tensor: ", overhead, " bytes");
  CHECK(overhead <= 48);
}
