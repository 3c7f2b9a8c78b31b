// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "dsl/op.h"
#include "dsl/text.h"

using namespace brevis;
using namespace brevis::dsl;

namespace {

Program parsed(std::string_view text) {
  auto program = parse_program(text);
  REQUIRE_MESSAGE(program, (program ? "" : program.error().message()));
  return std::move(*program);
}

}  // namespace

TEST_CASE("program: nodes stand in pre-order with their widths and ends") {
  const Program program = parsed("u16 = concat(10; merge(4, 12; literal(packed), constant(5)), constant(7))");
  REQUIRE(program.nodes().size() == 5);
  CHECK(program.width() == 16);
  CHECK(program.root().children == std::vector<uint32_t>{1, 4});
  CHECK(program.root().end == 5);
  CHECK(program.root().region == -1);
  CHECK(program.nodes()[1].end == 4);
  CHECK(program.nodes()[1].region == 0);
  CHECK(program.nodes()[2].width == 4);
  CHECK(program.nodes()[3].width == 12);
  CHECK(program.nodes()[3].region == 0);
  CHECK(program.nodes()[4].region == -1);
  REQUIRE(program.regions().size() == 1);
  CHECK(program.regions()[0].root == 1);
  CHECK_FALSE(program.uses_ref());
  CHECK(parsed("u8 = concat(1; ref(0), literal(raw))").uses_ref());
}

TEST_CASE("program: the table finds operators by id and name") {
  CHECK(all_ops().size() >= 15);
  for (const OpSpec* spec : all_ops()) {
    CHECK(find_op(static_cast<uint64_t>(spec->id)) == spec);
    CHECK(find_op(spec->name) == spec);
    CHECK(&spec_of(spec->id) == spec);
    CHECK(spec->since == 1);
    CHECK((spec->child_widths != nullptr));
    CHECK((spec->child_lengths != nullptr));
    CHECK((spec->plan != nullptr) == (spec->place != Place::region));
  }
  CHECK(find_op(uint64_t{200}) == nullptr);
  CHECK(find_op(uint64_t{256}) == nullptr);  // no id is cut to a byte
  CHECK(find_op(UINT64_MAX) == nullptr);
  CHECK(find_op("") == nullptr);
  CHECK(find_op("Merge") == nullptr);
}

TEST_CASE("program: lengths of regions") {
  CHECK(region_lengths(parsed("u16 = literal(raw)"), 0).value() == std::vector<uint64_t>{0});
  CHECK(region_lengths(parsed("u16 = literal(raw)"), 77).value() == std::vector<uint64_t>{77});
  CHECK(region_lengths(parsed("u16 = constant(3)"), 77).value().empty());

  const Program parts = parsed("u8 = concat(3, 5; literal(raw), constant(1), repeat(4; literal(raw)))");
  CHECK(region_lengths(parts, 48).value() == std::vector<uint64_t>{3, 10});
  CHECK(region_lengths(parts, 8).value() == std::vector<uint64_t>{3, 0});  // the last part takes what is left
  const auto uneven = region_lengths(parts, 49);
  REQUIRE_FALSE(uneven);
  CHECK(uneven.error().kind() == Errc::corrupt);
  CHECK(uneven.error().message().find("repeat (node 3)") == 0);
  CHECK_FALSE(region_lengths(parts, 7));  // shorter than its parts
  CHECK_FALSE(region_lengths(parts, 0));
}

TEST_CASE("program: lengths that overflow are refused") {
  const Program program = parsed("u64 = literal(raw)");
  CHECK(region_lengths(program, UINT64_MAX / 8));
  CHECK_FALSE(region_lengths(program, UINT64_MAX / 8 + 1));
  CHECK_FALSE(region_lengths(program, UINT64_MAX));
  const Program ref = parsed("u64 = ref(18446744073709551608)");  // 7 bytes short of 2^64
  CHECK(region_lengths(ref, 0));
  CHECK_FALSE(region_lengths(ref, 1));
  const Program deep = parsed("u64 = repeat(4294967296; repeat(4294967296; literal(raw)))");
  CHECK_FALSE(region_lengths(deep, uint64_t{1} << 60));
  CHECK(region_lengths(deep, 0).value() == std::vector<uint64_t>{0});
}
