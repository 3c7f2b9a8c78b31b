// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "archive/reader.h"
#include "brevis/extract.h"
#include "brevis/log.h"
#include "brevis/model.h"
#include "support/simple_pack.h"
#include "support/temp_dir.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::test;

namespace {

// A file long enough for several chunks, with bundles, duplicates and stray bytes.
ByteVector model_file(uint64_t seed = 1) {
  std::vector<TensorSpec> tensors = {
      flat_tensor("w", Dtype::BF16, gaussian_words(Dtype::BF16, 900'000, seed)),
      flat_tensor("zero", Dtype::I64, constant_words(64, 300'000, 0)),
  };
  for (int i = 0; i < 200; ++i)
    tensors.push_back(flat_tensor("t" + std::to_string(i), i % 2 == 0 ? Dtype::F32 : Dtype::F16,
                                  random_bytes(size_t(4 * (i % 7 + 1)), seed + 1 + uint64_t(i))));
  tensors.push_back(flat_tensor("raw", Dtype::U8, random_bytes(1'300'001, seed + 4)));
  ByteVector file = safetensors_bytes(tensors);
  file.push_back(7);
  return file;
}

Result<ExtractReport> run(const std::string& source, const std::string& target,
                          const std::function<void(ExtractOptions&)>& change = {}) {
  ExtractOptions options;
  options.source = source;
  options.target = target;
  options.jobs = 3;
  if (change) change(options);
  return extract(options);
}

Errc failure(const Result<ExtractReport>& report) {
  REQUIRE(report);
  REQUIRE(report->first_error() != nullptr);
  return report->first_error()->kind();
}

FileStat stat_of(const std::string& path) { return File::open(path).value().stat().value(); }

void flip(const std::string& path, uint64_t at) {
  ByteVector bytes = read_file(path);
  bytes[at] = uint8_t(bytes[at] ^ 4);
  write_file(path, bytes);
}

}  // namespace

TEST_CASE("an archive becomes its file, with mode and times") {
  const TempDir dir;
  const ByteVector file = model_file();
  SimplePackOptions options;
  options.frame_bytes = 64 << 10;
  options.mode = 0600;
  REQUIRE(simple_pack(dir / "m.safetensors.brv", parts_of(file, 100), options));
  uint64_t last = 0, total = 0;
  const auto report = run(dir / "m.safetensors.brv", dir / "out", [&](ExtractOptions& extract) {
    extract.verify = true;
    extract.progress = [&](const std::string&, uint64_t done, uint64_t all) {
      CHECK(done >= last);
      last = done;
      total = all;
    };
  });
  REQUIRE(report);
  REQUIRE(report->first_error() == nullptr);
  CHECK(last == total);
  CHECK(report->bytes == file.size());
  CHECK(read_file(dir / "out") == file);
  CHECK((stat_of(dir / "out").mode & 07777) == 0600);
  CHECK(stat_of(dir / "out").mtime_ns == options.mtime_ns);

  CHECK(failure(run(dir / "m.safetensors.brv", dir / "out")) == Errc::invalid_argument);
  CHECK(run(dir / "m.safetensors.brv", dir / "out", [](ExtractOptions& o) { o.force = true; })->first_error() ==
        nullptr);
  CHECK(run(dir / "m.safetensors.brv", "")->first_error() == nullptr);
  CHECK(read_file(dir / "m.safetensors") == file);
  write_file(dir / "d/x", "");
  CHECK(run(dir / "m.safetensors.brv", dir / "d")->first_error() == nullptr);
  CHECK(read_file(dir / "d/m.safetensors") == file);
}

TEST_CASE("one tensor is extracted on its own") {
  const TempDir dir;
  const ByteVector file = model_file();
  const auto parts = parts_of(file, 100);
  REQUIRE(simple_pack(dir / "m.brv", parts));
  const Verdict verdict = examine_prefix(file, file.size());
  for (const char* name : {"w", "t3", "t50", "raw"}) {
    const auto report = run(dir / "m.brv", dir / name, [&](ExtractOptions& options) { options.tensor = name; });
    REQUIRE(report);
    CHECK(report->first_error() == nullptr);
    for (const TensorInfo& tensor : verdict.tensors) {
      if (tensor.name != name) continue;
      const ByteSpan bytes = ByteSpan(file).subspan(tensor.span.offset, tensor.span.length);
      CHECK(read_file(dir / name) == ByteVector(bytes.begin(), bytes.end()));
    }
  }
  CHECK(failure(run(dir / "m.brv", dir / "no", [&](ExtractOptions& options) { options.tensor = "no"; })) ==
        Errc::not_found);
  CHECK_FALSE(exists(dir / "no"));
}

TEST_CASE("damage of any kind leaves no file") {
  const TempDir dir;
  const ByteVector file = model_file();
  REQUIRE(simple_pack(dir / "m.brv", parts_of(file, 100)));
  const auto frames = archive::Reader::open(File::open(dir / "m.brv").value()).value()->manifest().frames;
  flip(dir / "m.brv", frames[frames.size() / 2].offset);
  CHECK(failure(run(dir / "m.brv", dir / "out")) == Errc::corrupt);

  SimplePackOptions options;
  options.false_digest = Digest{3, 4};
  REQUIRE(simple_pack(dir / "m.brv", parts_of(file, 100), options));
  CHECK(failure(run(dir / "m.brv", dir / "out")) == Errc::corrupt);

  options = {};
  options.sha256 = false;
  REQUIRE(simple_pack(dir / "m.brv", parts_of(file, 100), options));
  CHECK(failure(run(dir / "m.brv", dir / "out", [](ExtractOptions& o) { o.verify = true; })) == Errc::invalid_argument);
  CHECK(failure(run(dir / "m.brv", dir / "out", [](ExtractOptions& o) { o.cancelled = [] { return true; }; })) ==
        Errc::cancelled);
  CHECK(names_in(dir.path()) == std::vector<std::string>{"m.brv"});

  auto writer = archive::Writer::create(dir / "s.brv", true).value();
  writer.add_segment(
      {archive::SegmentKind::opaque, 0, 5, 0, add_stream(writer, random_bytes(5, 1), "u8 = literal(raw)"), 0});
  writer.set_sha256({});
  REQUIRE(writer.seal(0644, 0, 0));
  CHECK(failure(run(dir / "s.brv", dir / "out", [](ExtractOptions& o) { o.verify = true; })) == Errc::corrupt);
  CHECK_FALSE(exists(dir / "out"));
  CHECK(run(dir / "s.brv", dir / "out")->first_error() == nullptr);
}

TEST_CASE("a failing disk leaves no file, the archive as it was") {
  const TempDir dir;
  REQUIRE(simple_pack(dir / "m.brv", parts_of(model_file(), 100)));
  const ByteVector archive = read_file(dir / "m.brv");
  struct Unhook {
    ~Unhook() { set_fault_hook({}); }
  } unhook;
  for (const char* victim : {"write", "fsync", "rename", "read"}) {
    for (const int skip : {0, 1, 3}) {
      int seen = 0;
      bool failed = false;
      set_fault_hook([&](const char* call, const std::string&, uint64_t) {
        if (std::string(call) != victim || seen++ < skip) return 0;
        failed = true;
        return ENOSPC;
      });
      const auto report = run(dir / "m.brv", dir / "out", [](ExtractOptions& o) { o.jobs = 1; });
      set_fault_hook({});
      if (!failed) {
        REQUIRE(remove_file(dir / "out"));
        continue;
      }
      CAPTURE(victim);
      CAPTURE(skip);
      const bool told = !report || report->first_error() != nullptr;
      CHECK(told);
      // After the rename only the directory's fsync can fail: the file is whole then.
      if (exists(dir / "out")) {
        CHECK(std::string(victim) == "fsync");
        REQUIRE(remove_file(dir / "out"));
      }
      CHECK(names_in(dir.path()) == std::vector<std::string>{"m.brv"});
    }
  }
  CHECK(read_file(dir / "m.brv") == archive);
}

TEST_CASE("a tree comes back: archives unpacked, files copied, links kept, empty directories made") {
  const TempDir dir;
  const ByteVector a = model_file(1), b = model_file(2);
  write_file(dir / "in/config.json", "{}");
  write_file(dir / "in/sub/empty", "");
  write_file(dir / "in/foreign.brv", "not an archive");
  REQUIRE(make_directories(dir / "in/nothing"));
  REQUIRE(simple_pack(dir / "in/a.safetensors.brv", parts_of(a, 100)));
  REQUIRE(simple_pack(dir / "in/sub/b.safetensors.brv", parts_of(b)));
  REQUIRE(make_symlink("sub/b.safetensors", dir / "in/link"));
  REQUIRE(make_symlink("a.safetensors.brv", dir / "in/other.brv"));
  REQUIRE(make_symlink("/nowhere", dir / "in/dangling"));
  const auto report = run(dir / "in", dir / "out", [](ExtractOptions& options) { options.verify = true; });
  REQUIRE(report);
  REQUIRE_MESSAGE(report->first_error() == nullptr, (report->first_error() ? report->first_error()->message() : ""));
  CHECK(names_in(dir / "out") == std::vector<std::string>{"a.safetensors", "config.json", "dangling", "foreign.brv",
                                                          "link", "nothing", "other", "sub"});
  CHECK(names_in(dir / "out/sub") == std::vector<std::string>{"b.safetensors", "empty"});
  CHECK(read_file(dir / "out/a.safetensors") == a);
  CHECK(read_file(dir / "out/link") == b);
  CHECK(read_file(dir / "out/other") == a);
  CHECK(read_file(dir / "out/foreign.brv") == read_file(dir / "in/foreign.brv"));
  CHECK(stat_of(dir / "out/config.json").mtime_ns == stat_of(dir / "in/config.json").mtime_ns);
  CHECK(report->bytes == a.size() + b.size() + 2 + 14);

  CHECK(failure(run(dir / "in", dir / "out")) == Errc::invalid_argument);
  CHECK(run(dir / "in", dir / "out", [](ExtractOptions& o) { o.force = true; })->first_error() == nullptr);
  CHECK(run(dir / "in", dir / "in").error().kind() == Errc::invalid_argument);
}

TEST_CASE("one bad file of a tree: the others only with continue_on_error") {
  const TempDir dir;
  REQUIRE(simple_pack(dir / "in/a", {}).error().kind() == Errc::not_found);
  write_file(dir / "in/z", "z");
  REQUIRE(simple_pack(dir / "in/a.brv", parts_of(model_file(), 100)));
  REQUIRE(simple_pack(dir / "in/b.brv", parts_of(model_file(), 100)));
  flip(dir / "in/a.brv", 30);
  const auto stopped = run(dir / "in", dir / "out");
  CHECK(failure(stopped) == Errc::corrupt);
  CHECK(names_in(dir / "out").empty());
  const auto all = run(dir / "in", dir / "out", [](ExtractOptions& options) { options.continue_on_error = true; });
  CHECK(failure(all) == Errc::corrupt);
  CHECK(names_in(dir / "out") == std::vector<std::string>{"b", "z"});
  CHECK(all->files.size() == 3);
}

TEST_CASE("a file beside its archive is what readers see, so it is what is extracted") {
  const TempDir dir;
  write_file(dir / "in/x", "plain");
  REQUIRE(simple_pack(dir / "in/x.brv", parts_of(model_file())));
  std::string warned;
  set_log_sink([&](LogLevel, std::string_view message, const LogFields&) { warned = std::string(message); });
  CHECK(run(dir / "in", dir / "out")->first_error() == nullptr);
  set_log_sink([](LogLevel, std::string_view, const LogFields&) {});
  CHECK(warned.find("stands beside it") != std::string::npos);
  CHECK(names_in(dir / "out") == std::vector<std::string>{"x"});
  CHECK(read_file(dir / "out/x").size() == 5);
}

TEST_CASE("requests that make no sense") {
  const TempDir dir;
  write_file(dir / "x", "text");
  CHECK(run(dir / "x", dir / "y").error().kind() == Errc::invalid_argument);
  CHECK(run(dir / "absent", dir / "y").error().kind() == Errc::not_found);
  CHECK(run(dir.path(), "").error().kind() == Errc::invalid_argument);
  CHECK(run(dir.path(), dir / "y", [](ExtractOptions& options) { options.tensor = "t"; }).error().kind() ==
        Errc::invalid_argument);
}
