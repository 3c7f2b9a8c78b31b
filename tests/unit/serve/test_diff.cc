// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "brevis/diff.h"
#include "support/simple_pack.h"
#include "support/temp_dir.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::test;

namespace {

std::vector<TensorSpec> tensors() {
  return {flat_tensor("a", Dtype::BF16, gaussian_words(Dtype::BF16, 4000, 1)),
          flat_tensor("b", Dtype::F32, random_bytes(400, 2)), flat_tensor("c", Dtype::U8, random_bytes(33, 3)),
          flat_tensor("e", Dtype::U8, {})};
}

const TensorChange& only(const DiffReport& report) {
  REQUIRE(report.changes.size() == 1);
  return report.changes[0];
}

}  // namespace

TEST_CASE("archives and plain files compare equal in every pairing") {
  const TempDir dir;
  const ByteVector file = safetensors_bytes(tensors(), {{"k", "v"}});
  write_file(dir / "plain", file);
  REQUIRE(simple_pack(dir / "alone.brv", parts_of(file)));
  REQUIRE(simple_pack(dir / "bundled.brv", parts_of(file, 1000)));
  for (const char* a : {"plain", "alone.brv", "bundled.brv"}) {
    for (const char* b : {"plain", "alone.brv", "bundled.brv"}) {
      const auto report = diff(dir / a, dir / b);
      REQUIRE_MESSAGE(report, (report ? "" : report.error().message()));
      CHECK(report->same());
      CHECK(report->changes.empty());
      CHECK(report->same_tensors == 4);
      CHECK_FALSE(report->metadata_differs);
    }
  }
}

TEST_CASE("what differs is named: added, removed, changed, retyped, metadata") {
  const TempDir dir;
  const auto before = tensors();
  write_file(dir / "a", safetensors_bytes(before));
  const auto compare = [&](const std::vector<TensorSpec>& after, const std::map<std::string, std::string>& meta = {}) {
    const ByteVector file = safetensors_bytes(after, meta);
    REQUIRE(simple_pack(dir / "b.brv", parts_of(file)));
    const auto report = diff(dir / "a", dir / "b.brv");
    REQUIRE(report);
    CHECK_FALSE(report->same());
    return *report;
  };
  SUBCASE("changed") {
    auto after = before;
    after[0].bytes[17] ^= 1;
    after[0].bytes[4000] ^= 1;
    const DiffReport report = compare(after);
    CHECK(only(report).kind == ChangeKind::changed);
    CHECK(only(report).name == "a");
    CHECK(only(report).before == "BF16 [4000]");
    CHECK(only(report).differing_bytes == 2);
    CHECK(report.same_tensors == 3);
  }
  SUBCASE("removed and added") {
    auto after = before;
    after[1].name = "bb";
    const DiffReport report = compare(after);
    REQUIRE(report.changes.size() == 2);
    CHECK(report.changes[0].kind == ChangeKind::removed);
    CHECK(report.changes[0].name == "b");
    CHECK(report.changes[0].after.empty());
    CHECK(report.changes[1].kind == ChangeKind::added);
    CHECK(report.changes[1].after == "F32 [100]");
  }
  SUBCASE("retyped") {
    auto after = before;
    after[1].shape = {10, 10};
    CHECK(only(compare(after)).kind == ChangeKind::retyped);
    CHECK(only(compare(after)).after == "F32 [10,10]");
    after = before;
    after[1].dtype = Dtype::I32;
    CHECK(only(compare(after)).after == "I32 [100]");
  }
  SUBCASE("metadata alone") {
    const DiffReport report = compare(before, {{"k", "v"}});
    CHECK(report.changes.empty());
    CHECK(report.metadata_differs);
  }
  SUBCASE("order alone") {
    auto after = before;
    std::swap(after[0], after[1]);
    const DiffReport report = compare(after);
    CHECK(report.changes.empty());
    CHECK(report.same_tensors == 4);
  }
}

TEST_CASE("digests settle equality between archives without decoding") {
  const TempDir dir;
  const ByteVector file = safetensors_bytes(tensors());
  REQUIRE(simple_pack(dir / "a.brv", parts_of(file)));
  ByteVector other = file;
  other.back() ^= 1;
  REQUIRE(simple_pack(dir / "b.brv", parts_of(other)));
  const auto report = diff(dir / "a.brv", dir / "b.brv");
  REQUIRE(report);
  CHECK(only(*report).name == "c");
  CHECK(only(*report).differing_bytes == 1);
}

TEST_CASE("a side that is neither archive nor safetensors is refused by name") {
  const TempDir dir;
  write_file(dir / "a", safetensors_bytes(tensors()));
  write_file(dir / "text", "<html>no</html>");
  CHECK(diff(dir / "a", dir / "text").error().kind() == Errc::invalid_argument);
  CHECK(diff(dir / "a", dir / "absent").error().kind() == Errc::not_found);
  CHECK(diff(dir / "a", dir.path()).error().kind() == Errc::invalid_argument);
}
