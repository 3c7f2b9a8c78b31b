// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <doctest/doctest.h>

#include "support/temp_dir.h"

using namespace brevis;
using namespace brevis::fs;

namespace {

using Variables = std::map<std::string, std::string>;

Result<Options> parse(std::vector<const char*> arguments, const Variables& variables = {}) {
  arguments.insert(arguments.begin(), "brevis-mount");
  return parse_options(static_cast<int>(arguments.size()), arguments.data(),
                       [&](const std::string& name) -> const char* {
                         const auto it = variables.find(name);
                         return it == variables.end() ? nullptr : it->second.c_str();
                       });
}

std::string complaint(std::vector<const char*> arguments, const Variables& variables = {}) {
  const auto options = parse(std::move(arguments), variables);
  if (options) return "";
  CHECK(options.error().kind() == Errc::invalid_argument);
  return options.error().message();
}

}  // namespace

TEST_CASE("defaults") {
  const auto o = parse({"/models"});
  REQUIRE(o);
  CHECK(o->source == "/models");
  CHECK(o->mountpoint.empty());
  CHECK(o->target() == "/models");
  CHECK(o->memory == uint64_t{512} << 20);
  CHECK(o->max_background == 64);
  CHECK(o->grace_seconds == 10);
  CHECK(o->rescan_seconds == kRescanAuto);
  CHECK(o->control.empty());
  CHECK(o->metrics.empty());
  CHECK(!o->foreground);
  CHECK(o->log_level() == LogLevel::info);
}

TEST_CASE("the cache on disk: systemd's place unless another is said; relative ones are made absolute") {
  const auto with = [](std::initializer_list<const char*> words) {
    std::vector<const char*> all = {"brevis-mount"};
    all.insert(all.end(), words);
    const auto environment = [](const std::string& name) -> const char* {
      return name == "CACHE_DIRECTORY" ? "/var/cache/brevis/x" : nullptr;
    };
    return parse_options(static_cast<int>(all.size()), all.data(), environment).value();
  };
  CHECK(with({"/a"}).cache_dir == "/var/cache/brevis/x");
  CHECK(with({"/a", "--cache-dir", "none"}).cache_dir.empty());
  CHECK(with({"/a", "--cache-dir", "/c"}).cache_dir == "/c");
  CHECK(with({"/a", "--cache-dir", "c"}).cache_dir.ends_with("/c"));
  CHECK(with({"/a", "--cache-dir", "c"}).cache_dir.front() == '/');
  CHECK(with({"/a"}).cache == CacheMode::automatic);
  CHECK(with({"/a", "--cache", "always", "--cache-size=1GiB"}).cache == CacheMode::always);
  CHECK(with({"/a", "--cache", "always", "--cache-size=1GiB"}).cache_size == uint64_t{1} << 30);
  CHECK(with({"/a", "--readahead", "4MiB"}).readahead == uint64_t{4} << 20);
}

TEST_CASE("every option reaches its field") {
  const auto o = parse({"-f",
                        "--memory=2GiB",
                        "--cache-dir",
                        "none",
                        "--jobs",
                        "3",
                        "--loop-threads",
                        "4",
                        "--max-background",
                        "12",
                        "--show-archives",
                        "--allow-other",
                        "--grace",
                        "0",
                        "--log-format",
                        "json",
                        "--log-file",
                        "/var/log/b",
                        "--rescan",
                        "30",
                        "--control",
                        "/run/c",
                        "--metrics",
                        ":9464",
                        "-v",
                        "-o",
                        "noexec,x-y,nodev",
                        "-o",
                        "noatime",
                        "/a",
                        "/b"});
  REQUIRE(o);
  CHECK(o->foreground);
  CHECK(o->memory == uint64_t{2} << 30);
  CHECK(o->jobs == 3);
  CHECK(o->loop_threads == 4);
  CHECK(o->max_background == 12);
  CHECK(o->show_archives);
  CHECK(o->allow_other);
  CHECK(o->grace_seconds == 0);
  CHECK(o->log_format == LogFormat::json);
  CHECK(o->log_file == "/var/log/b");
  CHECK(o->rescan_seconds == 30);
  CHECK(o->control == "/run/c");
  CHECK(o->metrics == ":9464");
  CHECK(o->log_level() == LogLevel::debug);
  CHECK(o->mount_options == std::vector<std::string>{"noexec", "nodev", "noatime"});
  CHECK(o->source == "/a");
  CHECK(o->target() == "/b");
}

