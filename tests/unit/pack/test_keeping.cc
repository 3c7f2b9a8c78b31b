// SPDX-License-Identifier: Apache-2.0
//
// What packing must not remove or write over.
#include <doctest/doctest.h>

#include <filesystem>

#include "archive/bases.h"
#include "archive/layout.h"
#include "brevis/pack.h"
#include "support/safetensors_writer.h"
#include "support/temp_dir.h"
#include "support/weights.h"

using namespace brevis;

namespace {

namespace stdfs = std::filesystem;

ByteVector model(uint64_t seed) {
  return test::safetensors_bytes({test::flat_tensor("a", Dtype::BF16, test::gaussian_words(Dtype::BF16, 20000, 1)),
                                  test::flat_tensor("b", Dtype::BF16, test::gaussian_words(Dtype::BF16, 9000, seed))});
}

PackReport pack(const std::string& source, const std::string& target, PackOptions options = {}) {
  options.sources = {source};
  options.target = target;
  auto report = pack_files(options);
  if (!report) FAIL(report.error().message());
  return std::move(*report);
}

ByteVector unpacked(const std::string& path) {
  archive::DirectoryFinder finder(std::vector<std::string>{});
  const auto reader = archive::open_with_bases(path, finder);
  if (!reader) FAIL(reader.error().message());
  ByteVector out((*reader)->manifest().original_size);
  REQUIRE(archive::read_range(**reader, {0, out.size()}, out));
  return out;
}

}  // namespace

TEST_CASE("--resume makes a link again, but removes nothing else for it") {
  const test::TempDir dir;
  test::write_file(dir / "tree/a.txt", "text");
  stdfs::create_symlink("a.txt", dir / "tree/link");
  test::write_file(dir / "out/link", "of somebody else");
  PackOptions options;
  options.resume = true;
  CHECK(pack(dir / "tree", dir / "out", options).first_error() != nullptr);
  CHECK(stdfs::is_regular_file(stdfs::symlink_status(dir / "out/link")));
  CHECK(stdfs::file_size(dir / "out/link") == 16);
  stdfs::remove(dir / "out/link");
  for (int run = 0; run < 2; ++run) {
    CHECK(pack(dir / "tree", dir / "out", options).first_error() == nullptr);
    CHECK(stdfs::read_symlink(dir / "out/link") == "a.txt");
  }
}

TEST_CASE("a base stays where what stands on it could not be packed anew") {
  const test::TempDir dir;
  test::write_file(dir / "tree/first.safetensors", model(2));
  test::write_file(dir / "tree/second.safetensors", model(3));
  stdfs::create_directory(dir / "out");
  CHECK(pack(dir / "tree/second.safetensors", dir / "out/second.safetensors.brv").first_error() == nullptr);
  PackOptions based;
  based.bases = {dir / "out/second.safetensors.brv"};
  CHECK(pack(dir / "tree/first.safetensors", dir / "out/first.safetensors.brv", based).first_error() == nullptr);
  stdfs::resize_file(dir / "tree/first.safetensors", 30000);
  test::write_file(dir / "tree/second.safetensors", model(4));
  PackOptions again;
  again.force = true;
  const auto report = pack(dir / "tree", dir / "out", again);
  for (const PackedFile& file : report.files) CHECK(file.action == PackAction::failed);
  CHECK(unpacked(dir / "out/first.safetensors.brv") == model(2));
  CHECK(unpacked(dir / "out/second.safetensors.brv") == model(3));
}

TEST_CASE("a prior is saved over a prior, and over nothing else unless told to") {
  const test::TempDir dir;
  test::write_file(dir / "a.safetensors", model(2));
  test::write_file(dir / "precious", "of somebody else");
  PackOptions options;
  options.sources = {dir / "a.safetensors"};
  options.save_prior = dir / "precious";
  CHECK_FALSE(pack_files(options));
  CHECK(stdfs::file_size(dir / "precious") == 16);
  CHECK_FALSE(test::exists(dir / "a.safetensors.brv"));
  options.force = true;
  CHECK(pack_files(options));
  CHECK(stdfs::file_size(dir / "precious") != 16);
  options.force = false;
  stdfs::remove(dir / "a.safetensors.brv");
  const auto again = pack_files(options);
  REQUIRE(again);
  CHECK(again->first_error() == nullptr);
}

TEST_CASE("--resume leaves archives that were made of the same archives") {
  const test::TempDir dir;
  test::write_file(dir / "a.safetensors", model(2));
  stdfs::create_directory(dir / "in");
  CHECK(pack(dir / "a.safetensors", dir / "in/a.safetensors.brv").first_error() == nullptr);
  PackOptions options;
  options.from_archives = options.resume = true;
  options.frame_bytes = 65536;
  for (const bool resumed : {false, true}) {
    const auto report = pack(dir / "in", dir / "out", options);
    CHECK(report.first_error() == nullptr);
    REQUIRE(report.files.size() == 1);
    CHECK(report.files[0].resumed == resumed);
  }
  CHECK(unpacked(dir / "out/a.safetensors.brv") == model(2));
  // Of another original: not taken for it.
  test::write_file(dir / "a.safetensors", model(3));
  PackOptions force;
  force.force = true;
  CHECK(pack(dir / "a.safetensors", dir / "in/a.safetensors.brv", force).first_error() == nullptr);
  stdfs::last_write_time(dir / "in/a.safetensors.brv", stdfs::last_write_time(dir / "out/a.safetensors.brv"));
  CHECK(pack(dir / "in", dir / "out", options).first_error() != nullptr);
}
