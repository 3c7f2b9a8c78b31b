// SPDX-License-Identifier: Apache-2.0
#include "archive/manifest.h"

#include <doctest/doctest.h>

#include <functional>

#include "archive/format.h"
#include "archive/index_model.h"
#include "base/coding.h"
#include "dsl/text.h"
#include "dsl/verify.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::archive;
using brevis::test::Rng;

namespace {

const char* const kPrograms[] = {
    "u8 = literal(raw)",
    "u16 = merge(9, 7; rank(63; literal(packed), literal(packed), literal(packed)), rank(3; literal(packed), "
    "literal(packed), literal(packed)))",
    "u32 = literal(raw)",
    "u64 = constant(77)",
    "u16 = concat(100; literal(zstd), constant(3))",
    "u8 = concat(7, 90; constant(1), literal(zstd), literal(raw))",
    "u16 = rank(15; literal(packed), literal(packed), literal(packed))",
};

std::shared_ptr<const dsl::Program> program_of(const std::string& text) {
  auto program = dsl::parse_program(text);
  REQUIRE_MESSAGE(program, text);
  return std::make_shared<const dsl::Program>(std::move(*program));
}

// Adds a record with frames of made-up lengths and checksums.
uint32_t add_record(Manifest& manifest, Rng& rng, uint32_t program, uint64_t words, bool bundle) {
  Record record;
  record.program = program;
  record.words = words;
  record.bundle = bundle;
  const dsl::Program& code = *manifest.programs[program];
  for (size_t i = 0; i < code.slots().size(); ++i) {
    Binding binding;
    const uint64_t tables = rng.below(4) == 0 ? 2 + rng.below(15) : 1;
    for (uint64_t k = 0; k < tables; ++k) binding.push_back(uint32_t(rng.below(manifest.tables.size())));
    record.bindings.push_back(binding);
  }
  for (size_t i = 0; i < code.regions().size(); ++i) record.frame_words.push_back(1 + rng.below(5000));
  record.digest = {rng.next(), rng.next()};
  REQUIRE(derive_record(manifest, record, manifest.frames.size()));
  const uint64_t frames = manifest.frames_of(record);
  for (uint64_t i = 0; i < frames; ++i) {
    const uint64_t offset =
        manifest.frames.empty() ? kHeaderBytes : manifest.frames.back().offset + manifest.frames.back().length;
    manifest.frames.push_back({offset, uint32_t(rng.below(3000)), rng.next()});
  }
  manifest.records.push_back(record);
  return uint32_t(manifest.records.size() - 1);
}

void add_segment(Manifest& manifest, SegmentKind kind, uint64_t length, uint32_t record, uint64_t record_offset,
                 uint32_t ordinal = 0) {
  manifest.segments.push_back({kind, manifest.original_size, length, ordinal, record, record_offset});
  manifest.original_size += length;
}

uint64_t frames_end(const Manifest& manifest) {
  return manifest.frames.empty() ? kHeaderBytes : manifest.frames.back().offset + manifest.frames.back().length;
}

Manifest random_manifest(uint64_t seed) {
  Rng rng(seed);
  Manifest manifest;
  if (rng.below(3) != 0) manifest.provenance = {{"packer", "test 1"}, {"profile", "d\xc3\xa9nse"}, {"x", ""}};
  for (const char* text : kPrograms) manifest.programs.push_back(program_of(text));
  for (uint64_t i = 0, count = 1 + rng.below(40); i < count; ++i)
    manifest.tables.push_back(test::random_bytes(rng.below(50), rng.next()));
  if (rng.below(5) == 0) return manifest;  // an empty file
  const bool prefixed = rng.below(4) != 0;
  if (prefixed) {
    const uint32_t record = add_record(manifest, rng, 0, 8 + rng.below(3000), false);
    add_segment(manifest, SegmentKind::prefix, manifest.bytes_of(manifest.records[record]), record, 0);
  }
  std::vector<uint32_t> whole;
  for (uint64_t i = 0, count = rng.below(30); i < count; ++i) {
    const SegmentKind kind = prefixed && rng.below(5) != 0 ? SegmentKind::tensor : SegmentKind::opaque;
    const auto ordinal = [&] { return kind == SegmentKind::tensor ? uint32_t(rng.below(100)) : 0; };
    const auto program = uint32_t(rng.below(std::size(kPrograms)));
    const uint64_t words = 200 + rng.below(20000);
    if (kind == SegmentKind::tensor && rng.below(6) == 0) add_segment(manifest, kind, 0, 0, 0, ordinal());
    if (!whole.empty() && rng.below(8) == 0) {  // a duplicate
      const uint32_t record = whole[rng.below(whole.size())];
      add_segment(manifest, kind, manifest.bytes_of(manifest.records[record]), record, 0, ordinal());
    }
    const bool bundle = rng.below(3) == 0;
    const uint32_t record = add_record(manifest, rng, program, words, bundle);
    const uint64_t bytes = manifest.bytes_of(manifest.records[record]);
    if (!bundle) {
      whole.push_back(record);
      add_segment(manifest, kind, bytes, record, 0, ordinal());
      continue;
    }
    for (uint64_t at = rng.below(2) * rng.below(100); at < bytes;) {
      const uint64_t length = std::min(bytes - at, 1 + rng.below(bytes));
      add_segment(manifest, kind, length, record, at, ordinal());
      at += length;
    }
  }
  if (rng.below(2) == 0) {
    manifest.sha256.emplace();
    for (uint8_t& byte : *manifest.sha256) byte = uint8_t(rng.next());
  }
  return manifest;
}

Result<Manifest> decode(const Manifest& like, ByteSpan index) {
  return decode_manifest(index, like.original_size, frames_end(like));
}

// A small manifest that every test of a rule breaks in one place.
Manifest small_manifest() {
  Rng rng(7);
  Manifest manifest;
  manifest.programs = {program_of("u8 = literal(raw)"),
                       program_of("u16 = rank(15; literal(packed), literal(packed), literal(packed))"),
                       program_of("u8 = concat(4; ref(40), literal(raw))")};
  manifest.tables = {{1, 2, 3}};
  add_segment(manifest, SegmentKind::prefix, 40, add_record(manifest, rng, 0, 40, false), 0);
  add_segment(manifest, SegmentKind::tensor, 600, add_record(manifest, rng, 1, 300, false), 0, 0);
  add_segment(manifest, SegmentKind::tensor, 10, add_record(manifest, rng, 2, 10, false), 0, 1);
  const uint32_t bundle = add_record(manifest, rng, 0, 30, true);
  add_segment(manifest, SegmentKind::tensor, 20, bundle, 0, 2);
  add_segment(manifest, SegmentKind::tensor, 10, bundle, 20, 3);
  return manifest;
}

std::string refusal(const std::function<void(Manifest&)>& damage) {
  Manifest manifest = small_manifest();
  damage(manifest);
  auto decoded = decode(manifest, encode_manifest(manifest));
  if (decoded) return "accepted";
  CHECK(decoded.error().kind() == Errc::corrupt);
  return decoded.error().message();
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("zigzag folds both signs and comes back") {
  for (const uint64_t value : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}, uint64_t{1} << 63, uint64_t{12345}})
    CHECK(unzigzag(zigzag(value)) == value);
  CHECK(zigzag(0) == 0);
  CHECK(zigzag(~uint64_t{0}) == 1);
  CHECK(zigzag(1) == 2);
}

