// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "pack/records.h"
#include "support/safetensors_writer.h"
#include "support/weights.h"

using namespace brevis;

namespace {

std::vector<pack::RecordPlan> cut(const ByteVector& file) {
  return pack::cut_into_records(examine_prefix(file, file.size()), file.size());
}

// Every byte of the file in exactly one member.
void check_cover(const std::vector<pack::RecordPlan>& plans, uint64_t size) {
  std::vector<Range> spans;
  for (const auto& plan : plans) {
    CHECK(plan.bytes() % (plan.width() / 8) == 0);
    for (const auto& member : plan.members) spans.push_back(member.span);
  }
  std::sort(spans.begin(), spans.end(), [](const Range& a, const Range& b) { return a.offset < b.offset; });
  uint64_t at = 0;
  for (const Range& span : spans) {
    CHECK(span.offset == at);
    CHECK(span.length > 0);
    at = span.end();
  }
  CHECK(at == size);
}

}  // namespace

TEST_CASE("small tensors of one dtype and role share a stream, large ones stand alone") {
  std::vector<test::TensorSpec> tensors;
  for (int layer = 0; layer < 40; ++layer) {
    const std::string name = "layers." + std::to_string(layer);
    tensors.push_back(test::flat_tensor(name + ".weight", Dtype::BF16, test::random_bytes(1000, 1)));
    tensors.push_back(test::flat_tensor(name + ".bias", Dtype::BF16, test::random_bytes(400, 2)));
  }
  tensors.push_back(test::flat_tensor("head.weight", Dtype::BF16, test::random_bytes(40000, 3)));
  const ByteVector file = test::safetensors_bytes(tensors);
  const auto plans = cut(file);
  check_cover(plans, file.size());
  REQUIRE(plans.size() == 4);
  CHECK(plans[0].kind == archive::SegmentKind::prefix);
  CHECK(plans[1].name == "head.weight");
  CHECK(plans[2].members.size() == 40);
  CHECK(plans[2].bundle);
  CHECK(plans[3].members.size() == 40);
}

TEST_CASE("files that are no safetensors are opaque runs that cover every byte") {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{65535}, size_t{65539}, (size_t{8} << 20) + 3}) {
    const ByteVector file = test::random_bytes(size, 7);
    check_cover(cut(file), file.size());
  }
}

TEST_CASE("F12: bytes after the last tensor are an opaque run") {
  ByteVector file = test::safetensors_bytes({test::flat_tensor("a", Dtype::F32, test::random_bytes(64, 1))});
  file.insert(file.end(), {9, 7, 0x2f, 0});
  const auto plans = cut(file);
  check_cover(plans, file.size());
  CHECK(plans[1].kind == archive::SegmentKind::opaque);
  CHECK(plans[1].bytes() == 4);
}
