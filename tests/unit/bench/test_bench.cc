// SPDX-License-Identifier: Apache-2.0
#include "brevis/bench.h"

#include <doctest/doctest.h>

#include <set>

#include "bits/kernels.h"
#include "support/golden.h"
#include "support/temp_dir.h"

using namespace brevis;

namespace {

// run_bench() itself holds all that is decoded and encoded, at each level, against what it should be.
BenchFile measured(const std::string& path) {
  BenchOptions options;
  options.files = {path};
  options.rounds = 1;
  const auto report = run_bench(options);
  if (!report) FAIL(report.error().message());
  REQUIRE(report->files.size() == 1);
  return report->files[0];
}

}  // namespace

TEST_CASE("bench: every operator, codec, bundle and set of tables can be measured") {
  for (const char* name : {"empty", "opaque", "codecs", "operators", "bundles", "table_sets"}) {
    CAPTURE(name);
    const std::string path = test::test_data("golden/v1/" + std::string(name) + ".brv");
    const BenchFile file = measured(path);
    CHECK(file.was_archive);
    CHECK(file.packed_bytes == test::read_file(path).size());
    uint64_t bytes = 0, frames = 0;
    for (const BenchGroup& group : file.groups) {
      bytes += group.bytes;
      frames += group.frames;
      CHECK(group.ways.size() == file.ways.size() - 2);
    }
    CHECK((frames != 0) == (file.bytes != 0));
    CHECK((name == std::string_view("operators") || bytes == file.bytes));
  }
}

TEST_CASE("bench: the kernels in use are those of before, and limit the levels") {
  const bits::Kernels& before = bits::kernels();
  const std::string path = test::test_data("golden/v1/codecs.brv");
  bits::use_kernels(bits::all_kernels().front());
  CHECK(measured(path).ways.size() == 3);
  CHECK(&bits::kernels() == &bits::all_kernels().front());
  bits::use_kernels(bits::all_kernels().back());
  std::set<std::string_view> names;
  for (const bits::Kernels& kernels : bits::all_kernels()) names.insert(kernels.name);
  CHECK(measured(path).ways.size() == 2 + names.size());
  CHECK(&bits::kernels() == &bits::all_kernels().back());
  bits::use_kernels(before);
}

TEST_CASE("bench: rounds and seconds are at least what was asked for; it stops on request") {
  BenchOptions options;
  options.files = {test::test_data("golden/v1/opaque.brv")};
  options.rounds = 2;
  options.seconds = 0.2;
  const auto report = run_bench(options);
  REQUIRE(report);
  CHECK(report->files[0].rounds >= 2);
  options.cancelled = [] { return true; };
  const auto stopped = run_bench(options);
  REQUIRE(!stopped);
  CHECK(stopped.error().kind() == Errc::cancelled);
}
