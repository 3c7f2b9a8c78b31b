// SPDX-License-Identifier: Apache-2.0
#include "mounts.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/temp_dir.h"

using namespace brevis;
using namespace brevis::fs;

TEST_CASE("the table of mounts is read with its escapes, odd lines are left out") {
  const auto entries = parse_mount_table(
      "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
      "36 35 0:46 / /with\\040blank\\134 ro shared:1 master:2 - fuse.brevis brevis:/a\\040b ro,user_id=0\n"
      "37 35 8:1 /sub /x rw - ext4 /dev/sda1 rw\n"
      "\n"
      "nonsense\n"
      "1 2 3 4 5 6\n"
      "1 2 3 / /no-colon rw - ext4 x rw\n"
      "1 2 0:1 / /cut rw -");
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].type == "proc");
  CHECK(!entries[0].is_brevis());
  CHECK(entries[1].path == "/with blank\\");
  CHECK(entries[1].source == "brevis:/a b");
  CHECK(entries[1].is_brevis());
  CHECK(entries[1].major == 0);
  CHECK(entries[1].minor == 46);
  CHECK(entries[2].major == 8);
  CHECK(!entries[2].same_file_system(entries[1]));
}

TEST_CASE("what is mounted at a path") {
  CHECK(mount_at("/proc")->type == "proc");
  CHECK(!mount_at("/proc/self"));
  CHECK(!mount_at("/nonexistent"));
}

TEST_CASE("paths are resolved") {
  test::TempDir dir;
  REQUIRE(mkdir((dir / "real").c_str(), 0700) == 0);
  REQUIRE(symlink("real", (dir / "link").c_str()) == 0);
  CHECK(*resolve_path(dir / "link") == *resolve_path(dir / "real"));
  CHECK(*resolve_path((dir / "link") + "/../real/.") == *resolve_path(dir / "real"));
  CHECK(resolve_path(dir / "missing").error().kind() == Errc::not_found);
}

TEST_CASE("one directory below another, by identity") {
  test::TempDir dir;
  test::write_file(dir / "a/b/c/file", std::string_view("x"));
  const int fd = open((dir / "a").c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(fd >= 0);
  REQUIRE(symlink("a/b", (dir / "link").c_str()) == 0);
  CHECK(depth_below(dir / "a", fd)->value() == 0);
  CHECK(depth_below(dir / "a/b/c", fd)->value() == 2);
  CHECK(depth_below(dir / "link", fd)->value() == 1);
  CHECK(!depth_below(dir.path(), fd)->has_value());
  CHECK(!depth_below("/", fd)->has_value());
  CHECK(!depth_below(dir / "missing", fd));
  close(fd);
}

TEST_CASE("only our own mounts are taken off") {
  CHECK(unmount("/proc").error().kind() == Errc::not_found);
  CHECK(detach("/nonexistent").error().kind() == Errc::not_found);
  test::TempDir dir;
  CHECK(prepare_mountpoint(dir.path()));
}
