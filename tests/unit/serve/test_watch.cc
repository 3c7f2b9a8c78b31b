// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "base/io.h"
#include "brevis/living.h"
#include "brevis/log.h"
#include "served_tree.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::test;

namespace {

using std::chrono::milliseconds;

class Watched {
 public:
  explicit Watched(unsigned rescan_seconds = 0) {
    set_log_level(LogLevel::error);
    ::mkdir((*this / "").c_str(), 0755);
    source_ = open_directory(*this / "").value();
    options_.source_fd = source_.get();
    options_.source_path = "/shown";
    options_.rescan_seconds = rescan_seconds;
    options_.changed = [this](const std::vector<ChangedName>& names) {
      const std::lock_guard lock(mutex_);
      for (const ChangedName& name : names) told_.push_back(name.directory + "|" + name.name);
    };
  }
  ~Watched() {
    if (watch_) CHECK(watch_->stop(milliseconds(10'000)));
    set_log_level(LogLevel::warning);
  }
  std::string operator/(std::string_view name) const { return dir_ / ("tree/" + std::string(name)); }

  void start(uint64_t directories) {
    watch_ = TreeWatch::start(options_).value();
    CHECK(until([&] { return watch_->counters().directories == directories; }));
  }
  void put(const std::string& name, uint64_t seed) const {
    write_file(dir_ / "aside", packed_bytes(random_bytes(5000 + seed, seed)));
    REQUIRE(::rename((dir_ / "aside").c_str(), (*this / name).c_str()) == 0);
  }
  // Waits for what another thread finds out.
  template <class Condition>
  static bool until(Condition condition) {
    for (int i = 0; i < 1000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(milliseconds(10));
    }
    return false;
  }
  bool told(const std::string& name) {
    return until([&] {
      const std::lock_guard lock(mutex_);
      return std::find(told_.begin(), told_.end(), name) != told_.end();
    });
  }
  WatchCounters counters() const { return watch_->counters(); }
  TreeWatch& watch() { return *watch_; }
  std::string outside(const std::string& name) const { return dir_ / name; }

 private:
  TempDir dir_;
  UniqueFd source_;
  WatchOptions options_;
  std::mutex mutex_;
  std::vector<std::string> told_;
  std::unique_ptr<TreeWatch> watch_;
};

}  // namespace

TEST_CASE("S09: archives that come, change and go are told under both their names") {
  Watched tree;
  write_file(tree / "sub/x", "x");
  tree.put("sub/first.brv", 1);
  tree.start(2);
  CHECK(tree.counters().archives == 1);
  CHECK(tree.counters().added == 0);  // what was there is no news
  tree.put("sub/m.brv", 2);
  CHECK(tree.told("sub|m.brv"));
  CHECK(tree.told("sub|m"));
  CHECK(Watched::until([&] { return tree.counters().added == 1; }));
  tree.put("sub/m.brv", 3);
  CHECK(Watched::until([&] { return tree.counters().replaced == 1; }));
  REQUIRE(::unlink((tree / "sub/m.brv").c_str()) == 0);
  CHECK(Watched::until([&] { return tree.counters().removed == 1; }));
  CHECK(tree.counters().archives == 1);
  write_file(tree / "plain", "x");
  CHECK(tree.told("|plain"));
}

TEST_CASE("a copy under way is no archive until it is whole") {
  Watched tree;
  tree.start(1);
  const ByteVector archive = packed_bytes(random_bytes(50'000, 1));
  write_file(tree / "m.brv", ByteSpan(archive).first(archive.size() / 2));
  CHECK(tree.told("|m.brv"));
  CHECK(tree.counters().added == 0);
  write_file(tree / "m.brv", archive);
  CHECK(Watched::until([&] { return tree.counters().added == 1; }));
  write_file(tree / "foreign.brv", "no archive");
  CHECK(tree.told("|foreign.brv"));
  CHECK(tree.counters().added == 1);
}

TEST_CASE("directories that are made, moved in, moved within and moved away") {
  Watched tree;
  tree.start(1);
  write_file(tree.outside("in/deep/x"), "x");
  write_file(tree.outside("in/deep/m.brv"), packed_bytes(random_bytes(5000, 1)));
  REQUIRE(::rename(tree.outside("in").c_str(), (tree / "in").c_str()) == 0);
  CHECK(Watched::until([&] { return tree.counters().added == 1 && tree.counters().directories == 3; }));
  tree.put("in/deep/m.brv", 2);
  CHECK(Watched::until([&] { return tree.counters().replaced == 1; }));
  REQUIRE(::rename((tree / "in").c_str(), (tree / "other").c_str()) == 0);
  CHECK(Watched::until([&] { return tree.counters().added == 2 && tree.counters().removed == 1; }));
  tree.put("other/deep/m.brv", 3);
  CHECK(tree.told("other/deep|m"));
  REQUIRE(::rename((tree / "other").c_str(), tree.outside("in").c_str()) == 0);
  CHECK(Watched::until([&] { return tree.counters().removed == 2 && tree.counters().directories == 1; }));
  for (int i = 0; i < 50; ++i) {  // faster than anybody can look
    write_file(tree / ("d" + std::to_string(i) + "/e/m.brv"), packed_bytes(random_bytes(500, 1)));
  }
  CHECK(Watched::until([&] { return tree.counters().archives == 50 && tree.counters().directories == 101; }));
}

TEST_CASE("everything is looked at again on request and on time") {
  Watched tree(1);
  tree.start(1);
  CHECK(Watched::until([&] { return tree.counters().rescans >= 1; }));
  const uint64_t before = tree.counters().rescans;
  tree.watch().rescan();
  CHECK(Watched::until([&] { return tree.counters().rescans > before; }));
  CHECK(tree.watch().stop(milliseconds(10'000)));
  CHECK(tree.watch().stop(milliseconds(0)));  // has ended
}

TEST_CASE("a source that goes away ends nothing") {
  Watched tree;
  tree.put("m.brv", 1);
  tree.start(1);
  REQUIRE(::rename((tree / "").c_str(), tree.outside("renamed").c_str()) == 0);
  tree.watch().rescan();
  CHECK(Watched::until([&] { return tree.counters().rescans == 1; }));
  CHECK(tree.counters().archives == 1);  // the descriptor still leads there
}
