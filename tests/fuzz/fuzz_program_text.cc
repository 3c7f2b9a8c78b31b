// SPDX-License-Identifier: Apache-2.0
//
// Fuzz: the text form of a program. What parses prints and parses as the same; what does not has its column.
#include "dsl/text.h"
#include "dsl/wire.h"
#include "fuzz/fuzz.h"

using namespace brevis;
using namespace brevis::dsl;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const Result<Expr> expr = parse_expr(text)) {
    const std::string printed = print(*expr);
    const Result<Expr> again = parse_expr(printed);
    BREVIS_FUZZ_CHECK(again && *again == *expr && print(*again) == printed);
  } else {
    BREVIS_FUZZ_CHECK(expr.error().kind() == Errc::invalid_argument);
    BREVIS_FUZZ_CHECK(expr.error().message().starts_with("column "));
    BREVIS_FUZZ_CHECK(expr.error().message().size() < 300);
  }
  if (const Result<Program> program = parse_program(text)) {
    ByteVector bytes;
    write_program(*program, bytes);
    ByteReader in(bytes);
    const Result<Program> read = read_program(in);
    BREVIS_FUZZ_CHECK(read && in.at_end() && read->expr() == program->expr());
  }
  return 0;
}
