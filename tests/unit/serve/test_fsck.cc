// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "archive/reader.h"
#include "brevis/check.h"
#include "support/simple_pack.h"
#include "support/temp_dir.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::test;

namespace {

ByteVector model_file(uint64_t seed = 1, const std::string& stem = "") {
  return safetensors_bytes({flat_tensor(stem + "a.weight", Dtype::BF16, gaussian_words(Dtype::BF16, 9000, seed)),
                            flat_tensor(stem + "a.bias", Dtype::F32, random_bytes(40, seed + 2)),
                            flat_tensor(stem + "raw", Dtype::U8, random_bytes(30000, seed + 4)),
                            flat_tensor(stem + "b.bias", Dtype::F32, random_bytes(80, seed + 3)),
                            flat_tensor(stem + "zero", Dtype::I64, constant_words(64, 1000, 0))});
}

CheckReport run(std::vector<std::string> paths, bool quick = false, std::string tensor = {}) {
  CheckOptions options;
  options.paths = std::move(paths);
  options.quick = quick;
  options.tensor = std::move(tensor);
  options.jobs = 2;
  auto report = check(options);
  REQUIRE_MESSAGE(report, (report ? "" : report.error().message()));
  return *report;
}

bool has(const CheckReport& report, Severity severity, const std::string& text) {
  return std::any_of(report.findings.begin(), report.findings.end(), [&](const Finding& finding) {
    return finding.severity == severity && finding.message.find(text) != std::string::npos;
  });
}

std::string all_of(const CheckReport& report) {
  std::string text;
  for (const Finding& finding : report.findings)
    text += finding.file + ": " + finding.tensor + ": " + finding.message + "\n";
  return text;
}

std::shared_ptr<const archive::Reader> open_reader(const std::string& path) {
  return archive::Reader::open(File::open(path).value()).value();
}

void flip(const std::string& path, uint64_t bit) {
  ByteVector bytes = read_file(path);
  bytes[bit / 8] = uint8_t(bytes[bit / 8] ^ (1u << (bit % 8)));
  write_file(path, bytes);
}

}  // namespace

TEST_CASE("a whole archive is clean, and everything in it is counted") {
  const TempDir dir;
  REQUIRE(simple_pack(dir / "m.brv", parts_of(model_file(), 100)));
  const CheckReport report = run({dir / "m.brv"});
  CHECK_MESSAGE(report.findings.empty(), all_of(report));
  CHECK(report.clean());
  CHECK(report.archives == 1);
  CHECK(report.tensors == 5);
  CHECK(report.frames == open_reader(dir / "m.brv")->manifest().frames.size());
  CHECK(report.bytes >= model_file().size());
  const CheckReport quick = run({dir / "m.brv"}, true);
  CHECK(quick.clean());
  CHECK(quick.frames == report.frames);
}

TEST_CASE("I01: every single flipped bit anywhere in an archive is found") {
  const TempDir dir;
  REQUIRE(simple_pack(dir / "m.brv", parts_of(model_file(), 100)));
  const ByteVector whole = read_file(dir / "m.brv");
  Rng rng(99);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t bit = rng.below(whole.size() * 8);
    CAPTURE(bit);
    flip(dir / "m.brv", bit);
    CHECK_FALSE(run({dir / "m.brv"}, i % 10 != 0).clean());
    write_file(dir / "m.brv", whole);
  }
}

TEST_CASE("a damaged frame is named with its tensor and place, its neighbours are not accused") {
  const TempDir dir;
  REQUIRE(simple_pack(dir / "m.brv", parts_of(model_file(), 100)));
  const auto reader = open_reader(dir / "m.brv");
  const auto& manifest = reader->manifest();
  const auto& segments = manifest.segments;
  const auto frame_of = [&](size_t segment, uint64_t frame) {
    return manifest.frames[manifest.records[segments[segment].record].first_frame[0] + frame];
  };
  flip(dir / "m.brv", frame_of(1, 2).offset * 8 + 3);
  flip(dir / "m.brv", frame_of(3, 5).offset * 8 + 4);
  flip(dir / "m.brv", frame_of(4, 0).offset * 8 + 4);
  for (const bool quick : {false, true}) {
    const CheckReport report = run({dir / "m.brv"}, quick);
    CAPTURE(all_of(report));
    REQUIRE(report.findings.size() == 3);
    for (const Finding& finding : report.findings) CHECK(finding.severity == Severity::damage);
    CHECK(report.findings[0].offset < report.findings[1].offset);
    CHECK(has(report, Severity::damage, "fails its checksum"));
    if (quick) continue;  // names need decoding
    std::vector<std::string> tensors;
    for (const Finding& finding : report.findings) tensors.push_back(finding.tensor);
    std::sort(tensors.begin(), tensors.end());
    CHECK(tensors == std::vector<std::string>{"a.bias", "a.weight", "raw"});
  }
  CHECK(run({dir / "m.brv"}, false, "zero").clean());
  CHECK_FALSE(run({dir / "m.brv"}, false, "raw").clean());
  CHECK_FALSE(run({dir / "m.brv"}, false, "b.bias").clean());
}

