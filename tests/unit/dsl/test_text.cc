// SPDX-License-Identifier: Apache-2.0
#include "dsl/text.h"

#include <doctest/doctest.h>

#include "dsl/verify.h"

using namespace brevis;
using namespace brevis::dsl;

namespace {

// The printed form of what was parsed, or the message.
std::string expr_of(std::string_view text) {
  const auto expr = parse_expr(text);
  return expr ? print(*expr) : expr.error().message();
}
std::string program_of(std::string_view text, bool templates = false) {
  const auto program = parse_program(text, templates);
  return program ? print(*program) : program.error().message();
}

}  // namespace

TEST_CASE("text: prints what it parsed") {
  for (const char* text : {
           "u16 = merge(1, 10, 5; literal(packed), rank(63; literal(alias), literal(packed), literal(packed)), "
           "literal(packed))",
           "u8 = literal(zstd)",
           "u64 = ramp(0, 18446744073709551615)",
           "u32 = cast(bf16_f32; literal(raw))",
           "u8 = interleave(literal(raw), map(xor, 5; literal(raw)))",
           "u8 = runs(literal(raw), literal(packed))",
           "u16 = scan(add, 1; literal(raw), literal(raw))",
           "u16 = concat(3, 4; constant(0), repeat(7; ref(1024)), literal(raw))",
       })
    CHECK(program_of(text) == text);
  CHECK(program_of("u16 = merge(1, 10, 5; literal, literal, literal)", true) ==
        "u16 = merge(1, 10, 5; literal, literal, literal)");
}

TEST_CASE("text: other spellings of the same") {
  CHECK(program_of("  u8=constant( 0xfF )\n") == "u8 = constant(255)");
  CHECK(program_of("u\t8 = constant(0x0)") == "u8 = constant(0)");
  CHECK(expr_of("runs(\n  literal ,literal\n)") == "runs(literal, literal)");
  CHECK(expr_of("constant(0xffffffffffffffff)") == "constant(18446744073709551615)");
}

TEST_CASE("text: errors name the column and what was expected") {
  CHECK(expr_of("") == "column 1: expected an operator, found the end");
  CHECK(expr_of("  ,") == "column 3: expected an operator, found ','");
  CHECK(expr_of("blur(1)") == "column 1: expected an operator, 'blur' is none");
  CHECK(expr_of("merge(1, 7; literal(raw), blur)") == "column 27: expected an operator, 'blur' is none");
  CHECK(expr_of("merge(1, 7; literal(raw) literal)") ==
        "column 26: expected ',' or ')' after an operand of merge, found 'l'");
  CHECK(expr_of("merge(1 7; literal)") == "column 9: expected ',', ';' or ')' after a parameter of merge, found '7'");
  CHECK(expr_of("merge(1, literal)") == "column 10: expected a number, found 'l'");
  CHECK(expr_of("merge()") == "column 7: expected a number, found ')'");
  CHECK(expr_of("merge(1;)") == "column 9: expected an operator, found ')'");
  CHECK(expr_of("merge(") == "column 7: expected a number, found the end");
  CHECK(expr_of("merge(1, 7; literal") == "column 20: expected ',' or ')' after an operand of merge, found the end");
  CHECK(expr_of("literal(raw) x") == "column 14: expected the end of the program, found 'x'");
  CHECK(expr_of("constant(01)") == "column 10: a number starts with a superfluous 0");
  CHECK(expr_of("constant(-1)") == "column 10: expected a number, found '-'");
  CHECK(expr_of("constant(1.5)") == "column 11: expected ',', ';' or ')' after a parameter of constant, found '.'");
  CHECK(expr_of("constant(12a)") == "column 12: expected a number, found 'a'");
  CHECK(expr_of("constant(0x)") == "column 12: expected a number, found ')'");
  CHECK(expr_of("constant(18446744073709551616)") == "column 10: the number has more than 64 bits");
  CHECK(expr_of("constant(0x10000000000000000)") == "column 10: the number has more than 64 bits");
  CHECK(expr_of("literal(lzma)").starts_with("column 9: expected one of raw, packed, alias"));
  CHECK(expr_of("literal(lzma)").ends_with("not 'lzma'"));
  CHECK(expr_of("map(3; literal)").starts_with("column 5: expected one of xor, add"));
  CHECK(expr_of("\xc3\xa4") == "column 1: expected an operator, found byte 195");
  CHECK(expr_of(std::string(100, 'x')).size() < 100);

  CHECK(program_of("16 = literal(raw)") == "column 1: expected a type such as u16, found '1'");
  CHECK(program_of("u = literal(raw)") == "column 3: expected a number, found '='");
  CHECK(program_of("u65 = literal(raw)") == "column 1: expected a type from u1 to u64");
  CHECK(program_of("u0 = literal(raw)") == "column 1: expected a type from u1 to u64");
  CHECK(program_of("u8 literal(raw)") == "column 4: expected '=', found 'l'");
  CHECK(program_of("u8 = ") == "column 6: expected an operator, found the end");
  CHECK(program_of("u8 = constant(256)") == "constant (node 0): 256 has more than 8 bits");
}

TEST_CASE("text: deep, wide and long texts are refused at their limit") {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "repeat(2; ";
  CHECK(expr_of(deep) == "column 321: the program is deeper than 32 operators");
  std::string wide = "interleave(literal";
  for (int i = 0; i < 5000; ++i) wide += ", literal";
  CHECK(expr_of(wide).find("more than 4096 operators") != std::string::npos);
  std::string lengths = "concat(1";
  for (int i = 0; i < 5000; ++i) lengths += ", 1";
  CHECK(expr_of(lengths).find("more than 256 parameters") != std::string::npos);
}

TEST_CASE("text: expressions that no gate passed print without harm") {
  CHECK(print(Expr{static_cast<OpId>(77), {1}, {}}) == "op77(1)");
  CHECK(print(Expr{OpId::map, {99}, {}}) == "map(99)");
  CHECK(print(Expr{OpId::literal, {99}, {}}) == "literal(99)");
}
