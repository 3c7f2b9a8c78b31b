// SPDX-License-Identifier: Apache-2.0
#include "dsl/plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "dsl/text.h"

using namespace brevis;
using namespace brevis::dsl;

namespace {

// A plan as text, one word a piece: f REGION.FRAME+SOURCE:LENGTH, = VALUE/STEP+SOURCE:LENGTH, r, c.
std::string planned(std::string_view text, uint64_t words, std::vector<uint64_t> frame_words, Range range) {
  std::vector<Piece> pieces;
  const Status status = plan(parse_program(text).value(), words, frame_words, range, pieces);
  if (!status) return std::string(errc_name(status.error().kind()));
  std::ostringstream out;
  uint64_t at = 0;
  for (const Piece& piece : pieces) {
    CHECK(piece.at == at);
    at += piece.length;
    if (piece.at > 0) out << ' ';
    switch (piece.kind) {
      case Piece::Kind::frame: out << 'f' << piece.region << '.' << piece.frame; break;
      case Piece::Kind::fill: out << '=' << piece.value << '/' << piece.step; break;
      case Piece::Kind::ref: out << 'r'; break;
      case Piece::Kind::base: out << 'b'; break;
      case Piece::Kind::copy: out << 'c'; break;
    }
    out << '+' << piece.source << ':' << piece.length;
  }
  CHECK(at == range.length);
  return out.str();
}

}  // namespace

TEST_CASE("plan: frames of one region") {
  const char* raw = "u16 = literal(raw)";
  CHECK(planned(raw, 100, {30}, {0, 200}) == "f0.0+0:60 f0.1+0:60 f0.2+0:60 f0.3+0:20");
  CHECK(planned(raw, 100, {30}, {59, 2}) == "f0.0+59:1 f0.1+0:1");
  CHECK(planned(raw, 100, {30}, {61, 3}) == "f0.1+1:3");
  CHECK(planned(raw, 100, {30}, {199, 1}) == "f0.3+19:1");
  CHECK(planned(raw, 100, {30}, {200, 0}) == "");
  CHECK(planned(raw, 100, {30}, {7, 0}) == "");
  CHECK(planned(raw, 0, {30}, {0, 0}) == "");
}

TEST_CASE("plan: ranges outside the stream") {
  const char* raw = "u16 = literal(raw)";
  CHECK(planned(raw, 100, {30}, {200, 1}) == "invalid_argument");
  CHECK(planned(raw, 100, {30}, {201, 0}) == "invalid_argument");
  CHECK(planned(raw, 100, {30}, {1, UINT64_MAX}) == "invalid_argument");
  CHECK(planned(raw, UINT64_MAX, {30}, {0, 1}) == "invalid_argument");
  CHECK(planned(raw, 100, {0}, {0, 1}) == "invalid_argument");
  CHECK(planned(raw, 100, {}, {0, 1}) == "invalid_argument");
  CHECK(planned("u12 = literal(packed)", 100, {30}, {0, 1}) == "invalid_argument");
  CHECK(planned("u16 = concat(101; literal(raw), constant(0))", 100, {30}, {0, 1}) == "corrupt");
  CHECK(planned("u16 = repeat(3; literal(raw))", 100, {30}, {0, 1}) == "corrupt");
}

TEST_CASE("plan: skeleton") {
  const char* text = "u16 = concat(2, 3; ref(1000), constant(258), ramp(5, 7))";
  CHECK(planned(text, 9, {}, {0, 18}) == "r+1000:4 =258/0+0:6 =5/7+0:8");
  CHECK(planned(text, 9, {}, {3, 3}) == "r+1003:1 =258/0+0:2");
  CHECK(planned(text, 9, {}, {5, 1}) == "=258/0+1:1");
  CHECK(planned(text, 9, {}, {13, 2}) == "=5/7+3:2");
  CHECK(planned(text, 5, {}, {9, 1}) == "=258/0+5:1");  // the last part may be empty
}

