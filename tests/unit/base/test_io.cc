// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <map>

#include "base/io.h"
#include "support/temp_dir.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::test;

namespace {

constexpr uint64_t kFar = std::numeric_limits<uint64_t>::max();

}  // namespace

TEST_CASE("reads are exact or say where the file ends") {
  const TempDir dir;
  const ByteVector data = random_bytes(10000, 1);
  write_file(dir / "f", data);
  const File file = File::open(dir / "f").value();
  CHECK(file.path() == dir / "f");
  for (const uint64_t offset : {0u, 1u, 4096u, 9999u, 10000u}) {
    for (const size_t size : {0u, 1u, 4097u, 10000u}) {
      ByteVector out(size);
      const Status status = file.read_exact(offset, out);
      if (offset + size <= data.size()) {
        REQUIRE(status.has_value());
        CHECK(std::equal(out.begin(), out.end(), data.begin() + static_cast<std::ptrdiff_t>(offset)));
        CHECK(file.read_exact_nowait(offset, out));
      } else {
        CHECK(status.error().kind() == Errc::truncated);
        CHECK_FALSE(file.read_exact_nowait(offset, out));
      }
      CHECK(file.read_some(offset, out).value() == std::min<size_t>(size, data.size() - offset));
    }
  }
  ByteVector out(3);
  CHECK(file.read_exact(9999, out).error().message() ==
        "reading '" + dir / "f" + "': wanted 3 bytes at byte 9999, the file ends after 1");
  for (const uint64_t offset : {uint64_t{10001}, kFar - 1, kFar, kFar / 2, kFar / 2 + 1}) {
    CHECK(file.read_some(offset, out).value() == 0);
    CHECK(file.read_exact(offset, out).error().kind() == Errc::truncated);
    CHECK_FALSE(file.read_exact_nowait(offset, out));
  }
  file.drop_cached({0, 10000});
  file.drop_cached({kFar, kFar});
  file.advise_sequential();
}

