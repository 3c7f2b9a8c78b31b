// SPDX-License-Identifier: Apache-2.0
#include "dsl/wire.h"

#include <doctest/doctest.h>

#include "dsl/text.h"
#include "dsl/verify.h"

using namespace brevis;
using namespace brevis::dsl;

namespace {

ByteVector written(std::string_view text) {
  ByteVector out;
  write_program(parse_program(text).value(), out);
  return out;
}

std::string verdict(const ByteVector& bytes) {
  ByteReader in(bytes);
  const auto program = read_program(in);
  return program ? print(*program) : std::string(errc_name(program.error().kind())) + ": " + program.error().message();
}
bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("wire: bytes as docs/format-programs.md spells them") {
  CHECK(written("u8 = literal(raw)") == ByteVector{8, 0, 1, 0, 0});
  CHECK(written("u16 = constant(300)") == ByteVector{16, 1, 1, 0xac, 0x02, 0});
  CHECK(written("u16 = merge(8, 8; literal(raw), ramp(1, 2))") ==
        ByteVector{16, 6, 2, 8, 8, 2, 0, 1, 0, 0, 2, 2, 1, 2, 0});
  CHECK(written("u8 = concat(7; literal(raw), repeat(2; ref(9)))") ==
        ByteVector{8, 3, 1, 7, 2, 0, 1, 0, 0, 4, 1, 2, 1, 5, 1, 9, 0});
}

TEST_CASE("wire: reads one program off the front") {
  ByteVector bytes = written("u8 = literal(raw)");
  bytes.push_back(99);
  ByteReader in(bytes);
  REQUIRE(read_program(in));
  CHECK(in.remaining() == 1);
}

TEST_CASE("wire: what is not canonical or breaks a rule is corrupt") {
  CHECK(has(verdict({}), "corrupt"));
  CHECK(has(verdict({8}), "corrupt"));
  CHECK(has(verdict({0, 0, 1, 0, 0}), "corrupt"));              // words of 0 bits
  CHECK(has(verdict({65, 0, 1, 0, 0}), "corrupt"));             // words of 65 bits
  CHECK(has(verdict({8, 0x80, 0, 1, 0, 0}), "corrupt"));        // operator 0 in two bytes
  CHECK(has(verdict({8, 0, 0x81, 0, 0, 0}), "corrupt"));        // count 1 in two bytes
  CHECK(has(verdict({8, 0, 0, 0}), "corrupt"));                 // a template
  CHECK(has(verdict({8, 0, 1, 0, 1, 0, 1, 0, 0}), "corrupt"));  // a literal with a child
  CHECK(has(verdict({8, 1, 1, 0x80, 0x02, 0}), "corrupt"));     // constant(256) of 8 bits
}

TEST_CASE("wire: unknown ids are unsupported") {
  CHECK(has(verdict({8, 99, 0, 0}), "unsupported"));
  CHECK(has(verdict({8, 0x80, 0x02, 1, 0, 0}), "unsupported"));         // 256 is not 0
  CHECK(has(verdict({8, 0, 1, 99, 0}), "unsupported"));                 // a codec
  CHECK(has(verdict({8, 9, 2, 99, 0, 1, 0, 1, 0, 0}), "unsupported"));  // a form of map
}

TEST_CASE("wire: huge counts and deep nests are refused before they cost anything") {
  const ByteVector huge = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
  ByteVector params = {8, 3};
  params.insert(params.end(), huge.begin(), huge.end());
  CHECK(has(verdict(params), "number of parameters"));
  ByteVector children = {8, 12, 0};
  children.insert(children.end(), huge.begin(), huge.end());
  CHECK(has(verdict(children), "number of children"));

  ByteVector deep = {8};
  for (int i = 0; i < 100000; ++i) deep.insert(deep.end(), {4, 1, 2, 1});  // repeat(2; repeat(2; ...
  CHECK(has(verdict(deep), "deeper than 32"));

  // 17 concats of 256 children: more nodes than there may be, with honest counts.
  ByteVector wide = {8, 12, 0, 17};
  for (int i = 0; i < 17; ++i) {
    wide.insert(wide.end(), {12, 0, 0x80, 0x02});
    for (int k = 0; k < 256; ++k) wide.insert(wide.end(), {0, 1, 0, 0});
  }
  CHECK(has(verdict(wide), "more than 4096 nodes"));
}