TEST_CASE("plan: a repeat is planned once and copied") {
  const char* text = "u16 = repeat(1000; literal(raw))";
  CHECK(planned(text, 3000, {10}, {0, 6000}) == "f0.0+0:6 c+6:5994");
  CHECK(planned(text, 3000, {10}, {4, 4}) == "f0.0+4:2 f0.0+0:2");
  CHECK(planned(text, 3000, {10}, {4, 100}) == "f0.0+4:2 f0.0+0:4 c+6:94");
  CHECK(planned(text, 3000, {2}, {0, 60}) == "f0.0+0:4 f0.1+0:2 c+6:54");
  // The front of the first word is not in the output, so the copy cannot start with it.
  CHECK(planned(text, 3000, {10}, {1, 20}) == "f0.0+1:5 f0.0+0:2 c+6:13");
  CHECK(planned(text, 3000, {10}, {1, 6}) == "f0.0+1:5 f0.0+0:1");
  CHECK(planned(text, 3000, {10}, {1, 7}) == "f0.0+1:5 f0.0+0:2");
  CHECK(planned(text, 3000, {10}, {5, 2}) == "f0.0+5:1 f0.0+0:1");
}

TEST_CASE("plan: pieces stay few however short the period and long the range") {
  const uint64_t words = uint64_t{1} << 40;
  CHECK(planned("u8 = repeat(1099511627776; literal(raw))", words, {10}, {0, words}) == "f0.0+0:1 c+1:1099511627775");
  std::string nest = "u16 = ";
  for (int i = 0; i < 15; ++i) nest += "repeat(2; concat(1; constant(3), ";
  nest += "literal(raw)";
  for (int i = 0; i < 15; ++i) nest += "))";
  // Lengths from inside out: n becomes 2 (n + 1).
  uint64_t n = 5;
  for (int i = 0; i < 15; ++i) n = 2 * (n + 1);
  std::vector<Piece> pieces;
  const Program program = parse_program(nest).value();
  for (uint64_t offset : {uint64_t{0}, uint64_t{1}, n / 3, n - 3}) {
    REQUIRE(plan(program, n, std::vector<uint64_t>{4}, {offset, n * 2 - offset}, pieces));
    CHECK(pieces.size() < 8 * program.nodes().size());
  }
}

TEST_CASE("plan: fills of every width, step and alignment") {
  for (const unsigned width : {8, 16, 24, 32, 40, 48, 56, 64})
    for (const uint64_t step : {uint64_t{0}, uint64_t{1}, uint64_t{0x1234567890abcdef}, UINT64_MAX})
      for (const uint64_t source : {0, 1, 2, 3, 7, 8, 9, 1001}) {
        const uint64_t value = 0xfedcba9876543210;
        ByteVector stream;
        for (uint64_t i = 0; stream.size() < 1300; ++i)
          for (unsigned b = 0; b < width / 8; ++b) stream.push_back(static_cast<uint8_t>((value + i * step) >> 8 * b));
        for (const size_t length : {1, 2, 3, 5, 8, 15, 64, 99, 250}) {
          Piece piece{Piece::Kind::fill, 0, length, source};
          piece.value = value;
          piece.step = step;
          piece.width = static_cast<uint8_t>(width);
          ByteVector out(length + 2, 0xaa);
          run_fill(piece, MutByteSpan(out).subspan(1, length));
          CHECK(std::ranges::equal(ByteSpan(out).subspan(1, length), ByteSpan(stream).subspan(source, length)));
          CHECK(out.front() == 0xaa);
          CHECK(out.back() == 0xaa);
        }
      }
  // Far into a stream, where byte positions have 60 bits.
  Piece far{Piece::Kind::fill, 0, 4, (uint64_t{1} << 60) + 2};
  far.value = 1;
  far.step = 3;
  far.width = 32;
  ByteVector out(4);
  run_fill(far, out);
  const uint32_t word = static_cast<uint32_t>(1 + (uint64_t{1} << 58) * 3), next = word + 3;
  CHECK(out == ByteVector{static_cast<uint8_t>(word >> 16), static_cast<uint8_t>(word >> 24),
                          static_cast<uint8_t>(next), static_cast<uint8_t>(next >> 8)});
}

TEST_CASE("plan: copies of every period") {
  for (size_t period = 1; period < 40; ++period)
    for (const size_t before : {size_t{0}, size_t{5}})
      for (const size_t length : {1, 2, 7, 39, 40, 41, 1000, 40000}) {
        ByteVector out(before + period + length + 1, 0xaa);
        for (size_t i = 0; i < period; ++i) out[before + i] = static_cast<uint8_t>(i + 1);
        run_copy({Piece::Kind::copy, before + period, static_cast<uint64_t>(length), period}, out);
        bool right = true;
        for (size_t i = 0; i < period + static_cast<size_t>(length); ++i) right &= out[before + i] == i % period + 1;
        CHECK(right);
        CHECK(out.back() == 0xaa);
      }
}