TEST_CASE("random manifests come back whole and canonical") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const Manifest manifest = random_manifest(seed);
    const ByteVector index = encode_manifest(manifest);
    auto decoded = decode(manifest, index);
    REQUIRE_MESSAGE(decoded, (decoded ? "" : decoded.error().message()));
    CHECK(encode_manifest(*decoded) == index);
    CHECK(decoded->provenance == manifest.provenance);
    CHECK(decoded->tables == manifest.tables);
    CHECK(decoded->sha256 == manifest.sha256);
    REQUIRE(decoded->records.size() == manifest.records.size());
    for (size_t i = 0; i < manifest.records.size(); ++i) {
      const Record &a = manifest.records[i], &b = decoded->records[i];
      CHECK(a.program == b.program);
      CHECK(a.words == b.words);
      CHECK(a.bindings == b.bindings);
      CHECK(a.frame_words == b.frame_words);
      CHECK(a.region_words == b.region_words);
      CHECK(a.first_frame == b.first_frame);
      CHECK(a.digest == b.digest);
      CHECK(a.bundle == b.bundle);
      for (size_t region = 0; region < a.first_frame.size(); ++region) {
        if (a.frames_of(region) == 0) continue;
        CHECK(decoded->owner_of_frame(a.first_frame[region]) == std::pair<uint32_t, uint32_t>(i, region));
        CHECK(decoded->owner_of_frame(a.first_frame[region] + a.frames_of(region) - 1) ==
              std::pair<uint32_t, uint32_t>(i, region));
      }
    }
    REQUIRE(decoded->segments.size() == manifest.segments.size());
    for (size_t i = 0; i < manifest.segments.size(); ++i) {
      const Segment &a = manifest.segments[i], &b = decoded->segments[i];
      CHECK(a.kind == b.kind);
      CHECK(a.offset == b.offset);
      CHECK(a.length == b.length);
      CHECK(a.ordinal == b.ordinal);
      if (a.length == 0) continue;
      CHECK(a.record == b.record);
      CHECK(a.record_offset == b.record_offset);
      CHECK(decoded->segment_at(a.offset) == i);
      CHECK(decoded->segment_at(a.offset + a.length - 1) == i);
    }
    REQUIRE(decoded->frames.size() == manifest.frames.size());
    for (size_t i = 0; i < manifest.frames.size(); ++i) {
      CHECK(decoded->frames[i].offset == manifest.frames[i].offset);
      CHECK(decoded->frames[i].length == manifest.frames[i].length);
      CHECK(decoded->frames[i].checksum == manifest.frames[i].checksum);
    }
    CHECK(decoded->memory() >= manifest.segments.size() * sizeof(Segment));
  }
}

