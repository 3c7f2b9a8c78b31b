// SPDX-License-Identifier: Apache-2.0
//
// The readable form of a program, both ways, for inspect, --program, tests and documents:
//
//   u16 = merge(1, 10, 5; literal(raw), rank(63; literal(alias), literal(packed), literal(packed)), literal(packed))
//
// NAME(params; children). Numbers are decimal (0x accepted); a first parameter that is a keyword is written as its word
// (map(xor, 5; ...), scan(add, 1; ...), cast(bf16_f32; ...), literal(alias)). `literal` alone is a template. Canonical:
// parse(print(p)) == p, and print gives one spelling with single spaces.
//
// Errors: parse gives invalid_argument with the column and what was expected. Threads: pure functions.
#pragma once

#include "dsl/program.h"

namespace brevis::dsl {

std::string print(const Program& program);
// Without the "u16 = " in front.
std::string print(const Expr& expr);

// "uW = EXPR". `templates` as in build().
Result<Program> parse_program(std::string_view text, bool templates = false);
// "EXPR" alone.
Result<Expr> parse_expr(std::string_view text);

}  // namespace brevis::dsl
