// SPDX-License-Identifier: Apache-2.0
#include "listening.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/temp_dir.h"

using namespace brevis;
using namespace brevis::fs;

TEST_CASE("a socket file is its owner's, and gone afterwards") {
  const test::TempDir dir;
  const std::string path = dir / "deep/control.sock";
  CHECK(Listening::at_path(path, false).error().kind() == Errc::not_found);
  {
    const auto listening = Listening::at_path(path, true);
    REQUIRE(listening);
    struct stat st = {};
    REQUIRE(::stat(path.c_str(), &st) == 0);
    CHECK(S_ISSOCK(st.st_mode));
    CHECK((st.st_mode & 0777) == 0600);
    CHECK(listening->address() == path);
    CHECK(Listening::at_path(path, true).error().kind() == Errc::busy);  // somebody answers there
    CHECK(test::exists(path));
  }
  CHECK_FALSE(test::exists(path));
}

TEST_CASE("what a dead daemon left is replaced, anything else is left alone") {
  const test::TempDir dir;
  const std::string path = dir / "s";
  {
    auto listening = Listening::at_path(path, false).value();
    // As after a kill: the file stays, nobody listens.
    ::close(::dup(listening.fd()));
    ::rename(path.c_str(), (dir / "left").c_str());
  }
  ::rename((dir / "left").c_str(), path.c_str());
  REQUIRE(test::exists(path));
  CHECK(Listening::at_path(path, false));
  test::write_file(dir / "file", "x");
  CHECK(Listening::at_path(dir / "file", false).error().kind() == Errc::busy);
  CHECK(test::exists(dir / "file"));
  CHECK(Listening::at_path(dir / std::string(200, 'x'), false).error().kind() == Errc::invalid_argument);
  CHECK(Listening::at_path("", false).error().kind() == Errc::invalid_argument);
  // A directory that others may write to is no place for it.
  REQUIRE(::mkdir((dir / "open").c_str(), 0777) == 0);
  REQUIRE(::chmod((dir / "open").c_str(), 0777) == 0);
  CHECK(Listening::at_path(dir / "open/s", true).error().kind() == Errc::permission);
}

TEST_CASE("addresses") {
  for (const char* bad : {"", "host", "1.2.3.4", ":", ":x", ":-1", ":65536", ":123456", "host:", "not a host:1"})
    CHECK_MESSAGE(Listening::at_address(bad).error().kind() == Errc::invalid_argument, bad);
  const auto any = Listening::at_address(":0").value();
  CHECK(any.address().starts_with("127.0.0.1:"));
  CHECK(any.address() != "127.0.0.1:0");
  CHECK(Listening::at_address(any.address()).error().kind() == Errc::busy);
}

TEST_CASE("default places are short enough, and no two mount points share one") {
  CHECK(default_control_path("/models", 0, nullptr).value() == "/run/brevis/models.sock");
  CHECK(default_control_path("/srv/a-b", 0, nullptr).value() == "/run/brevis/srv-a%2db.sock");
  CHECK(default_control_path("/srv/a/b", 0, nullptr).value() == "/run/brevis/srv-a-b.sock");
  CHECK(default_control_path("/", 0, nullptr).value() == "/run/brevis/-.sock");
  CHECK(default_control_path("/m", 1000, "/run/user/1000").value() == "/run/user/1000/brevis/m.sock");
  CHECK(default_control_path("/m", 1000, nullptr).error().kind() == Errc::not_found);
  CHECK(default_control_path("/m", 1000, "relative").error().kind() == Errc::not_found);
  const std::string deep(3000, 'd');
  const std::string one = default_control_path("/1/" + deep, 0, nullptr).value();
  CHECK(one.size() < 100);
  CHECK(one != default_control_path("/2/" + deep, 0, nullptr).value());
}
