// SPDX-License-Identifier: Apache-2.0
#include "dsl/verify.h"

#include <doctest/doctest.h>

#include "dsl/text.h"

using namespace brevis;
using namespace brevis::dsl;

namespace {

const Expr kRaw{OpId::literal, {0}, {}};
const Expr kPacked{OpId::literal, {1}, {}};

Expr node(OpId op, std::vector<uint64_t> params, std::vector<Expr> children = {}) {
  return {op, std::move(params), std::move(children)};
}

// The gate's answer to a program: "" or kind and message.
std::string verdict(unsigned width, const Expr& expr, bool templates = false) {
  const auto program = build(width, expr, templates);
  return program ? "" : std::string(errc_name(program.error().kind())) + ": " + program.error().message();
}
std::string verdict(std::string_view text) {
  const auto program = parse_program(text);
  return program ? "" : std::string(errc_name(program.error().kind())) + ": " + program.error().message();
}
bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

Expr nested(size_t depth, OpId op, std::vector<uint64_t> params, Expr leaf) {
  for (size_t i = 1; i < depth; ++i) {
    std::vector<Expr> children;
    children.push_back(std::move(leaf));
    leaf = node(op, params, std::move(children));
  }
  return leaf;
}

}  // namespace

TEST_CASE("verify: widths") {
  CHECK(verdict(8, kRaw) == "");
  CHECK(verdict(1, kPacked) == "");
  CHECK(has(verdict(0, kPacked), "invalid_argument"));
  CHECK(has(verdict(65, kPacked), "invalid_argument"));
  CHECK(has(verdict(1u << 31, kPacked), "invalid_argument"));
}

TEST_CASE("verify: unknown operators, forms and codecs are unsupported") {
  CHECK(has(verdict(8, node(static_cast<OpId>(250), {})), "unsupported: operator 250 (node 0)"));
  CHECK(has(verdict(8, node(OpId::literal, {99})), "unsupported: literal (node 0)"));
  CHECK(has(verdict(8, node(OpId::literal, {UINT64_MAX})), "unsupported"));
  CHECK(has(verdict(8, node(OpId::map, {99, 0}, {kRaw})), "unsupported: map (node 0)"));
  CHECK(has(verdict(8, node(OpId::map, {UINT64_MAX, 0}, {kRaw})), "unsupported"));
}

TEST_CASE("verify: depth") {
  CHECK(verdict(8, nested(kMaxDepth, OpId::map, {0, 1}, kRaw)) == "");
  CHECK(has(verdict(8, nested(kMaxDepth + 1, OpId::map, {0, 1}, kRaw)), "deeper than 32"));
  CHECK(has(verdict(8, nested(5000, OpId::map, {0, 1}, kRaw)), "deeper than 32"));
}

TEST_CASE("verify: number of nodes") {
  // 16 interleaves of 255 in one are 4,097 nodes; one less is 4,096.
  const auto wide = [](size_t last) {
    Expr root = node(OpId::concat, {}, {});
    for (size_t i = 0; i < 16; ++i) {
      root.children.push_back(node(OpId::concat, std::vector<uint64_t>(i == 15 ? last - 1 : 254, 1),
                                   std::vector<Expr>(i == 15 ? last : 255, node(OpId::constant, {0}))));
      if (i > 0) root.params.push_back(1000);
    }
    return root;
  };
  CHECK(verdict(8, wide(254)) == "");
  CHECK(has(verdict(8, wide(255)), "more than 4096"));
  CHECK(has(verdict(8, node(OpId::interleave, {}, std::vector<Expr>(5000, kRaw))), "children"));
}

TEST_CASE("verify: number of parameters") {
  const auto parts = [](size_t k) {
    return node(OpId::concat, std::vector<uint64_t>(k, 1), std::vector<Expr>(k + 1, node(OpId::constant, {0})));
  };
  CHECK(verdict(8, parts(kMaxParams)) == "");
  CHECK(has(verdict(8, parts(kMaxParams + 1)), "at most 256"));
}

TEST_CASE("verify: the skeleton stays above the regions") {
  CHECK(verdict("u8 = repeat(2; concat(1; literal(raw), map(xor, 1; literal(raw))))") == "");
  CHECK(has(verdict("u8 = map(xor, 1; concat(1; literal(raw), literal(raw)))"), "concat (node 1): may stand"));
  CHECK(has(verdict("u8 = map(xor, 1; repeat(2; literal(raw)))"), "repeat (node 1): may stand"));
  CHECK(has(verdict("u8 = map(xor, 1; ref(0))"), "ref (node 1): may stand"));
  CHECK(verdict("u8 = merge(4, 4; constant(3), ramp(1, 2))") == "");
  CHECK(verdict("u8 = ramp(1, 2)") == "");
}

TEST_CASE("verify: templates") {
  const Expr open = node(OpId::literal, {});
  CHECK(has(verdict(8, open), "names no codec"));
  CHECK(verdict(8, open, true) == "");
  CHECK(verdict(8, kRaw, true) == "");
  CHECK(build(8, open, true)->slots().empty());
}

