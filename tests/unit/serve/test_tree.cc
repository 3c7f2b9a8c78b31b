// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>

#include "archive/format.h"
#include "brevis/log.h"
#include "serve/tree.h"
#include "served_tree.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::test;
using serve::Tree;
using serve::View;

namespace {

// Lines logged while it lives.
class LogCatcher {
 public:
  LogCatcher() {
    set_log_sink([this](LogLevel, std::string_view message, const LogFields&) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(message);
    });
  }
  ~LogCatcher() {
    set_log_sink([](LogLevel, std::string_view, const LogFields&) {});
  }
  size_t with(std::string_view text) {
    const std::lock_guard lock(mutex_);
    return static_cast<size_t>(std::count_if(lines_.begin(), lines_.end(),
                                             [&](const std::string& line) { return line.find(text) != line.npos; }));
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

struct ReadCounter {
  ReadCounter() {
    set_fault_hook([this](const char*, const std::string&, uint64_t offset) {
      ++reads;
      if (offset != 0) ++elsewhere;
      return 0;
    });
  }
  ~ReadCounter() { set_fault_hook(nullptr); }
  std::atomic<uint64_t> reads{0}, elsewhere{0};
};

std::vector<std::string> names(const Tree& tree, const std::string& directory, View view = View::shown) {
  std::vector<std::string> out;
  const auto listed = tree.list(directory, view);
  REQUIRE(listed.has_value());
  for (const auto& entry : *listed) out.push_back(entry.name);
  return out;
}

using Names = std::vector<std::string>;

// As if it had been written so many seconds ago.
void set_age(const std::string& path, int64_t seconds) {
  struct timespec times[2] = {};
  ::clock_gettime(CLOCK_REALTIME, &times[0]);
  times[0].tv_sec -= seconds;
  times[1] = times[0];
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

}  // namespace

TEST_CASE("names: archives as what they hold, everything else as it is") {
  LogCatcher log;
  const TempDir dir;
  const ByteVector archive = packed_bytes(random_bytes(5000, 1));
  ByteVector damaged = archive, newer = archive;
  damaged[20] ^= 1;
  write_file(dir / "a.safetensors.brv", archive);
  write_file(dir / "both", "plain");
  write_file(dir / "both.brv", archive);
  write_file(dir / "foreign.brv", "not an archive at all");
  write_file(dir / "empty.brv", "");
  write_file(dir / "short.brv", ByteSpan(archive).first(40));
  write_file(dir / "damaged.brv", damaged);
  write_file(dir / "cut.brv", ByteSpan(archive).first(archive.size() - 1));
  write_file(dir / ".brv", archive);
  write_file(dir / "upper.BRV", archive);
  write_file(dir / "sub/x.brv", archive);
  write_file(dir / "dir.brv/inner", "x");
  write_file(dir / ".brevis/own", "hidden by ours");
  write_file(dir / "config.json", "{}");
  const UniqueFd fd = open_directory(dir.path()).value();
  const Tree tree(fd.get(), dir.path(), false);

  const Names expected = {".brv",    "a.safetensors", "both",        "config.json", "cut.brv", "damaged.brv",
                          "dir.brv", "empty.brv",     "foreign.brv", "short.brv",   "sub",     "upper.BRV"};
  CHECK(names(tree, "") == expected);
  CHECK(names(tree, "sub") == Names{"x"});
  CHECK(names(tree, "dir.brv") == Names{"inner"});
  CHECK(names(tree, "", View::raw).size() == 13);

  for (const std::string& name : expected) CHECK_MESSAGE(tree.find("", View::shown, name), name);
  for (const char* name : {"a.safetensors.brv", "both.brv", "cut", "foreign", "damaged", "x", "", ".", "..", "a/b"})
    CHECK_MESSAGE(tree.find("", View::shown, name).error().kind() == Errc::not_found, name);
  CHECK(tree.find("", View::raw, "a.safetensors.brv"));
  CHECK_FALSE(tree.find("", View::raw, "a.safetensors"));

  const auto shown = tree.find("", View::shown, "a.safetensors").value();
  CHECK(shown.is_archive);
  CHECK(shown.header.original_size == 5000);
  CHECK(shown.path == "a.safetensors.brv");
  CHECK_FALSE(tree.find("", View::shown, "both").value().is_archive);
  CHECK(tree.find("", View::shown, std::string(300, 'n')).error().os_errno() == ENAMETOOLONG);
  CHECK(tree.find("nowhere", View::shown, "x").error().kind() == Errc::not_found);

  // Said once each, however often looked at.
  names(tree, "");
  CHECK(log.with("both.brv: is not shown") == 1);
  CHECK(log.with("foreign.brv: is named like an archive but is none") == 1);
  CHECK(log.with("damaged.brv: is shown as it is") == 1);
}

TEST_CASE("show_archives lists both") {
  const TempDir dir;
  write_file(dir / "a.brv", packed_bytes(random_bytes(500, 1)));
  const UniqueFd fd = open_directory(dir.path()).value();
  const Tree tree(fd.get(), dir.path(), true);
  CHECK(names(tree, "") == Names{"a", "a.brv"});
  CHECK(tree.find("", View::shown, "a").value().is_archive);
  CHECK_FALSE(tree.find("", View::shown, "a.brv").value().is_archive);
}

TEST_CASE("links: kept as they are; to an archive inside the tree, the file it holds") {
  const TempDir outside, dir;
  const ByteVector archive = packed_bytes(random_bytes(700, 1));
  write_file(outside / "far.brv", archive);
  write_file(dir / "blobs/1234", archive);
  write_file(dir / "plain", "text");
  const auto link = [&](const std::string& target, const std::string& name) {
    REQUIRE(::symlink(target.c_str(), (dir / name).c_str()) == 0);
  };
  write_file(dir / "snap/readme", "x");
  link("../blobs/1234", "snap/model.brv");
  link("../plain", "snap/foreign.brv");
  link(outside / "far.brv", "snap/leaves.brv");
  link("nowhere", "snap/broken.brv");
  link("loop.brv", "snap/loop.brv");
  link("/etc/hostname", "snap/abs");
  link("../blobs", "snap/blobs.brv");
  const UniqueFd fd = open_directory(dir.path()).value();
  const Tree tree(fd.get(), dir.path(), false);
  CHECK(names(tree, "snap") ==
        Names{"abs", "blobs.brv", "broken.brv", "foreign.brv", "leaves.brv", "loop.brv", "model", "readme"});
  const auto model = tree.find("snap", View::shown, "model").value();
  CHECK(model.is_archive);
  CHECK(model.by_link);
  CHECK(model.stat.is_regular());
  CHECK(tree.open(model).value().stat().value().size == archive.size());
  const auto leaves = tree.find("snap", View::shown, "leaves.brv").value();
  CHECK(leaves.stat.is_symlink());
  CHECK(tree.link_target(leaves).value() == outside / "far.brv");
  CHECK(names(tree, "blobs") == Names{"1234"});  // archives are known by their name's end
}

TEST_CASE("a directory that became a link is not followed out of the tree") {
  const TempDir outside, dir;
  write_file(outside / "secret", "x");
  REQUIRE(::symlink(outside.path().c_str(), (dir / "sub").c_str()) == 0);
  const UniqueFd fd = open_directory(dir.path()).value();
  const Tree tree(fd.get(), dir.path(), false);
  CHECK_FALSE(tree.list("sub", View::shown));
  CHECK_FALSE(tree.find("sub", View::shown, "secret"));
}

TEST_CASE("D07: a thousand archives cost one read of their first 64 bytes each, once") {
  const TempDir dir;
  const ByteVector archive = packed_bytes(random_bytes(70'000, 1));
  for (int i = 0; i < 1000; ++i) {
    write_file(dir / ("m" + std::to_string(i) + ".brv"), archive);
    set_age(dir / ("m" + std::to_string(i) + ".brv"), 7200);
  }
  const UniqueFd fd = open_directory(dir.path()).value();
  Tree tree(fd.get(), dir.path(), false);
  ReadCounter counter;
  CHECK(names(tree, "").size() == 1000);
  CHECK(counter.reads == 1000);
  CHECK(counter.elsewhere == 0);
  CHECK(names(tree, "").size() == 1000);
  CHECK(tree.find("", View::shown, "m7"));
  CHECK(counter.reads == 1000);
  write_file(dir / "m7.brv", packed_bytes(random_bytes(70'001, 1)));
  counter.reads = counter.elsewhere = 0;
  CHECK(tree.find("", View::shown, "m7").value().header.original_size == 70'001);
  CHECK(counter.reads == 2);  // written just now: its end is looked at, too
  CHECK(counter.elsewhere == 1);
  CHECK(tree.find("", View::shown, "m7"));
  CHECK(counter.reads == 2);
  tree.rescan();
  CHECK(names(tree, "").size() == 1000);
  CHECK(counter.reads == 1003);
}

TEST_CASE("an archive that is being copied appears when it is whole") {
  LogCatcher log;
  const TempDir dir;
  const ByteVector archive = packed_bytes(random_bytes(70'000, 1));
  const UniqueFd fd = open_directory(dir.path()).value();
  const Tree tree(fd.get(), dir.path(), false);
  for (const size_t length : {size_t{0}, size_t{63}, size_t{64}, archive.size() / 2, archive.size() - 1}) {
    write_file(dir / "m.brv", ByteSpan(archive).first(length));
    CHECK(names(tree, "") == Names{"m.brv"});
    CHECK_FALSE(tree.find("", View::shown, "m"));
    CHECK(tree.find("", View::shown, "m.brv").value().stat.size == length);
  }
  // Space reserved in advance: size, time and first bytes are those of the whole from early on.
  ByteVector reserved = archive;
  std::fill(reserved.end() - 20, reserved.end(), uint8_t{0});
  write_file(dir / "m.brv", reserved);
  const FileStat before = stat_at(AT_FDCWD, dir / "m.brv", false).value();
  CHECK(names(tree, "") == Names{"m.brv"});
  write_file(dir / "m.brv", archive);
  const struct timespec times[2] = {{0, UTIME_OMIT},
                                    {before.mtime_ns / 1'000'000'000, before.mtime_ns % 1'000'000'000}};
  REQUIRE(::utimensat(AT_FDCWD, (dir / "m.brv").c_str(), times, 0) == 0);
  CHECK(names(tree, "") == Names{"m"});
  CHECK(tree.find("", View::shown, "m").value().header.original_size == 70'000);
}

TEST_CASE("a file that cannot be read does not fail its directory, and is asked again") {
  const TempDir dir;
  const ByteVector archive = packed_bytes(random_bytes(100, 1));
  write_file(dir / "a.brv", archive);
  write_file(dir / "b.brv", archive);
  const UniqueFd fd = open_directory(dir.path()).value();
  const Tree tree(fd.get(), dir.path(), false);
  set_fault_hook([](const char*, const std::string& path, uint64_t) { return path.ends_with("a.brv") ? EIO : 0; });
  CHECK(names(tree, "") == Names{"a.brv", "b"});
  set_fault_hook(nullptr);
  CHECK(names(tree, "") == Names{"a", "b"});
}