TEST_CASE("files of a file system in memory are read without waiting, short ones not") {
  const ByteVector data = random_bytes(10'000, 2);
  const UniqueFd held(::memfd_create("f", MFD_CLOEXEC));
  REQUIRE(::pwrite(held.get(), data.data(), data.size(), 0) == static_cast<ssize_t>(data.size()));
  const File file = File::open("/proc/self/fd/" + std::to_string(held.get())).value();
  ByteVector out(5000);
  REQUIRE(file.read_exact_nowait(5000, out));
  CHECK(std::equal(out.begin(), out.end(), data.begin() + 5000));
  CHECK_FALSE(file.read_exact_nowait(5001, out));
}

TEST_CASE("opening: what is missing, what is a link, what would hang") {
  const TempDir dir;
  CHECK(File::open(dir / "none").error().message() == "opening '" + dir / "none" + "': No such file or directory");
  CHECK(File::open(dir / "none").error().kind() == Errc::not_found);
  write_file(dir / "f", "x");
  REQUIRE(make_symlink("f", dir / "link"));
  CHECK(File::open(dir / "link").has_value());
  CHECK(File::open_at(AT_FDCWD, dir / "link", false).error().os_errno() == ELOOP);
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  const auto pipe = File::open(dir / "pipe");
  REQUIRE(pipe.has_value());
  CHECK_FALSE(pipe->stat()->is_regular());
  const UniqueFd at = open_directory(dir.path()).value();
  CHECK(File::open_at(at.get(), "f").has_value());
  CHECK(open_directory(dir / "f").error().os_errno() == ENOTDIR);
  ByteVector out(1);
  CHECK(File::open(dir.path())->read_exact(0, out).error().os_errno() == EISDIR);
}

TEST_CASE("stat tells versions of a file apart") {
  const TempDir dir;
  write_file(dir / "f", "one");
  const FileStat first = stat_at(AT_FDCWD, dir / "f", true).value();
  CHECK(first.is_regular());
  CHECK(first.size == 3);
  CHECK(first.same_version(File::open(dir / "f")->stat().value()));
  write_file(dir / "f", "longer");
  CHECK_FALSE(first.same_version(stat_at(AT_FDCWD, dir / "f", true).value()));
  REQUIRE(make_symlink("f", dir / "link"));
  CHECK(stat_at(AT_FDCWD, dir / "link", false)->is_symlink());
  CHECK(stat_at(AT_FDCWD, dir / "link", true)->is_regular());
  CHECK(stat_at(AT_FDCWD, dir.path(), true)->is_directory());
  CHECK(stat_at(AT_FDCWD, dir / "none", true).error().kind() == Errc::not_found);
}

TEST_CASE("what is announced is read by the system, and comes right") {
  const TempDir dir;
  const ByteVector data = random_bytes(300'000, 4);
  write_file(dir / "f", data);
  const UniqueFd written(::open((dir / "f").c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(::fsync(written.get()) == 0);
  const File file = File::open(dir / "f").value();
  file.announce({kFar, kFar});
  file.announce({data.size(), 4096});
  file.drop_cached({0, data.size()});
  ByteVector out(200'000);
  const bool was_dropped = !file.read_exact_nowait(50'000, out);
  file.announce({50'000, 0});  // to no byte, not to all
  file.announce({50'000, out.size()});
  bool at_hand = false;
  for (int i = 0; i < 1000 && !at_hand; ++i) {
    at_hand = file.read_exact_nowait(50'000, out);
    if (!at_hand) ::usleep(5000);
  }
  if (was_dropped) CHECK(at_hand);  // some file systems keep their pages, or cannot tell
  REQUIRE(file.read_exact(50'000, out));
  CHECK(std::equal(out.begin(), out.end(), data.begin() + 50'000));
}

TEST_CASE("directories are listed sorted, links as links") {
  const TempDir dir;
  for (const char* name : {"b", "a", "\xff", "B"}) write_file(dir / name, "x");
  REQUIRE(make_directories(dir / "d/e/f"));
  REQUIRE(make_symlink("nowhere", dir / "l"));
  const auto entries = list_directory_at(AT_FDCWD, dir.path()).value();
  std::vector<std::string> names;
  std::map<std::string, uint8_t> types;
  for (const auto& entry : entries) {
    names.push_back(entry.name);
    types[entry.name] = entry.type;
  }
  CHECK(names == std::vector<std::string>{"B", "a", "b", "d", "l", "\xff"});
  CHECK(types["a"] == DT_REG);
  CHECK(types["d"] == DT_DIR);
  CHECK(types["l"] == DT_LNK);
  CHECK(list_directory_at(AT_FDCWD, dir / "none").error().kind() == Errc::not_found);
}

TEST_CASE("links are read whole, however long") {
  const TempDir dir;
  const std::string target(3000, 't');
  REQUIRE(make_symlink(target, dir / "l"));
  CHECK(read_link_at(AT_FDCWD, dir / "l").value() == target);
  CHECK(read_link_at(AT_FDCWD, dir / "none").error().kind() == Errc::not_found);
}

TEST_CASE("whole files are read up to a limit") {
  const TempDir dir;
  const ByteVector data = random_bytes(200000, 2);
  write_file(dir / "f", data);
  write_file(dir / "empty", "");
  CHECK(read_whole_file(dir / "f", 200000).value() == data);
  CHECK(read_whole_file(dir / "f", 199999).error().kind() == Errc::invalid_argument);
  CHECK(read_whole_file(dir / "empty", 0)->empty());
  CHECK(read_whole_file("/proc/self/status", 1 << 20)->size() > 100);  // a file without a size
  CHECK(read_whole_file("/dev/zero", 1 << 20).error().kind() == Errc::invalid_argument);
}

TEST_CASE("the fault hook fails reads with its errno and goes when taken away") {
  const TempDir dir;
  write_file(dir / "f", "12345678");
  const File file = File::open(dir / "f").value();
  ByteVector out(4);
  set_fault_hook([&](const char* call, const std::string& path, uint64_t offset) {
    return std::string_view(call) == "read" && path == dir / "f" && offset == 4 ? EIO : 0;
  });
  CHECK(file.read_exact(0, out).has_value());
  const Status failed = file.read_exact(4, out);
  CHECK(failed.error().os_errno() == EIO);
  CHECK(failed.error().message() == "reading '" + dir / "f" + "' at byte 4: Input/output error");
  CHECK_FALSE(file.read_exact_nowait(4, out));
  set_fault_hook(nullptr);
  CHECK(file.read_exact(4, out).has_value());
}

TEST_CASE("a descriptor is closed once") {
  const TempDir dir;
  write_file(dir / "f", "x");
  UniqueFd a(::open((dir / "f").c_str(), O_RDONLY | O_CLOEXEC));
  const int number = a.get();
  UniqueFd b(std::move(a));
  CHECK_FALSE(a);
  CHECK(b.get() == number);
  UniqueFd& same = b;
  b = std::move(same);
  CHECK(b.get() == number);
  b = UniqueFd();
  CHECK(::fcntl(number, F_GETFD) == -1);
}
