// SPDX-License-Identifier: Apache-2.0
//
// Who stands on what, found out once for a run that writes over many archives.
#include "pack/overwriting.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "support/safetensors_writer.h"
#include "support/temp_dir.h"
#include "support/weights.h"

using namespace brevis;

namespace {

namespace stdfs = std::filesystem;

ByteVector file(uint64_t seed) {
  return test::safetensors_bytes({test::flat_tensor("w", Dtype::BF16, test::gaussian_words(Dtype::BF16, 300, seed))});
}

void make(const std::string& source, const std::string& target, const std::string& base = {}) {
  stdfs::create_directories(stdfs::path(target).parent_path());
  PackOptions options;
  options.sources = {source};
  options.target = target;
  options.search = PackSearch::off;
  if (!base.empty()) options.bases = {base};
  const auto report = pack_files(options);
  REQUIRE(report);
  if (report->first_error() != nullptr) FAIL(report->first_error()->message());
}

// What a run with --force into `targets` would ask.
struct Run {
  PackOptions options;
  pack::Inventory inventory;

  explicit Run(const std::vector<std::string>& targets) {
    options.force = true;
    options.target = stdfs::path(targets.front()).parent_path().string();
    for (const std::string& target : targets) {
      pack::Item item;
      item.target = target;
      inventory.items.push_back(std::move(item));
    }
  }
};

}  // namespace

TEST_CASE("users of a base are believed as they are now") {
  const test::TempDir dir;
  for (const char* name : {"a", "b", "c"})
    test::write_file(dir / (std::string("plain/") + name), file(static_cast<uint64_t>(name[0])));
  // A base that a tensor of its own is in.
  make(dir / "plain/a", dir / "out/a.brv");
  test::write_file(dir / "plain/user", file('a'));
  make(dir / "plain/user", dir / "out/deep/user.brv", dir / "out/a.brv");
  make(dir / "plain/b", dir / "out/b.brv");
  const Run run({dir / "out/a.brv", dir / "out/b.brv", dir / "out/none.brv"});
  pack::Overwriting overwriting(run.options, run.inventory);
  const auto refused = overwriting.check(nullptr, run.inventory.items[0]);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message().find("out/deep/user.brv") != std::string::npos);
  CHECK(overwriting.check(nullptr, run.inventory.items[1]));
  CHECK(overwriting.check(nullptr, run.inventory.items[2]));
  // The same run packs it anew; nothing is listed again.
  stdfs::remove(dir / "out/deep/user.brv");
  make(dir / "plain/c", dir / "out/deep/user.brv");
  CHECK(overwriting.check(nullptr, run.inventory.items[0]));
}

TEST_CASE("writing over many archives reads each of them once") {
  const test::TempDir dir;
  test::write_file(dir / "plain/a", file(1));
  make(dir / "plain/a", dir / "x/y/out/0/model.brv");
  std::vector<std::string> targets;
  for (size_t i = 0; i < 300; ++i) {
    const std::string folder = dir / ("x/y/out/" + std::to_string(i));
    targets.push_back(folder + "/model.brv");
    stdfs::create_directories(folder);
    if (i > 0) stdfs::copy_file(dir / "x/y/out/0/model.brv", targets.back());
  }
  Run run(targets);
  run.options.target = dir / "x/y/out";
  pack::Overwriting overwriting(run.options, run.inventory);
  for (const pack::Item& item : run.inventory.items) CHECK(overwriting.check(nullptr, item));
  CHECK(overwriting.looked_at() == 300);
}
