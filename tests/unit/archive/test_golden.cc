// SPDX-License-Identifier: Apache-2.0
//
// Archives that every release must read (golden/v1) and archives it must refuse (golden/rejected). They are written
// once, under BREVIS_ACCEPT=1, when they are missing, and never change: what a later packer would write for the same
// parts is of no matter here. golden/v1/archives.txt says what each gives: name, size, SHA-256 of the original.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <algorithm>
#include <functional>
#include <map>
#include <sstream>

#include "archive/bases.h"
#include "archive/format.h"
#include "archive/layout.h"
#include "archive/reader.h"
#include "base/checksum.h"
#include "base/coding.h"
#include "dsl/text.h"
#include "support/golden.h"
#include "support/simple_pack.h"
#include "support/temp_dir.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::archive;
using namespace brevis::test;

namespace {

using enum SegmentKind;

bool accepting() { return ::getenv("BREVIS_ACCEPT") != nullptr; }

Result<ByteVector> read_archive(const std::string& path) {
  DirectoryFinder finder;
  BREVIS_ASSIGN(const auto reader, open_with_bases(path, finder));
  ByteVector out(reader->header().original_size);
  BREVIS_TRY(read_range(*reader, {0, out.size()}, out));
  return out;
}

std::string described(const std::string& name, const ByteVector& original) {
  Sha256Hasher hasher;
  hasher.update(original);
  return name + " " + std::to_string(original.size()) + " " + to_hex(ByteSpan(hasher.finish()));
}

// A tensor for each codec, in the widths it is for.
std::vector<PackPart> codec_parts() {
  const ByteVector weights = gaussian_words(Dtype::BF16, 3000, 1);
  return {
      {prefix, random_bytes(30, 2), "u8 = literal(raw)"},
      {tensor, weights, "u16 = literal(raw)", 0},
      {tensor, palette_words(32, 700, 30, 3), "u32 = literal(packed)", 1},
      {tensor, weights, "u16 = merge(6, 10; literal(alias), literal(packed))", 2},
      {tensor, palette_words(16, 2500, 300, 4), "u16 = literal(rans)", 3},
      {tensor, weights, "u16 = merge(8, 8; literal(huffman), literal(raw))", 4},
      {tensor, zero_heavy_words(Dtype::F32, 1500, 5, 990), "u32 = literal(sparse)", 5},
      {tensor, ramp_words(64, 600, 9, 1000), "u64 = literal(zstd)", 6},
      {tensor, ByteVector{42}, "u8 = literal(sparse)", 7},
  };
}

// A tensor for each operator.
std::vector<PackPart> operator_parts() {
  const ByteVector weights = gaussian_words(Dtype::BF16, 2500, 11);
  ByteVector periodic;
  const ByteVector period = random_bytes(80, 12);
  for (int i = 0; i < 40; ++i) periodic.insert(periodic.end(), period.begin(), period.end());
  ByteVector mixed = constant_words(16, 100, 7);
  mixed.insert(mixed.end(), weights.begin(), weights.end());
  ByteVector runs;
  for (uint8_t i = 0; i < 60; ++i) runs.insert(runs.end(), size_t(1 + i * 3 % 70), uint8_t(i * 37));
  return {
      {prefix, random_bytes(21, 13), "u8 = literal(raw)"},
      {tensor, weights, "u16 = merge(9, 7; rank(7; literal(alias), literal(packed), literal(packed)), literal(packed))",
       0},
      {tensor, weights, "u16 = ref(21)", 1},
      {tensor, constant_words(32, 2000, 0x3f800000), "u32 = constant(0x3f800000)", 2},
      {tensor, ramp_words(64, 300, 5, 3), "u64 = ramp(5, 3)", 3},
      {tensor, periodic, "u8 = repeat(40; literal(raw))", 4},
      {tensor, mixed, "u16 = concat(100; constant(7), literal(rans))", 5},
      {tensor, palette_words(32, 1500, 12, 14), "u32 = palette(12; literal(packed))", 6},
      {tensor, weights, "u16 = map(xor, 0x8001; map(rotate, 1; map(zigzag, 0; literal(packed))))", 7},
      {tensor, ramp_words(16, 2400, 3, 7), "u16 = scan(add, 2; literal(packed), literal(sparse))", 8},
      {tensor, upcast_words(1200, 15), "u32 = cast(bf16_f32; literal(rans))", 9},
      {tensor, weights, "u16 = interleave(literal(packed), literal(rans))", 10},
      {tensor, runs, "u8 = runs(literal(packed), literal(packed))", 11},
      {tensor, zero_heavy_words(Dtype::F16, 2000, 16, 800), "u16 = zeros(literal(packed), literal(packed))", 12},
      {tensor, {}, "", 13},
  };
}

// Tensors whose rows and columns have scales of their own.
std::vector<PackPart> offset_parts() {
  ByteVector scaled = gaussian_words(Dtype::BF16, 60 * 50, 40);
  for (size_t i = 0; i < 60 * 50; ++i) {
    const unsigned exponents = static_cast<unsigned>(i / 50 % 7 + i % 50 % 5);  // added, modulo a byte
    const unsigned word = scaled[2 * i] | scaled[2 * i + 1] << 8;
    const unsigned moved = (word & 0x807f) | ((word + (exponents << 7)) & 0x7f80);
    scaled[2 * i] = static_cast<uint8_t>(moved);
    scaled[2 * i + 1] = static_cast<uint8_t>(moved >> 8);
  }
  return {
      {prefix, random_bytes(9, 41), "u8 = literal(raw)"},
      {tensor, scaled,
       "u16 = offset(7, 8, 50, 60, 1, 50; merge(1, 10, 5; literal(packed), rank(15; literal(alias), literal(packed), "
       "literal(packed)), literal(packed)))",
       0},
      {tensor, scaled, "u16 = merge(1, 15; literal(packed), offset(7, 8, 1, 3000; literal(zstd)))", 1},
      {tensor, gaussian_words(Dtype::F32, 2000, 42), "u32 = offset(23, 8, 9, 20, 180, 11; literal(raw))", 2},
      {tensor, random_bytes(5000, 43), "u8 = offset(0, 8, 1, 3, 3, 5, 2, 2, 1000, 2; literal(raw))", 3},
  };
}

// Scales of rows and columns, and sizes that go with those of the words before.
std::vector<PackPart> dealt_parts() {
  ByteVector scaled = offset_parts()[1].bytes, waves = gaussian_words(Dtype::BF16, 3000, 71), steps;
  for (size_t i = 0; i < 3000; ++i) {
    const unsigned word = waves[2 * i] | waves[2 * i + 1] << 8;
    const unsigned moved = (word & 0x807f) | ((word + (i / 100 % 6 << 7)) & 0x7f80);
    waves[2 * i] = static_cast<uint8_t>(moved);
    waves[2 * i + 1] = static_cast<uint8_t>(moved >> 8);
    const unsigned step = (moved & 0x7f) >> i / 80 % 6;  // of changing size
    const unsigned signed_step = moved & 0x8000 ? 0 - step : step;
    steps.push_back(static_cast<uint8_t>(signed_step));
    steps.push_back(static_cast<uint8_t>(signed_step >> 8));
  }
  const std::string four =
      "literal(packed), literal(zstd), merge(1, 10, 5; literal(packed), rank(7; literal(packed), literal(packed), "
      "literal(packed)), literal(packed)), literal(raw))";
  return {
      {prefix, random_bytes(9, 70), "u8 = literal(raw)"},
      {tensor, scaled, "u16 = select(7, 8, 50, 60, 1, 50; " + four, 0},
      {tensor, scaled, "u16 = offset(7, 8, 1, 50; select(0, 7, 1, 3000; " + four + ")", 1},
      {tensor, waves, "u16 = context(field, 5, 10, 1, 2, 100, 2, 101, 1, 2, 1; " + four, 2},
      {tensor, waves, "u16 = context(field, 7, 8, 64, 1; " + four, 3},
      {tensor, steps, "u16 = context(size, 0, 16, 1, 4; " + four, 4},
      {tensor, gaussian_words(Dtype::F32, 2000, 72),
       "u32 = context(size, 3, 20, 40, 3, 1000000, 1; literal(raw), literal(packed), literal(packed), literal(packed))",
       5},
  };
}

std::vector<PackPart> transpose_parts() {
  ByteVector columns;  // 70 rows of 30 columns, each its own word
  for (int row = 0; row < 70; ++row)
    for (int column = 0; column < 30; ++column) columns.insert(columns.end(), {uint8_t(column * 7), uint8_t(column)});
  return {
      {prefix, random_bytes(8, 51), "u8 = literal(raw)"},
      {tensor, columns, "u16 = transpose(35, 30; runs(literal(packed), literal(packed)))", 0},
      {tensor, gaussian_words(Dtype::F32, 1500, 52),
       "u32 = transpose(7, 11; merge(9, 23; literal(rans), literal(packed)))", 1},
      {tensor, random_bytes(300, 53), "u8 = transpose(20, 16; literal(raw))", 2},
  };
}

// Entries that are numbered one by one, and text without numbers.
std::vector<PackPart> text_parts() {
  std::string counted = "{", plain;
  for (unsigned i = 0; i < 700; ++i) {
    counted += "\"" + std::string(1 + i * 7 % 5, static_cast<char>('a' + i * 11 % 26)) + std::to_string(i * 31 % 90) +
               "\": " + std::to_string(i < 400 ? 90 + i : 999'999'400 + i) + (i % 50 == 0 ? ",\n" : ", ");
    plain += std::string(1 + i * 5 % 9, static_cast<char>('a' + i * 13 % 26)) + ' ';
  }
  const auto bytes = [](const std::string& s) { return ByteVector(s.begin(), s.end()); };
  ByteVector every = random_bytes(300, 71);  // no byte is left for a marker
  for (unsigned i = 0; i < 256; ++i) every.push_back(static_cast<uint8_t>(i));
  return {
      {opaque, bytes(counted), "u8 = literal(text)"},
      {opaque, bytes(plain), "u8 = literal(text)"},
      {opaque, every, "u8 = literal(text)"},
      {opaque, bytes("7"), "u8 = literal(text)"},
  };
}

std::vector<PackPart> bundle_parts() {
  std::vector<PackPart> parts = {{prefix, random_bytes(12, 20), "u8 = literal(zstd)"}};
  for (uint32_t i = 0; i < 40; ++i)
    parts.push_back(
        {tensor, gaussian_words(Dtype::F32, 1 + i % 9, 21 + i), "u32 = literal(packed)", 39 - i, int(i % 3)});
  parts.push_back({opaque, random_bytes(5, 61)});
  return parts;
}

struct Golden {
  std::string name;
  std::vector<PackPart> parts;
  bool table_sets = false;
  std::string base{};  // of an archive that stands on another: that golden's name
};

// The first golden's bytes are what the second one's bases give: equal, as a difference in each way, and patched.
std::vector<PackPart> base_parts() {
  return {{prefix, random_bytes(40, 60), "u8 = literal(raw)"},
          {tensor, gaussian_words(Dtype::BF16, 3000, 61), "u16 = literal(zstd)", 0},
          {tensor, gaussian_words(Dtype::F32, 1500, 62), "u32 = literal(raw)", 1}};
}

std::vector<PackPart> on_base_parts() {
  const ByteVector base = joined(base_parts());
  const auto part = [&](uint64_t at, uint64_t n) {
    return ByteVector(base.begin() + static_cast<ptrdiff_t>(at), base.begin() + static_cast<ptrdiff_t>(at + n));
  };
  const auto moved = [&](uint64_t at, uint64_t n, unsigned lane, uint64_t seed) {
    ByteVector bytes = part(at, n);
    const ByteVector noise = random_bytes(n, seed);
    for (size_t i = 0; i < n; i += lane) bytes[i] = static_cast<uint8_t>(bytes[i] + noise[i] % 9);
    return bytes;
  };
  ByteVector patched = part(6040, 6000);
  for (size_t i = 40; i < patched.size(); i += 900) patched[i] ^= 0x81;
  const ByteVector equal = part(6040, 2000), head = part(40, 100);
  ByteVector joint = head;
  joint.insert(joint.end(), equal.begin(), equal.end());
  std::vector<PackPart> parts = {{prefix, random_bytes(40, 63), "u8 = literal(raw)"}};
  const char* const ways[] = {"order", "xor", "add", "sub"};
  for (uint32_t i = 0; i < 4; ++i) {
    const std::string way = ways[i];
    parts.push_back({tensor,
                     moved(40, 6000, 2, 64 + i),
                     "u16 = combine(" + way + "; map(zigzag, 0; literal(packed)), base)",
                     i,
                     -1,
                     {{0, {40, 6000}}},
                     part(40, 6000)});
  }
  parts.push_back({tensor,
                   patched,
                   "u32 = patch(base, literal(packed), literal(raw))",
                   4,
                   -1,
                   {{0, {6040, 6000}}},
                   part(6040, 6000)});
  parts.push_back({tensor, joint, "u16 = base", 5, -1, {{0, {40, 100}}, {0, {6040, 2000}}}, {}});
  return parts;
}

// Steps dealt by fields of the base's words, in each way.
std::vector<PackPart> updated_parts() {
  const ByteVector base = joined(base_parts());
  const auto part = [&](uint64_t at, uint64_t n) {
    return ByteVector(base.begin() + static_cast<ptrdiff_t>(at), base.begin() + static_cast<ptrdiff_t>(at + n));
  };
  std::vector<PackPart> parts = {{prefix, random_bytes(40, 73), "u8 = literal(raw)"}};
  const char* const fields[] = {"order, 7, 8", "xor, 5, 10", "add, 0, 16", "sub, 9, 2"};
  for (uint32_t i = 0; i < 4; ++i) {
    ByteVector bytes = part(40, 6000);
    const ByteVector noise = random_bytes(6000, 74 + i);
    for (size_t at = 0; at < bytes.size(); at += 2) bytes[at] = static_cast<uint8_t>(bytes[at] + noise[at] % 9);
    parts.push_back({tensor,
                     bytes,
                     std::string("u16 = update(") + fields[i] +
                         "; base, literal(packed), literal(zstd), merge(12, 4; literal(packed), literal(packed)), "
                         "literal(sparse))",
                     i,
                     -1,
                     {{0, {40, 6000}}},
                     part(40, 6000)});
  }
  ByteVector wide = part(6040, 6000);
  for (size_t at = 0; at < wide.size(); at += 4) wide[at] ^= static_cast<uint8_t>(at % 7);
  parts.push_back(
      {tensor,
       wide,
       "u32 = update(order, 23, 8; base, literal(packed), literal(packed), literal(packed), literal(packed))",
       4,
       -1,
       {{0, {6040, 6000}}},
       part(6040, 6000)});
  return parts;
}

std::vector<Golden> goldens() {
  return {
      {"empty", {}},
      {"opaque", {{opaque, random_bytes(1000, 31)}}},
      {"codecs", codec_parts()},
      {"operators", operator_parts()},
      {"offset", offset_parts()},
      {"transpose", transpose_parts()},
      {"dealt", dealt_parts()},
      {"bundles", bundle_parts()},
      {"text", text_parts()},
      {"table_sets", codec_parts(), true},
      {"base", base_parts()},
      {"on_base", on_base_parts(), false, "base"},
      {"updated", updated_parts(), false, "base"},
  };
}

// What a hostile hand can put together: any index and frames, under right checksums.
struct Forgery {
  ByteVector frames = {1, 2, 3, 4};
  ByteVector index;   // uncompressed
  ByteVector stored;  // empty: made of index
  uint64_t original_size = 4;
  uint32_t version = kVersion, features = 0;
  int64_t footer_shift = 0;

