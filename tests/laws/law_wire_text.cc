// SPDX-License-Identifier: Apache-2.0
//
// Law: the wire and text forms of every program round-trip, each program has one spelling, and no bytes or characters
// are read as anything but a program that is written back as it was, or an error.
#include <doctest/doctest.h>

#include <map>

#include "dsl/op.h"
#include "dsl/text.h"
#include "dsl/verify.h"
#include "dsl/wire.h"
#include "support/random_program.h"

using namespace brevis;
using namespace brevis::dsl;
using test::Rng;

namespace {

ByteVector wire(const Program& program) {
  ByteVector out;
  write_program(program, out);
  return out;
}

// Bytes that came from damage: an error, or a program of exactly the bytes that were read.
bool lawful_bytes(ByteSpan bytes) {
  ByteReader in(bytes);
  const Result<Program> program = read_program(in);
  if (!program) return program.error().kind() == Errc::corrupt || program.error().kind() == Errc::unsupported;
  const ByteVector again = wire(*program);
  return std::ranges::equal(again, bytes.first(in.position()));
}

bool lawful_text(const std::string& text) {
  const Result<Expr> expr = parse_expr(text);
  if (!expr) return expr.error().kind() == Errc::invalid_argument && expr.error().message().starts_with("column ");
  const std::string printed = print(*expr);
  const Result<Expr> again = parse_expr(printed);
  return again && *again == *expr && print(*again) == printed;
}

struct Sample {
  unsigned width;
  Expr expr;
};

std::vector<Sample> samples(size_t count, bool templates, uint64_t seed) {
  std::vector<Sample> out;
  Rng rng(seed);
  test::ProgramShape shape;
  shape.bases = true;
  shape.original_bytes = uint64_t{1} << 40;
  shape.templates = templates;
  while (out.size() < count) {
    shape.max_nodes = 1 + rng.below(60);
    const unsigned width = rng.below(2) ? test::random_width(rng) : 1 + static_cast<unsigned>(rng.below(64));
    const uint64_t words = rng.below(3) == 0 ? rng.below(4) : rng.below(uint64_t{1} << 30);
    out.push_back({width, test::random_expr(rng, width, words, shape)});
  }
  return out;
}

}  // namespace

TEST_CASE("law: text round-trips both ways") {
  for (const Sample& sample : samples(3000, true, 1)) {
    const std::string text = print(sample.expr);
    const Result<Expr> parsed = parse_expr(text);
    REQUIRE_MESSAGE(parsed, text);
    CHECK(*parsed == sample.expr);
    const Program program = *build(sample.width, sample.expr, true);
    CHECK(program.expr() == sample.expr);
    const Result<Program> whole = parse_program(print(program), true);
    REQUIRE_MESSAGE(whole, print(program));
    CHECK(print(*whole) == print(program));
    CHECK(whole->width() == sample.width);
  }
}

TEST_CASE("law: wire round-trips and is unique") {
  std::map<std::string, std::string> spelled;  // text by bytes
  for (const Sample& sample : samples(3000, false, 2)) {
    const Program program = *build(sample.width, sample.expr);
    const ByteVector bytes = wire(program);
    ByteReader in(bytes);
    const Result<Program> read = read_program(in);
    REQUIRE_MESSAGE(read, print(program));
    CHECK(in.at_end());
    CHECK(read->expr() == sample.expr);
    CHECK(wire(*read) == bytes);
    // Equal bytes are equal programs, and the other way round.
    const auto [at, fresh] = spelled.emplace(std::string(bytes.begin(), bytes.end()), print(program));
    if (!fresh) CHECK(at->second == print(program));
  }
}

TEST_CASE("law: every operator and codec occurs in the samples") {
  std::vector<uint64_t> ops(256), codecs(256);
  auto count = [&](auto&& self, const Expr& expr) -> void {
    ++ops[static_cast<size_t>(expr.op)];
    if (expr.op == OpId::literal) ++codecs[expr.params[0]];
    for (const Expr& child : expr.children) self(self, child);
  };
  for (const Sample& sample : samples(3000, false, 2)) count(count, sample.expr);
  for (const OpSpec* spec : all_ops()) CHECK_MESSAGE(ops[static_cast<size_t>(spec->id)] > 10, spec->name);
  for (const codec::CodecSpec* codec : codec::all_codecs())
    CHECK_MESSAGE(codecs[static_cast<size_t>(codec->id)] > 10, codec->name);
}

TEST_CASE("law: every damaged byte and every cut of a wire form is an error or another program") {
  for (const Sample& sample : samples(60, false, 3)) {
    const ByteVector bytes = wire(*build(sample.width, sample.expr));
    for (size_t cut = 0; cut < bytes.size(); ++cut) {
      ByteReader in(ByteSpan(bytes).first(cut));
      CHECK_FALSE(read_program(in));
    }
    ByteVector damaged = bytes;
    for (size_t at = 0; at < bytes.size(); ++at) {
      for (unsigned value = 0; value < 256; ++value) {
        damaged[at] = static_cast<uint8_t>(value);
        if (!lawful_bytes(damaged)) FAIL("byte " << at << " = " << value << " of " << print(sample.expr));
      }
      damaged[at] = bytes[at];
    }
  }
}

TEST_CASE("law: random bytes and spliced wire forms are errors or programs") {
  Rng rng(4);
  std::vector<ByteVector> forms;
  for (const Sample& sample : samples(50, false, 5)) forms.push_back(wire(*build(sample.width, sample.expr)));
  for (int round = 0; round < 20000; ++round) {
    ByteVector bytes(rng.below(40));
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.below(rng.below(2) ? 16 : 256));
    CHECK(lawful_bytes(bytes));
    const ByteVector &a = forms[rng.below(forms.size())], &b = forms[rng.below(forms.size())];
    ByteVector both(a.begin(), a.begin() + static_cast<ptrdiff_t>(rng.below(a.size() + 1)));
    both.insert(both.end(), b.begin() + static_cast<ptrdiff_t>(rng.below(b.size() + 1)), b.end());
    CHECK(lawful_bytes(both));
  }
}

TEST_CASE("law: every damaged character and every cut of a text is an error or another program") {
  const std::string alphabet = " (),;0129xadefu_-z\t\n\x01\xff";
  for (const Sample& sample : samples(100, true, 6)) {
    const std::string text = print(sample.expr);
    for (size_t at = 0; at < text.size(); ++at) {
      CHECK(lawful_text(text.substr(0, at)));
      CHECK(lawful_text(text.substr(at)));
      CHECK(lawful_text(text.substr(0, at) + text.substr(at + 1)));
      for (const char c : alphabet) {
        std::string damaged = text;
        damaged[at] = c;
        if (!lawful_text(damaged)) FAIL(damaged);
        if (!lawful_text(text.substr(0, at) + c + text.substr(at))) FAIL(text << " with " << c << " at " << at);
      }
    }
  }
}

TEST_CASE("law: spaces do not matter between tokens") {
  for (const Sample& sample : samples(300, true, 7)) {
    std::string airy = "\n ";
    for (const char c : print(sample.expr)) {
      if (c == '(' || c == ')' || c == ',' || c == ';') airy += " \t";
      airy += c;
      if (c == '(' || c == ')' || c == ',' || c == ';') airy += "\r\n";
    }
    const Result<Expr> parsed = parse_expr(airy);
    REQUIRE_MESSAGE(parsed, airy);
    CHECK(*parsed == sample.expr);
  }
}