TEST_CASE("verify: parameters of the skeleton") {
  CHECK(has(verdict("u8 = concat(literal(raw), literal(raw))"), "1 parameters, not 0"));
  CHECK(has(verdict("u8 = concat(1)"), "two children"));
  CHECK(has(verdict("u8 = concat(0; literal(raw), literal(raw))"), "no words"));
  CHECK(has(verdict("u8 = concat(1, 2; literal(raw), literal(raw))"), "1 parameters, not 2"));
  CHECK(has(verdict("u8 = concat(18446744073709551615, 1; literal(raw), literal(raw), literal(raw))"), "64 bits"));
  CHECK(has(verdict("u8 = repeat(1; literal(raw))"), "at least 2"));
  CHECK(has(verdict("u8 = repeat(2)"), "one child"));
  CHECK(has(verdict("u8 = repeat(2, 2; literal(raw))"), "one parameter"));
  CHECK(has(verdict("u12 = ref(0)"), "not whole bytes"));
  CHECK(has(verdict("u8 = ref"), "byte offset"));
  CHECK(has(verdict("u8 = ref(0; literal(raw))"), "no children"));
  CHECK(verdict("u24 = ref(0)") == "");
  CHECK(verdict("u8 = constant(255)") == "");
  CHECK(has(verdict("u8 = constant(256)"), "more than 8 bits"));
  CHECK(has(verdict("u8 = constant"), "one parameter"));
  CHECK(has(verdict("u8 = constant(1; literal(raw))"), "no children"));
  CHECK(verdict("u64 = constant(18446744073709551615)") == "");
  CHECK(verdict("u8 = ramp(255, 255)") == "");
  CHECK(has(verdict("u8 = ramp(0, 256)"), "more than 8 bits"));
  CHECK(has(verdict("u8 = ramp(256, 0)"), "more than 8 bits"));
  CHECK(has(verdict("u8 = ramp(1)"), "two parameters"));
}

TEST_CASE("verify: slots and regions are numbered in program order") {
  const auto program = parse_program(
      "u16 = concat(5; merge(1, 10, 5; literal(raw), rank(63; literal(alias), literal(packed), literal(packed)), "
      "literal(packed)), palette(9; literal(rans)))");
  REQUIRE_FALSE(program);  // raw wants whole bytes
  const auto good = parse_program(
      "u16 = concat(5; merge(1, 10, 5; literal(packed), rank(63; literal(alias), literal(packed), literal(packed)), "
      "literal(packed)), palette(9; literal(rans)))");
  REQUIRE_MESSAGE(good, good.error().message());
  REQUIRE(good->regions().size() == 2);
  CHECK(good->regions()[0].root == 1);
  CHECK(good->regions()[1].root == 8);
  REQUIRE(good->slots().size() == 4);
  CHECK(good->slots()[0].node == 3);
  CHECK_FALSE(good->slots()[0].codec);  // rank's word list
  CHECK(good->slots()[1].node == 4);
  CHECK(good->slots()[1].codec == codec::CodecId::alias);
  CHECK(good->slots()[2].node == 8);
  CHECK_FALSE(good->slots()[2].codec);
  CHECK(good->slots()[3].codec == codec::CodecId::rans);
  for (size_t i = 0; i < good->slots().size(); ++i)
    CHECK(good->nodes()[good->slots()[i].node].slot == static_cast<int32_t>(i));
  CHECK(good->nodes()[2].slot == -1);
}

TEST_CASE("verify: periods") {
  const auto period = [](std::string_view text) { return parse_program(text).value().regions().at(0).period; };
  CHECK(period("u8 = literal(raw)") == 1);
  CHECK(period("u8 = interleave(literal(raw), literal(raw), literal(raw))") == 3);
  CHECK(period("u8 = interleave(literal(raw), scan(add, 4; literal(raw), literal(raw)))") == 4);
  CHECK(period("u8 = interleave(literal(raw), scan(add, 9; literal(raw), literal(raw)))") == 18);
  // A period that no frame can hold is left out: 2^20 words of a byte are the most.
  CHECK(period("u8 = scan(add, 1048576; literal(raw), literal(raw))") == 1048576);
  CHECK(period("u64 = scan(add, 1048576; literal(raw), literal(raw))") == 1);
  CHECK(period("u8 = scan(add, 3; literal(raw), scan(add, 1048576; literal(raw), literal(raw)))") == 3);
}

TEST_CASE("verify: the memory of one frame is bounded") {
  // A stream of u8 takes 1 MiB of a full frame, so 64 nodes of equal length fit and 65 do not.
  const auto fields = [](size_t maps) {
    Expr root = node(OpId::merge, {4, 4}, {});
    for (size_t side = 0; side < 2; ++side)
      root.children.push_back(nested(side == 0 ? 31 : maps, OpId::map, {0, 1}, kPacked));
    return root;
  };
  CHECK(verdict(8, fields(31)) == "");
  Expr three = node(OpId::merge, {2, 3, 3}, {});
  for (int i = 0; i < 3; ++i) three.children.push_back(nested(21, OpId::map, {0, 1}, kPacked));
  CHECK(verdict(8, three) == "");
  three.children[2] = nested(22, OpId::map, {0, 1}, kPacked);
  CHECK(has(verdict(8, three), "67108864 bytes of memory"));
  // Children of an interleave share the parent's words.
  CHECK(verdict(8, node(OpId::interleave, {}, std::vector<Expr>(4000, kRaw))) == "");
}