  ByteVector bytes() const {
    const ByteVector packed = stored.empty() ? pack_index(index).value() : stored;
    const uint64_t offset = kHeaderBytes + frames.size();
    const Digest id = xxh3_128(index);
    ByteVector file;
    ByteWriter out(file);
    out.fixed<uint64_t>(kHeaderMagic);
    out.fixed<uint32_t>(version);
    out.fixed<uint32_t>(features);
    for (const uint64_t word : {original_size, id.low, id.high, offset, uint64_t{packed.size()}})
      out.fixed<uint64_t>(word);
    out.fixed<uint64_t>(xxh3_64(file));
    out.bytes(frames);
    out.bytes(packed);
    out.fixed<uint64_t>(offset + uint64_t(footer_shift));
    out.fixed<uint64_t>(packed.size());
    out.fixed<uint64_t>(xxh3_64(packed));
    out.fixed<uint64_t>(kFooterMagic);
    return file;
  }
};

// One opaque record of four raw bytes, and room for change.
Manifest four_bytes() {
  Manifest manifest;
  manifest.programs = {std::make_shared<const dsl::Program>(dsl::parse_program("u8 = literal(raw)").value())};
  Record record;
  record.words = 4;
  record.frame_words = {4};
  const ByteVector content = {1, 2, 3, 4};
  record.digest = xxh3_128(content);
  manifest.records = {record};
  manifest.segments = {{opaque, 0, 4, 0, 0, 0}};
  // A frame of the literal: its payload's length, then the payload.
  manifest.frames = {{kHeaderBytes, 5, xxh3_64(ByteVector{4, 1, 2, 3, 4})}};
  return manifest;
}

ByteVector forged(const std::function<void(Manifest&, Forgery&)>& change) {
  Manifest manifest = four_bytes();
  Forgery forgery;
  forgery.frames = {4, 1, 2, 3, 4};
  change(manifest, forgery);
  if (forgery.index.empty()) forgery.index = encode_manifest(manifest);
  return forgery.bytes();
}

std::shared_ptr<const dsl::Program> program_of(const char* text) {
  return std::make_shared<const dsl::Program>(dsl::parse_program(text).value());
}

// Name (which begins with the expected kind) and bytes.
std::map<std::string, ByteVector> rejected() {
  std::map<std::string, ByteVector> all;
  const auto nothing = [](Manifest&, Forgery&) {};
  all["not_found-foreign"] = ByteVector(100, 'x');
  all["truncated-header"] = forged(nothing);
  all["truncated-header"].resize(40);
  all["truncated-footer"] = forged(nothing);
  all["truncated-footer"].pop_back();
  all["corrupt-trailing_byte"] = forged(nothing);
  all["corrupt-trailing_byte"].push_back(0);
  all["corrupt-frame"] = forged(nothing);
  all["corrupt-frame"][66] ^= 1;
  all["unsupported-version"] = forged([](Manifest&, Forgery& f) { f.version = 2; });
  all["unsupported-feature"] = forged([](Manifest&, Forgery& f) { f.features = 0x80000000; });
  all["corrupt-feature_unused"] = forged([](Manifest&, Forgery& f) { f.features = kFeatureRef; });
  all["corrupt-footer_elsewhere"] = forged([](Manifest&, Forgery& f) { f.footer_shift = 1; });
  all["corrupt-size"] = forged([](Manifest&, Forgery& f) { f.original_size = 5; });
  all["corrupt-index_cut"] = forged([](Manifest& m, Forgery& f) {
    f.index = encode_manifest(m);
    f.index.pop_back();
  });
  all["corrupt-index_bomb"] = forged([](Manifest&, Forgery& f) {
    ByteWriter out(f.stored);
    out.fixed<uint32_t>(0xfd2fb528);
    out.fixed<uint8_t>(0xe0);
    out.fixed<uint64_t>(uint64_t{1} << 40);
    out.fixed<uint32_t>(1);
  });
  all["corrupt-count_2_40"] = forged([](Manifest& m, Forgery& f) {
    m.segments.clear();
    f.index = encode_manifest(m);
    const size_t at = f.index.size() - 3 - 1 - (2 + 1 + 1 + 8) + 1;  // the count of segments
    CHECK(f.index[at] == 0);
    f.index[at - 1] = 6;  // the section's length
    const ByteVector count = {0x80, 0x80, 0x80, 0x80, 0x80, 0x20};
    f.index.erase(f.index.begin() + ptrdiff_t(at));
    f.index.insert(f.index.begin() + ptrdiff_t(at), count.begin(), count.end());
  });
  all["unsupported-operator"] = forged([](Manifest& m, Forgery& f) {
    f.index = encode_manifest(m);
    const size_t at = 3 + 2 + 2;  // sections 1, head of 2, count, width
    CHECK(f.index[at] == 0);
    f.index[at] = 100;
  });
  all["unsupported-codec"] = forged([](Manifest& m, Forgery& f) {
    f.index = encode_manifest(m);
    f.index[3 + 2 + 2 + 2] = 100;
  });
  all["corrupt-frame_too_long"] = forged([](Manifest& m, Forgery&) { m.records[0].frame_words = {1 << 21}; });
  all["corrupt-frames_in_index"] = forged([](Manifest& m, Forgery&) { m.frames[0].length = 6; });
  all["corrupt-gap"] = forged([](Manifest& m, Forgery& f) {
    m.records[0].bundle = true;
    m.segments = {{opaque, 0, 3, 0, 0, 0}};
    f.original_size = 4;
  });
  all["corrupt-ref_beyond"] = forged([](Manifest& m, Forgery& f) {
    m.programs.push_back(program_of("u8 = ref(3)"));
    m.records.push_back({1, 2, {}, {}, {}, {}, {}, false});
    m.segments.push_back({opaque, 4, 2, 0, 1, 0});
    f.original_size = 6;
    f.features = kFeatureRef;
    m.segments.back().length = 2;
    m.programs[1] = program_of("u8 = ref(5)");
  });
  all["corrupt-ref_of_ref"] = forged([](Manifest& m, Forgery& f) {
    m.programs.push_back(program_of("u8 = ref(4)"));
    m.records.push_back({1, 2, {}, {}, {}, {}, {}, false});
    m.segments.push_back({opaque, 4, 2, 0, 1, 0});
    f.original_size = 6;
    f.features = kFeatureRef;
  });
  all["corrupt-payload"] = forged([](Manifest& m, Forgery& f) {
    f.frames = {3, 1, 2, 3, 4};
    m.frames[0].checksum = xxh3_64(f.frames);
  });
  return all;
}

}  // namespace