TEST_CASE("I02: one tensor is checked on its own") {
  const TempDir dir;
  REQUIRE(simple_pack(dir / "m.brv", parts_of(model_file(), 100)));
  const CheckReport report = run({dir / "m.brv"}, false, "raw");
  CHECK(report.clean());
  CHECK(report.tensors == 1);
  CheckOptions options;
  options.paths = {dir / "m.brv"};
  options.tensor = "nobody";
  CHECK(check(options).error().kind() == Errc::not_found);
  // An archive that cannot be opened is damage, whatever it held.
  write_file(dir / "cut.brv", ByteSpan(read_file(dir / "m.brv")).first(200));
  CHECK(has(run({dir / "cut.brv"}, false, "raw"), Severity::damage, ""));
  options.quick = true;
  CHECK(check(options).error().kind() == Errc::invalid_argument);
}

TEST_CASE("bytes that decode to something else than was packed are found by digest and by SHA-256") {
  const TempDir dir;
  SimplePackOptions options;
  options.false_digest = Digest{1, 2};
  REQUIRE(simple_pack(dir / "m.brv", parts_of(model_file(), 100), options));
  CHECK(has(run({dir / "m.brv"}), Severity::damage, "digest"));
  CHECK(run({dir / "m.brv"}, true).clean());

  auto parts = parts_of(model_file());
  auto writer = archive::Writer::create(dir / "s.brv", true).value();
  for (const PackPart& part : parts)
    writer.add_segment(
        {part.kind, 0, part.bytes.size(), part.ordinal, add_stream(writer, part.bytes, part.program), 0});
  writer.set_sha256({});
  REQUIRE(writer.seal(0644, 0, 0));
  CHECK(has(run({dir / "s.brv"}), Severity::damage, "SHA-256"));

  options = {};
  options.sha256 = false;
  REQUIRE(simple_pack(dir / "n.brv", parts, options));
  const CheckReport report = run({dir / "n.brv"});
  CHECK(report.clean());
  CHECK(has(report, Severity::note, "without SHA-256"));
}

TEST_CASE("F12: trailing bytes of the original are noted, of the archive they are damage") {
  const TempDir dir;
  ByteVector file = model_file();
  for (const unsigned byte : {0x09u, 0x07u, 0x2fu, 0x00u}) file.push_back(static_cast<uint8_t>(byte));
  REQUIRE(simple_pack(dir / "m.brv", parts_of(file)));
  const CheckReport report = run({dir / "m.brv"});
  CHECK(report.clean());
  CHECK(has(report, Severity::note, "4 trailing bytes"));
  ByteVector bytes = read_file(dir / "m.brv");
  bytes.push_back(1);
  write_file(dir / "m.brv", bytes);
  CHECK(has(run({dir / "m.brv"}), Severity::damage, "1 stray bytes after the archive's end"));
  bytes.resize(bytes.size() - 100);
  write_file(dir / "m.brv", bytes);
  CHECK(has(run({dir / "m.brv"}), Severity::damage, "99 bytes short"));
}