TEST_CASE("the command line wins over the environment, the environment over the file") {
  test::TempDir dir;
  const std::string file = dir / "c.toml";
  test::write_file(file, std::string_view("source = '/c'\nmountpoint = '/m'\nmemory = '1MiB'\njobs = 1\ngrace = 1\n"));
  const Variables variables = {{"BREVIS_MEMORY", "2MiB"}, {"BREVIS_JOBS", "2"}};
  const auto o = parse({"--config", file.c_str(), "--memory", "3MiB"}, variables);
  REQUIRE(o);
  CHECK(o->memory == uint64_t{3} << 20);
  CHECK(o->jobs == 2);
  CHECK(o->grace_seconds == 1);
  CHECK(o->source == "/c");
  CHECK(o->mountpoint == "/m");
  const auto by_variable = parse({}, {{"BREVIS_CONFIG", file}});
  REQUIRE(by_variable);
  CHECK(by_variable->source == "/c");
}

TEST_CASE("a SOURCE alone on the command line is mounted over itself, whatever the file says") {
  test::TempDir dir;
  const std::string file = dir / "c.toml";
  test::write_file(file, std::string_view("mountpoint = '/m'\n"));
  const auto o = parse({"--config", file.c_str(), "/a"});
  REQUIRE(o);
  CHECK(o->mountpoint.empty());
}

TEST_CASE("mount options: any option by its name, with dashes or underscores") {
  const auto o = parse({"-o", "rw,memory=5MiB,max_background=7,loop-threads=3,show_archives,allow_other", "/a"});
  REQUIRE(o);
  CHECK(o->memory == uint64_t{5} << 20);
  CHECK(o->max_background == 7);
  CHECK(o->loop_threads == 3);
  CHECK(o->show_archives);
  CHECK(o->allow_other);
  CHECK(o->mount_options.empty());
  CHECK(complaint({"-o", "config=/x", "/a"}).find("does not know") != std::string::npos);
  CHECK(complaint({"-o", "option=ro", "/a"}).find("does not know") != std::string::npos);
  CHECK(complaint({"-o", "fsname=", "/a"}).find("does not know") != std::string::npos);
  CHECK(complaint({"-o", "subtype=other", "/a"}).find("does not know") != std::string::npos);
}

TEST_CASE("sizes") {
  CHECK(*parse_size("0") == 0);
  CHECK(*parse_size("65536") == 65536);
  CHECK(*parse_size("1KiB") == 1024);
  CHECK(*parse_size("1 kib") == 1024);
  CHECK(*parse_size("1K") == 1024);
  CHECK(*parse_size("1kb") == 1000);
  CHECK(*parse_size("3MB") == 3'000'000);
  CHECK(*parse_size("16TiB") == uint64_t{16} << 40);
  CHECK(*parse_size("18446744073709551615") == ~uint64_t{0});
  for (const char* bad :
       {"", "x", "1.5GiB", "-1", "+1", " 1", "1KiBi", "18446744073709551616", "16777216TiB", "0x10"}) {
    CAPTURE(bad);
    CHECK(!parse_size(bad));
  }
}

TEST_CASE("unmount") {
  CHECK(parse({"--unmount", "/m"})->target() == "/m");
  CHECK(parse({"--unmount"}, {{"BREVIS_SOURCE", "/s"}, {"BREVIS_MOUNTPOINT", "/m"}})->target() == "/m");
  CHECK(complaint({"--unmount"}).find("MOUNTPOINT") != std::string::npos);
}

TEST_CASE("complaints name the option and the place") {
  CHECK(complaint({"--jobs", "x", "/a"}).starts_with("--jobs takes a number"));
  CHECK(complaint({"/a"}, {{"BREVIS_JOBS", "x"}}).starts_with("BREVIS_JOBS takes a number"));
  test::TempDir dir;
  const std::string file = dir / "c.toml";
  test::write_file(file, std::string_view("jobs = 'x'\n"));
  CHECK(complaint({"--config", file.c_str(), "/a"}).starts_with(file + ": jobs takes a number"));
}

TEST_CASE("hostile configuration files are refused") {
  test::TempDir dir;
  const std::string file = dir / "c.toml";
  for (std::string_view text : {"jobs", "jobs =", "[[a]]", "a.b = 1", "jobs = [[1]]", "jobs = {a = 1}", "\xff\xfe",
                                "jobs = 1\njobs = 2", "memory = 1979-05-27"}) {
    CAPTURE(text);
    test::write_file(file, text);
    CHECK(complaint({"--config", file.c_str(), "/a"}) != "");
  }
  CHECK(parse({"--config", dir.path().c_str(), "/a"}).error().kind() == Errc::io);
}
