// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/io.h"
#include "support/temp_dir.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::test;

namespace {

using Names = std::vector<std::string>;

// Fails the named call while it lives.
struct Failing {
  Failing(const char* call, int with) {
    set_fault_hook([call = std::string(call), with](const char* now, const std::string&, uint64_t) {
      return call == now ? with : 0;
    });
  }
  ~Failing() { set_fault_hook(nullptr); }
};

}  // namespace

TEST_CASE("a file appears whole at commit and not before") {
  const TempDir dir;
  {
    AtomicFile file = AtomicFile::create(dir / "out", false).value();
    const ByteVector data = random_bytes(5000, 1);
    REQUIRE(file.append(ByteVector(10, 0)));
    REQUIRE(file.append(data));
    REQUIRE(file.append({}));
    CHECK(file.size() == 5010);
    REQUIRE(file.write_at(2, ByteVector{1, 2, 3}));
    CHECK(file.write_at(5008, ByteVector{1, 2, 3}).error().kind() == Errc::internal);
    CHECK(file.write_at(~uint64_t{0}, ByteVector{1}).error().kind() == Errc::internal);
    ByteVector back(5000);
    REQUIRE(file.read_exact(10, back));
    CHECK(back == data);
    CHECK(file.read_exact(11, back).error().kind() == Errc::truncated);
    CHECK_FALSE(exists(dir / "out"));
    CHECK(names_in(dir.path()).size() == 1);
    REQUIRE(file.set_mode_and_times(0100640, 1'000'000'007, -5));
    AtomicFile moved(std::move(file));
    REQUIRE(moved.commit());
    CHECK(moved.commit().error().kind() == Errc::internal);
  }
  CHECK(names_in(dir.path()) == Names{"out"});
  const FileStat st = stat_at(AT_FDCWD, dir / "out", true).value();  // before a read moves atime
  const ByteVector out = read_file(dir / "out");
  CHECK(out.size() == 5010);
  CHECK(ByteVector(out.begin(), out.begin() + 6) == ByteVector{0, 0, 1, 2, 3, 0});
  CHECK((st.mode & 07777) == 0640);
  CHECK(st.atime_ns == 1'000'000'007);
  CHECK(st.mtime_ns == -5);
}

TEST_CASE("without commit nothing stays behind") {
  const TempDir dir;
  {
    AtomicFile file = AtomicFile::create(dir / "out", true).value();
    REQUIRE(file.append(ByteVector(10, 0)));
  }
  CHECK(names_in(dir.path()).empty());
}

TEST_CASE("an existing file is replaced only when asked") {
  const TempDir dir;
  write_file(dir / "out", "old");
  const auto early = AtomicFile::create(dir / "out", false);
  CHECK(early.error().kind() == Errc::invalid_argument);
  CHECK(early.error().message().find("exists already") != std::string::npos);
  {
    REQUIRE(remove_file(dir / "out"));
    AtomicFile file = AtomicFile::create(dir / "out", false).value();
    REQUIRE(file.append(as_bytes("new")));
    write_file(dir / "out", "old");  // by somebody else, meanwhile
    const Status late = file.commit();
    CHECK(late.error().kind() == Errc::invalid_argument);
    CHECK(late.error().message().find("exists already") != std::string::npos);
  }
  CHECK(read_file(dir / "out") == ByteVector{'o', 'l', 'd'});
  {
    AtomicFile file = AtomicFile::create(dir / "out", true).value();
    REQUIRE(file.append(as_bytes("new")));
    REQUIRE(file.commit());
  }
  CHECK(read_file(dir / "out") == ByteVector{'n', 'e', 'w'});
  CHECK(names_in(dir.path()) == Names{"out"});
}

TEST_CASE("what is no regular file is never replaced, nor a link to it") {
  const TempDir dir;
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  REQUIRE(make_symlink("pipe", dir / "link"));
  REQUIRE(make_directories(dir / "directory"));
  for (const char* name : {"pipe", "link", "directory"}) {
    const auto refused = AtomicFile::create(dir / name, true);
    CHECK(refused.error().kind() == Errc::invalid_argument);
    CHECK(refused.error().message().find("no regular file") != std::string::npos);
  }
  CHECK(names_in(dir.path()).size() == 3);
  REQUIRE(make_symlink("nowhere", dir / "dangling"));
  CHECK(AtomicFile::create(dir / "dangling", true).has_value());
}

TEST_CASE("a file is its owner's alone until its mode is set, and never runs as its owner") {
  const TempDir dir;
  AtomicFile file = AtomicFile::create(dir / "out", false).value();
  CHECK((stat_at(AT_FDCWD, dir / names_in(dir.path()).at(0), true).value().mode & 07777) == 0600);
  REQUIRE(file.set_mode_and_times(0106755, 0, 0));
  REQUIRE(file.commit());
  CHECK((stat_at(AT_FDCWD, dir / "out", true).value().mode & 07777) == 0755);
}

TEST_CASE("a name that does not fit is refused before anything is written") {
  const TempDir dir;
  CHECK(AtomicFile::create(dir / std::string(256, 'n'), true).error().os_errno() == ENAMETOOLONG);
  CHECK(names_in(dir.path()).empty());
}

TEST_CASE("a name that only just fits leaves room for the temporary one") {
  const TempDir dir;
  const std::string name(255, 'n');
  AtomicFile file = AtomicFile::create(dir / name, false).value();
  REQUIRE(file.commit());
  CHECK(names_in(dir.path()) == Names{name});
}

TEST_CASE("failing calls leave no final file and no temporary one") {
  for (const char* call : {"write", "fsync", "rename"}) {
    CAPTURE(call);
    const TempDir dir;
    {
      AtomicFile file = AtomicFile::create(dir / "out", false).value();
      REQUIRE(file.append(as_bytes("abc")));
      const Failing failing(call, ENOSPC);
      Status status = file.append(as_bytes("def"));
      CHECK(status.has_value() == (std::string_view(call) != "write"));
      if (status) status = file.commit();
      CHECK(status.error().kind() == Errc::no_space);
      CHECK(to_exit_code(status.error()) == 74);
      CHECK(status.error().message().find("No space left on device") != std::string::npos);
    }
    CHECK(names_in(dir.path()).empty());
  }
}

TEST_CASE("a target that cannot be made says which") {
  const TempDir dir;
  const auto file = AtomicFile::create(dir / "no/such/out", false);
  CHECK(file.error().kind() == Errc::not_found);
  CHECK(file.error().message() == "creating '" + dir / "no/such/out" + "': No such file or directory");
}

TEST_CASE("directories are made with their parents, again without complaint") {
  const TempDir dir;
  CHECK(make_directories(dir / "a/b/c").has_value());
  CHECK(make_directories(dir / "a//b/c/").has_value());
  CHECK(make_directories("/").has_value());
  CHECK(stat_at(AT_FDCWD, dir / "a/b/c", true)->is_directory());
  write_file(dir / "f", "x");
  CHECK(make_directories(dir / "f").error().os_errno() == ENOTDIR);
  CHECK(make_directories(dir / "f/g").error().os_errno() == ENOTDIR);
  CHECK(make_directories("").error().kind() == Errc::not_found);
}

TEST_CASE("removing: once") {
  const TempDir dir;
  write_file(dir / "f", "x");
  CHECK(remove_file(dir / "f").has_value());
  CHECK(remove_file(dir / "f").error().kind() == Errc::not_found);
  CHECK(make_symlink("x", dir / "no/l").error().kind() == Errc::not_found);
}
