// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "brevis/living.h"
#include "served_tree.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::test;

namespace {

struct Place {
  TempDir dir;
  UniqueFd source;
  Place() {
    write_file(dir / "source/keep", "x");
    source = open_directory(dir / "source").value();
  }
  std::string operator/(std::string_view name) const { return dir / ("source/" + std::string(name)); }

  Result<uint64_t> put(const std::string& path, ByteSpan bytes, bool replace = false,
                       std::function<bool()> cancelled = {}) const {
    write_file(dir / "given", bytes);
    const File given = File::open(dir / "given").value();
    PutRequest request;
    request.source_fd = source.get();
    request.source_path = "/shown";
    request.path = path;
    request.file_fd = given.fd();
    request.replace = replace;
    request.cancelled = std::move(cancelled);
    return put_file(request);
  }
  Result<std::string> remove(const std::string& path) const { return remove_file(source.get(), "/shown", path); }
};

const auto kText = [](std::string_view text) { return as_bytes(text); };

}  // namespace

TEST_CASE("a file is put whole, with its mode and time, and directories are made for it") {
  const Place place;
  const ByteVector archive = packed_bytes(random_bytes(50'000, 1));
  write_file(place.dir / "given", archive);
  CHECK(place.put("a/b/m.brv", archive).value() == archive.size());
  CHECK(read_file(place / "a/b/m.brv") == archive);
  CHECK(names_in(place / "a/b") == std::vector<std::string>{"m.brv"});
  CHECK(place.put("a/config.json", kText("{}")).value() == 2);
  CHECK(place.put("a/empty", {}).value() == 0);
  const FileStat given = stat_at(AT_FDCWD, place.dir / "given", false).value();
  CHECK(stat_at(AT_FDCWD, place / "a/empty", false).value().mtime_ns == given.mtime_ns);
}

TEST_CASE("what exists is replaced only when that is asked for") {
  const Place place;
  const ByteVector archive = packed_bytes(random_bytes(5000, 1)), other = packed_bytes(random_bytes(6000, 2));
  CHECK(place.put("m.brv", archive, true).error().kind() == Errc::not_found);
  REQUIRE(place.put("m.brv", archive));
  const Error exists = place.put("m.brv", other).error();
  CHECK(exists.kind() == Errc::invalid_argument);
  CHECK(exists.message().find("/shown/m.brv") != std::string::npos);
  const File held = File::open(place / "m.brv").value();
  CHECK(place.put("m.brv", other, true).value() == other.size());
  CHECK(read_file(place / "m.brv") == other);
  ByteVector old(archive.size());
  REQUIRE(held.read_exact(0, old));
  CHECK(old == archive);
  // A name and its archive hide each other.
  CHECK(place.put("m", kText("x")).error().kind() == Errc::invalid_argument);
  REQUIRE(place.put("plain", kText("x")));
  CHECK(place.put("plain.brv", archive).error().kind() == Errc::invalid_argument);
  REQUIRE(::mkdir((place / "folder.brv").c_str(), 0755) == 0);
  CHECK(place.put("folder.brv", archive, true).error().kind() == Errc::invalid_argument);
}

TEST_CASE("no path leads out of the source, no half archive into it") {
  const Place place;
  const ByteVector archive = packed_bytes(random_bytes(5000, 1));
  for (const std::string& path :
       {std::string(), std::string("/etc/x"), std::string("../x"), std::string("a/../../x"), std::string("a//x"),
        std::string("./x"), std::string("x/"), std::string("."), std::string(".."), std::string(".brevis/x"),
        std::string("a\0b", 3), std::string(256, 'n'), std::string(3000, 'n') + "/" + std::string(3000, 'n')}) {
    CHECK_MESSAGE(place.put(path, kText("x")).error().kind() == Errc::invalid_argument, path);
    CHECK_MESSAGE(place.remove(path).error().kind() == Errc::invalid_argument, path);
  }
  REQUIRE(::symlink(place.dir.path().c_str(), (place / "way-out").c_str()) == 0);
  CHECK_FALSE(place.put("way-out/x", kText("x")));
  CHECK_FALSE(exists(place.dir / "x"));
  CHECK_FALSE(place.remove("way-out/given"));
  CHECK(exists(place.dir / "given"));
  CHECK(place.put("cut.brv", ByteSpan(archive).first(archive.size() - 1)).error().kind() == Errc::truncated);
  CHECK(place.put("no.brv", kText("no archive")).error().kind() == Errc::not_found);
  CHECK(names_in(place.dir / "source") == std::vector<std::string>{"keep", "way-out"});
  PutRequest directory;
  directory.source_fd = directory.file_fd = place.source.get();
  directory.path = "d";
  CHECK(put_file(directory).error().kind() == Errc::invalid_argument);
  directory.file_fd = -1;
  CHECK_FALSE(put_file(directory));
}

TEST_CASE("what is stopped or fails leaves nothing behind") {
  const Place place;
  const ByteVector bytes = random_bytes(3 << 20, 1);
  CHECK(place.put("a", bytes, false, [] { return true; }).error().kind() == Errc::cancelled);
  CHECK(place.put("made/for/a", bytes, false, [] { return true; }).error().kind() == Errc::cancelled);
  REQUIRE(::mkdir((place / "was").c_str(), 0755) == 0);
  CHECK(place.put("was/there/a", bytes, false, [] { return true; }).error().kind() == Errc::cancelled);
  CHECK(names_in(place / "was").empty());
  for (const char* call : {"fsync", "rename", "write"}) {
    set_fault_hook(
        [&](const char* now, const std::string&, uint64_t) { return std::string_view(now) == call ? ENOSPC : 0; });
    PutRequest request;
    const File given = File::open(place.dir / "given").value();
    request.source_fd = place.source.get();
    request.source_path = "/shown";
    request.path = "made/for/a";
    request.file_fd = given.fd();
    const auto done = put_file(request);
    set_fault_hook(nullptr);
    REQUIRE_FALSE(done);
    CHECK(done.error().kind() == Errc::no_space);
    // The first write is that of making the file.
    CHECK(to_exit_code(done.error()) == (std::string_view(call) == "write" ? 73 : 74));
    CHECK_MESSAGE(done.error().message().find("/proc/") == std::string::npos, done.error().message());
  }
  CHECK(names_in(place.dir / "source") == std::vector<std::string>{"keep", "was"});
}

TEST_CASE("files are removed by the name that is seen or their own") {
  const Place place;
  const ByteVector archive = packed_bytes(random_bytes(5000, 1));
  REQUIRE(place.put("a/m.brv", archive));
  CHECK(place.remove("a/m").value() == "a/m.brv");
  REQUIRE(place.put("a/m.brv", archive));
  CHECK(place.remove("a/m.brv").value() == "a/m.brv");
  CHECK(place.remove("a/m").error().kind() == Errc::not_found);
  CHECK(place.remove("a").error().kind() == Errc::invalid_argument);
  CHECK(place.remove("keep").value() == "keep");
  CHECK(place.remove("nowhere/x").error().kind() == Errc::not_found);
}