TEST_CASE("goldens: archives of version 1 give their files") {
  std::map<std::string, std::string> lines;  // name -> line
  const std::string list = test_data("golden/v1/archives.txt");
  if (exists(list)) {
    const ByteVector text = read_file(list);
    std::istringstream in(std::string(text.begin(), text.end()));
    for (std::string line; std::getline(in, line);)
      if (!line.empty()) lines[line.substr(0, line.find(' '))] = line;
  }
  for (const Golden& golden : goldens()) {
    const std::string path = test_data("golden/v1/" + golden.name + ".brv");
    if (!exists(path) && accepting()) {
      const TempDir dir;
      SimplePackOptions options;
      options.table_sets = golden.table_sets;
      if (!golden.base.empty()) {
        const auto base = Reader::open(File::open(test_data("golden/v1/" + golden.base + ".brv")).value()).value();
        options.bases = {{base->header().id, base->manifest().original_size, 0, golden.base + ".brv"}};
      }
      REQUIRE(simple_pack(dir / "a.brv", golden.parts, options));
      write_file(path, read_file(dir / "a.brv"));
      lines[golden.name] = described(golden.name, joined(golden.parts));
      std::string text;
      for (const auto& [name, line] : lines) text += line + "\n";
      write_file(list, text);
    }
    REQUIRE_MESSAGE(exists(path), "golden ", golden.name, " is missing: tools/dev/accept.sh writes it");
  }
  // What the list names is read, whoever wrote it.
  for (const auto& [name, line] : lines) {
    CAPTURE(name);
    const auto original = read_archive(test_data("golden/v1/" + name + ".brv"));
    REQUIRE_MESSAGE(original, (original ? "" : original.error().message()));
    CHECK(described(name, *original) == line);
  }
  CHECK(lines.size() >= goldens().size());
}

// I07: among them a frame that says it is longer than the limit.
TEST_CASE("goldens: archives that must be refused are refused for their reason") {
  for (const auto& [name, bytes] : rejected()) {
    CAPTURE(name);
    const std::string path = test_data("golden/rejected/" + name + ".brv");
    if (!exists(path) && accepting()) write_file(path, bytes);
    REQUIRE_MESSAGE(exists(path), "golden ", name, " is missing: tools/dev/accept.sh writes it");
    const auto read = read_archive(path);
    REQUIRE_FALSE(read);
    CAPTURE(read.error().message());
    CHECK(errc_name(read.error().kind()) == name.substr(0, name.find('-')));
  }
  const TempDir dir;
  write_file(dir / "sound", forged([](Manifest&, Forgery&) {}));
  CHECK(read_archive(dir / "sound").value() == ByteVector{1, 2, 3, 4});
}
