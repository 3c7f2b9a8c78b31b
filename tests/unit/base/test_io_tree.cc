// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/io_tree.h"
#include "support/temp_dir.h"

using namespace brevis;
using namespace brevis::test;

TEST_CASE("files open below a directory and nowhere else") {
  const TempDir dir;
  write_file(dir / "outside", "secret");
  write_file(dir / "tree/a/file", "inside");
  REQUIRE(::symlink("../outside", (dir / "tree/leaves").c_str()) == 0);
  REQUIRE(::symlink((dir / "tree/a/file").c_str(), (dir / "tree/absolute").c_str()) == 0);
  REQUIRE(::symlink("a/file", (dir / "tree/stays").c_str()) == 0);
  REQUIRE(::symlink("a", (dir / "tree/b").c_str()) == 0);
  const UniqueFd at = open_directory(dir / "tree").value();

  const auto text = [&](const char* path, bool follow) -> std::string {
    const auto file = open_beneath(at.get(), path, follow);
    if (!file) return "errno " + std::to_string(file.error().os_errno());
    std::string out(6, '\0');
    REQUIRE(file->read_exact(0, {reinterpret_cast<uint8_t*>(out.data()), out.size()}));
    return out;
  };
  const std::string loop = "errno " + std::to_string(ELOOP), cross = "errno " + std::to_string(EXDEV);
  CHECK(text("a/file", false) == "inside");
  CHECK(text("a/file", true) == "inside");
  CHECK(text("stays", true) == "inside");
  CHECK(text("stays", false) == loop);
  CHECK(text("b/file", true) == "inside");
  CHECK(text("b/file", false) == loop);
  CHECK(text("leaves", true) == cross);
  CHECK(text("absolute", true) == cross);
  CHECK(text("../outside", true) == cross);
  CHECK(text("missing", true) == "errno " + std::to_string(ENOENT));

  CHECK(open_directory_beneath(at.get(), ""));
  CHECK(open_directory_beneath(at.get(), "a"));
  CHECK(open_directory_beneath(at.get(), "b").error().os_errno() == ELOOP);
  CHECK(open_directory_beneath(at.get(), "a/file").error().os_errno() == ENOTDIR);
}

TEST_CASE("a pipe among the files does not hang whoever opens it") {
  const TempDir dir;
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  const UniqueFd at = open_directory(dir.path()).value();
  CHECK(open_beneath(at.get(), "pipe", false));
}

TEST_CASE("a duplicate reads on after the first is closed and the name is gone") {
  const TempDir dir;
  write_file(dir / "f", "contents");
  std::optional<File> copy;
  {
    const File file = File::open(dir / "f").value();
    copy = duplicate(file).value();
    advise_random(file);
  }
  REQUIRE(::unlink((dir / "f").c_str()) == 0);
  ByteVector out(8);
  CHECK(copy->read_exact(0, out));
  CHECK(std::string(out.begin(), out.end()) == "contents");
  CHECK(copy->path() == dir / "f");
}

TEST_CASE("the space of a file system") {
  const TempDir dir;
  const UniqueFd at = open_directory(dir.path()).value();
  const FileSystemSpace space = space_of(at.get(), dir.path()).value();
  CHECK(space.block_size > 0);
  CHECK(space.blocks >= space.free_blocks);
  CHECK(space_of(-1, "nothing").error().os_errno() == EBADF);
}