TEST_CASE("what is no archive is a finding that says what it looks like") {
  const TempDir dir;
  write_file(dir / "x", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
  CHECK(has(run({dir / "x"}), Severity::damage, "LFS"));
  write_file(dir / "y", model_file());
  CHECK(has(run({dir / "y"}), Severity::damage, "safetensors"));
  CheckOptions options;
  options.paths = {dir / "absent"};
  CHECK(check(options).error().kind() == Errc::not_found);
  options.paths = {};
  CHECK(check(options).error().kind() == Errc::invalid_argument);
}

TEST_CASE("F26: a model directory: index against shards, plain and packed") {
  const TempDir dir;
  const std::string index = R"({"metadata":{"total_size":1},"weight_map":{)"
                            R"("1.a.weight":"m-1.safetensors","1.a.bias":"m-1.safetensors","1.raw":"m-1.safetensors",)"
                            R"("1.b.bias":"m-1.safetensors","1.zero":"m-1.safetensors",)"
                            R"("2.a.weight":"m-2.safetensors","2.a.bias":"m-2.safetensors","2.raw":"m-2.safetensors",)"
                            R"("2.b.bias":"m-2.safetensors","2.zero":"m-2.safetensors"}})";
  write_file(dir / "model.safetensors.index.json", index);
  REQUIRE(simple_pack(dir / "m-1.safetensors.brv", parts_of(model_file(1, "1."))));
  write_file(dir / "m-2.safetensors", model_file(2, "2."));
  const CheckReport clean = run({dir.path()});
  CHECK_MESSAGE(clean.findings.empty(), all_of(clean));
  CHECK(clean.archives == 1);

  SUBCASE("a shard is missing") {
    REQUIRE(::unlink((dir / "m-2.safetensors").c_str()) == 0);
    const CheckReport report = run({dir.path()});
    CHECK(has(report, Severity::damage, "shard 'm-2.safetensors' is missing (5 tensors)"));
  }
  SUBCASE("a shard lacks a tensor, and another has it too much") {
    write_file(dir / "m-2.safetensors", model_file(2, "1."));
    const CheckReport report = run({dir.path()});
    CHECK(has(report, Severity::damage, "lacks 5 tensors"));
    CHECK(has(report, Severity::warning, "in several shards: 'm-1.safetensors', 'm-2.safetensors'"));
    CHECK(has(report, Severity::warning, "does not place there"));
  }
  SUBCASE("the index itself is packed, or broken") {
    REQUIRE(::unlink((dir / "model.safetensors.index.json").c_str()) == 0);
    REQUIRE(simple_pack(dir / "model.safetensors.index.json.brv",
                        {{archive::SegmentKind::opaque, {index.begin(), index.end()}}}));
    CHECK(run({dir.path()}).findings.empty());
    REQUIRE(::unlink((dir / "m-2.safetensors").c_str()) == 0);
    CHECK(has(run({dir.path()}), Severity::damage, "is missing"));
    REQUIRE(::unlink((dir / "model.safetensors.index.json.brv").c_str()) == 0);
    write_file(dir / "model.safetensors.index.json", "{\"weight_map\": ");
    CHECK_FALSE(run({dir.path()}).clean());
  }
  SUBCASE("shards are links into a store of blobs, as model caches have them") {
    REQUIRE(simple_pack(dir / "blobs/abc.brv", parts_of(model_file(2, "2."))).error().kind() == Errc::not_found);
    write_file(dir / "blobs/x", "");
    REQUIRE(simple_pack(dir / "blobs/abc.brv", parts_of(model_file(2, "2."))));
    REQUIRE(::unlink((dir / "m-2.safetensors").c_str()) == 0);
    REQUIRE(::symlink("blobs/abc", (dir / "m-2.safetensors").c_str()) == 0);
    const CheckReport report = run({dir.path()});
    CHECK_MESSAGE(report.findings.empty(), all_of(report));
    CHECK(report.archives == 2);
  }
}

TEST_CASE("a file beside its archive is a warning, foreign bytes under an archive's name are damage") {
  const TempDir dir;
  write_file(dir / "sub/x", model_file());
  REQUIRE(simple_pack(dir / "sub/x.brv", parts_of(model_file())));
  const CheckReport report = run({dir.path()});
  CHECK(report.clean());
  CHECK(has(report, Severity::warning, "beside its archive"));
  write_file(dir / "y.brv", "something");
  CHECK(has(run({dir.path()}), Severity::damage, "not a Brevis archive"));
}

TEST_CASE("a check can be cancelled and tells how far it is") {
  const TempDir dir;
  REQUIRE(simple_pack(dir / "m.brv", parts_of(model_file())));
  CheckOptions options;
  options.paths = {dir / "m.brv"};
  uint64_t last = 0, total = 0;
  options.progress = [&](const std::string&, uint64_t done, uint64_t all) {
    CHECK(done >= last);
    last = done;
    total = all;
  };
  REQUIRE(check(options));
  CHECK(last == total);
  CHECK(total == model_file().size());
  options.cancelled = [] { return true; };
  const CheckReport stopped = check(options).value();
  CHECK(stopped.stopped);
}

TEST_CASE("what was found before a stop is told") {
  const TempDir dir;
  REQUIRE(simple_pack(dir / "a.brv", parts_of(model_file())));
  REQUIRE(simple_pack(dir / "b.brv", parts_of(model_file(2))));
  flip(dir / "a.brv", read_file(dir / "a.brv").size() / 2 * 8);
  CheckOptions options;
  options.paths = {dir.path()};
  options.jobs = 1;
  bool first_done = false;
  options.progress = [&](const std::string& file, uint64_t, uint64_t) {
    first_done = first_done || file.ends_with("a.brv");
  };
  options.cancelled = [&] { return first_done; };
  const CheckReport report = check(options).value();
  CHECK(report.stopped);
  CHECK_FALSE(report.clean());
}

TEST_CASE("a file that this user may not read is no damage; a tree without archives is said to be one") {
  const TempDir dir;
  REQUIRE(simple_pack(dir / "closed.brv", parts_of(model_file())));
  REQUIRE(::chmod((dir / "closed.brv").c_str(), 0) == 0);
  if (::access((dir / "closed.brv").c_str(), R_OK) != 0) {  // root may read everything
    const CheckReport report = run({dir.path()});
    CHECK(report.clean());
    CHECK(report.has(Severity::unread));
  }
  const TempDir empty;
  write_file(empty / "config.json", "{}");
  const CheckReport none = run({empty.path()});
  CHECK(none.clean());
  CHECK(none.archives == 0);
  CHECK(has(none, Severity::warning, "no archive"));
}