TEST_CASE("an index that is accepted is the one that is written: changed bytes, cuts, added bytes") {
  for (uint64_t seed = 1000; seed < 1012; ++seed) {
    CAPTURE(seed);
    const Manifest manifest = random_manifest(seed);
    const ByteVector index = encode_manifest(manifest);
    Rng rng(seed);
    for (size_t at = 0; at<index.size(); at += index.size()> 2000 ? 1 + rng.below(8) : 1) {
      for (const unsigned change : {0x01u, 0x80u, 0xffu, 0x10u}) {
        ByteVector changed = index;
        changed[at] = uint8_t(changed[at] ^ change);
        auto decoded = decode(manifest, changed);
        if (decoded) CHECK(encode_manifest(*decoded) == changed);
      }
    }
    for (size_t length = 0; length < index.size(); length += 1 + index.size() / 500)
      CHECK_FALSE(decode(manifest, ByteSpan(index).first(length)));
    ByteVector longer = index;
    longer.push_back(0);
    CHECK_FALSE(decode(manifest, longer));
    CHECK_FALSE(decode_manifest(index, manifest.original_size + 1, frames_end(manifest)));
    CHECK_FALSE(decode_manifest(index, manifest.original_size, frames_end(manifest) + 1));
  }
}

TEST_CASE("the gate names the rule that is broken") {
  CHECK(refusal([](Manifest&) {}) == "accepted");
  CHECK(contains(refusal([](Manifest& m) { m.records[1].program = 3; }), "names program 3 of 3"));
  CHECK(contains(refusal([](Manifest& m) { m.records[0].words = 0; }), "without words"));
  CHECK(contains(refusal([](Manifest& m) { m.records[0].words = uint64_t{1} << 61; }), "words is"));
  CHECK(contains(refusal([](Manifest& m) { m.records[1].bindings[0][0] = 1; }), "binds table 1 of 1"));
  CHECK(contains(refusal([](Manifest& m) { m.records[1].bindings[0].assign(17, 0); }), "tables of a set"));
  CHECK(contains(refusal([](Manifest& m) { m.records[1].frame_words[0] = 0; }), "frame length of 0"));
  CHECK(contains(refusal([](Manifest& m) { m.records[1].frame_words[0] = dsl::kMaxFrameBytes / 2 + 1; }),
                 "frame length in words"));
  CHECK(contains(refusal([](Manifest& m) { m.records[1].frame_words[0] = 7; }), "frames, but the records have"));
  CHECK(contains(refusal([](Manifest& m) { m.frames.pop_back(); }), "but the records have"));
  CHECK(contains(refusal([](Manifest& m) { m.segments[1].kind = SegmentKind::prefix; }), "not the first segment"));
  CHECK(contains(refusal([](Manifest& m) { m.segments[0].kind = SegmentKind::opaque; }), "without a prefix"));
  CHECK(contains(refusal([](Manifest& m) { m.segments[4].length = 11; }), "leaves its record"));
  CHECK(contains(refusal([](Manifest& m) { m.segments[4].record_offset = 25; }), "leaves its record"));
  CHECK(contains(refusal([](Manifest& m) { m.segments.pop_back(); }), "segments end at byte"));
  CHECK(contains(refusal([](Manifest& m) { m.provenance["a\nb"] = ""; }), "not plain UTF-8"));
  CHECK(contains(refusal([](Manifest& m) { m.provenance["a"] = "\xc0\x80"; }), "not plain UTF-8"));
  CHECK(contains(refusal([](Manifest& m) { m.provenance["a"] = "\xed\xa0\x80"; }), "not plain UTF-8"));
  CHECK(contains(refusal([](Manifest& m) { m.provenance["a"] = std::string(5000, 'x'); }), "value is 5000"));
  CHECK(contains(refusal([](Manifest& m) { m.programs[0] = program_of("u10 = literal(packed)"); }), "10-bit words"));
}

