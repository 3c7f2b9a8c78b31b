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
#include "golden_parts.h"
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