TEST_CASE("few stored bytes do not load as many tables as memory holds") {
  const auto chain = [](int offsets) {
    std::string text = "literal(raw)";
    for (int i = 0; i < offsets; ++i) text = "offset(0, 8, 1, 262144; " + text + ")";
    return text;
  };
  const auto binding = [&](int offsets) {
    return refusal([&](Manifest& m) {
      m.programs[2] = program_of("u8 = concat(4; " + chain(offsets) + ", " + chain(16) + ")");
      for (Record& record : m.records)
        if (record.program == 2) {
          record.frame_words.assign(2, 4096);
          record.bindings.assign(m.programs[2]->slots().size(), Binding{0});
        }
    });
  };
  CHECK_FALSE(contains(binding(16), "entries"));
  CHECK(contains(binding(17), "tables of one record have more than 8388608 entries"));
}

TEST_CASE("refs lead to bytes that are free of refs and inside the file") {
  const auto with_ref = [](const std::string& text) {
    return refusal([&](Manifest& m) { m.programs[2] = program_of(text); });
  };
  CHECK(with_ref("u8 = concat(4; ref(0), literal(raw))") == "accepted");
  CHECK(with_ref("u8 = concat(4; ref(636), literal(raw))") == "accepted");
  CHECK(contains(with_ref("u8 = concat(4; ref(637), literal(raw))"), "made of refs"));
  CHECK(contains(with_ref("u8 = concat(4; ref(640), literal(raw))"), "made of refs"));
  CHECK(with_ref("u8 = concat(4; ref(676), literal(raw))") == "accepted");
  CHECK(contains(with_ref("u8 = concat(4; ref(677), literal(raw))"), "beyond the original"));
  CHECK_FALSE(with_ref("u8 = concat(4; ref(18446744073709551615), literal(raw))") == "accepted");
}

TEST_CASE("a hostile count is refused by the bytes there are") {
  for (const uint64_t claim : {uint64_t{1} << 40, ~uint64_t{0}, uint64_t{1} << 20}) {
    for (int section = 1; section <= 6; ++section) {
      ByteVector index;
      ByteWriter out(index);
      for (int tag = 1; tag <= 7; ++tag) {
        ByteVector body;
        if (tag == section) {
          ByteWriter(body).varint(claim);
          body.resize(body.size() + 30);
        } else if (tag < 7) {
          body.push_back(0);
        }
        out.varint(uint64_t(tag));
        out.varint(body.size());
        out.bytes(body);
      }
      CHECK_FALSE(decode_manifest(index, 0, kHeaderBytes));
    }
  }
}

TEST_CASE("the stored index declares its size and unfolds within bounds") {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1000}, size_t{300000}}) {
    const ByteVector index = test::random_bytes(size, size);
    const auto stored = pack_index(index);
    REQUIRE(stored);
    CHECK(unpack_index(*stored).value() == index);
    for (size_t cut = 0; cut < std::min<size_t>(stored->size(), 40); ++cut)
      CHECK_FALSE(unpack_index(ByteSpan(*stored).first(stored->size() - 1 - cut)));
    ByteVector longer = *stored;
    longer.push_back(0);
    CHECK_FALSE(unpack_index(longer));
  }
  SUBCASE("an index that repeats itself beyond the bound is stored raw") {
    const ByteVector index(size_t{6} << 20, 5);
    const auto stored = pack_index(index);
    REQUIRE(stored);
    CHECK(stored->size() > index.size());
    CHECK(unpack_index(*stored).value() == index);
  }
  SUBCASE("a bomb is refused before it unfolds") {
    ByteVector bomb;
    ByteWriter out(bomb);
    out.fixed<uint32_t>(0xfd2fb528);
    out.fixed<uint8_t>(0xe0);
    out.fixed<uint64_t>(uint64_t{1} << 40);
    out.fixed<uint32_t>(1);
    auto unpacked = unpack_index(bomb);
    REQUIRE_FALSE(unpacked);
    CHECK(contains(unpacked.error().message(), "beyond the limit"));
  }
  SUBCASE("a frame that hides its size is refused") {
    // Descriptor without content size, window of 1 KiB, one empty raw block.
    CHECK_FALSE(unpack_index(ByteVector{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x00, 0x01, 0x00, 0x00}));
  }
}
