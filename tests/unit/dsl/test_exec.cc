// SPDX-License-Identifier: Apache-2.0
#include "dsl/exec.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "dsl/op.h"
#include "dsl/verify.h"
#include "support/bound.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::dsl;
using test::must;
using test::words_of;

namespace {

// What `op(params; P..)` makes of children given as words, without any codec.
std::vector<uint64_t> run_op(const std::string& text, unsigned width, std::vector<bits::OwnedWords> children,
                             size_t count, const WordList* list = nullptr) {
  const auto program = test::program_of(test::typed(width, text));
  const Node& node = program->root();
  std::vector<bits::ConstWords> in;
  for (const auto& child : children) in.push_back(child.view());
  bits::OwnedWords out(width, count);
  must(spec_of(node.op).run({node, list, 0, {}}, in, out.words()));
  std::vector<uint64_t> words;
  for (size_t i = 0; i < count; ++i) words.push_back(out.view().at(i));
  return words;
}

uint64_t map_word(const std::string& f, uint64_t arg, unsigned width, uint64_t word) {
  return run_op(
      std::string("map(").append(f).append(", ").append(std::to_string(arg)).append("; literal(packed))"), width,
      [&] {
        std::vector<bits::OwnedWords> children;
        children.push_back(words_of({word}, width));
        return children;
      }(),
      1)[0];
}

struct Format {
  unsigned exponent, fraction;
  bool finite = false;
};

// The number a float word stands for, by its definition; the sign apart, since -0 and NaNs have one too.
double value_of(uint64_t word, Format f) {
  const uint64_t e = word >> f.fraction & bits::low_mask(f.exponent), m = word & bits::low_mask(f.fraction);
  const int bias = static_cast<int>(bits::low_mask(f.exponent - 1));
  if (e == bits::low_mask(f.exponent) && (!f.finite || m == bits::low_mask(f.fraction))) return m == 0 ? HUGE_VAL : NAN;
  if (e == 0) return std::ldexp(static_cast<double>(m), 1 - bias - static_cast<int>(f.fraction));
  return std::ldexp(static_cast<double>(m | uint64_t{1} << f.fraction),
                    static_cast<int>(e) - bias - static_cast<int>(f.fraction));
}

struct CastCase {
  const char* name;
  Format narrow, wide;
};
constexpr CastCase kCasts[] = {
    {"f16_f32", {5, 10}, {8, 23}},    {"bf16_f32", {8, 7}, {8, 23}},
    {"f32_f64", {8, 23}, {11, 52}},   {"f8_e4m3_f16", {4, 3, true}, {5, 10}},
    {"f8_e5m2_f16", {5, 2}, {5, 10}}, {"f8_e4m3_bf16", {4, 3, true}, {8, 7}},
    {"f8_e5m2_bf16", {5, 2}, {8, 7}}, {"f8_e4m3_f32", {4, 3, true}, {8, 23}},
    {"f8_e5m2_f32", {5, 2}, {8, 23}}, {"f16_f64", {5, 10}, {11, 52}},
    {"bf16_f64", {8, 7}, {11, 52}},
};

std::shared_ptr<const BoundProgram> bind_plain(const std::string& text) {
  return test::bind_stored(test::program_of(text), {});
}

Errc refusal(const BoundProgram& bound, ByteSpan stored, size_t words) {
  const auto result = test::decode(bound, stored, words);
  REQUIRE_FALSE(result.has_value());
  return result.error().kind();
}

}  // namespace

TEST_CASE("cast gives the same number, sign and NaN for every narrow word, and back") {
  for (const CastCase& c : kCasts) {
    CAPTURE(c.name);
    const unsigned narrow = 1 + c.narrow.exponent + c.narrow.fraction, wide = 1 + c.wide.exponent + c.wide.fraction;
    const auto program =
        test::program_of(test::typed(wide, std::string("cast(").append(c.name).append("; literal(raw))")));
    const Node& node = program->root();
    const OpSpec& spec = spec_of(node.op);
    // All words of up to 16 bits; of 32 bits, all exponents with fractions of few ones, of few zeros, and random ones.
    std::vector<uint64_t> words;
    if (narrow <= 16) {
      for (uint64_t word = 0; word < uint64_t{1} << narrow; ++word) words.push_back(word);
    } else {
      test::Rng rng(7);
      for (uint64_t top = 0; top < 512; ++top)
        for (unsigned i = 0; i < 24; ++i)
          for (const uint64_t low : {uint64_t{1} << i, bits::low_mask(i), rng.next() >> (41 + i % 23)})
            words.push_back((top << 23) + (low & 0x7fffff));
    }
    bits::OwnedWords in(narrow, words.size()), out(wide, words.size());
    for (size_t i = 0; i < words.size(); ++i) in.words().set(i, words[i]);
    const bits::ConstWords view = in.view();
    must(spec.run({node, nullptr, 0, {}}, {&view, 1}, out.words()));
    size_t wrong = 0;
    for (size_t i = 0; i < words.size(); ++i) {
      const uint64_t word = out.view().at(i);
      const double a = value_of(words[i], c.narrow), b = value_of(word, c.wide);
      wrong += !(a == b || (std::isnan(a) && std::isnan(b))) || word >> (wide - 1) != words[i] >> (narrow - 1);
    }
    CHECK(wrong == 0);
    std::vector<bits::OwnedWords> children;
    std::vector<uint64_t> counts;
    REQUIRE(must(spec.invert({node, nullptr, 0, {}}, out.view(), children, counts)));
    CHECK(std::ranges::equal(children[0].view().byte_span(), in.view().byte_span()));
  }
}

TEST_CASE("cast refuses words that no narrow float widens to") {
  struct {
    const char* kind;
    unsigned width;
    uint64_t word;
  } const cases[] = {
      {"f16_f32", 32, 0x3f800001},                                       // a bit below the narrow fraction
      {"f16_f32", 32, 0x47800000},                                       // 65536: above the narrow range
      {"f16_f32", 32, 0x33000000},                                       // 2^-25: below its denormals
      {"f16_f32", 32, 0x33c00000},                                       // 1.5 * 2^-24: between two of them
      {"f16_f32", 32, 0x00000001},                                       // a wide denormal
      {"f16_f32", 32, 0x7f800001},                                       // a NaN whose payload is too low
      {"bf16_f32", 32, 0x3f800001},        {"f8_e4m3_f16", 16, 0x7c00},  // infinity, which e4m3 lacks
      {"f8_e4m3_f16", 16, 0x7e00},                                       // a NaN other than the one image
      {"f8_e4m3_bf16", 16, 0x43f0},                                      // 480, where e4m3 has its NaN
      {"f32_f64", 64, 0x3ff0000000000001}, {"f32_f64", 64, 0x0000000000000001},
  };
  for (const auto& c : cases) {
    CAPTURE(c.kind);
    CAPTURE(c.word);
    const auto program =
        test::program_of(test::typed(c.width, std::string("cast(").append(c.kind).append("; literal(raw))")));
    const Node& node = program->root();
    std::vector<bits::OwnedWords> children;
    std::vector<uint64_t> counts;
    CHECK_FALSE(
        must(spec_of(node.op).invert({node, nullptr, 0, {}}, words_of({c.word}, c.width).view(), children, counts)));
  }
}

TEST_CASE("map functions mean what their definitions say") {
  CHECK(map_word("xor", 0x81, 8, 0x0f) == 0x8e);
  CHECK(map_word("add", 5, 3, 6) == 3);
  CHECK(map_word("add", 1, 64, UINT64_MAX) == 0);
  CHECK(map_word("rotate", 1, 3, 0b101) == 0b011);
  CHECK(map_word("rotate", 0, 16, 0x1234) == 0x1234);
  CHECK(map_word("rotate", 4, 16, 0x1234) == 0x2341);
  CHECK(map_word("reverse", 0, 5, 0b00011) == 0b11000);
  CHECK(map_word("reverse", 0, 64, 1) == uint64_t{1} << 63);
  for (uint64_t p = 0; p < 31; ++p)
    CHECK(std::popcount(map_word("gray", 0, 5, p) ^ map_word("gray", 0, 5, p + 1)) == 1);
  const uint64_t zigzag[] = {0, 255, 1, 254, 2};
  for (uint64_t p = 0; p < 5; ++p) CHECK(map_word("zigzag", 0, 8, p) == zigzag[p]);
  // Ascending p gives ascending floats: -max, .., -0, 0, .., max.
  CHECK(map_word("sign_fold", 0, 8, 0) == 0xff);
  CHECK(map_word("sign_fold", 0, 8, 0x7f) == 0x80);
  CHECK(map_word("sign_fold", 0, 8, 0x80) == 0x00);
  CHECK(map_word("sign_fold", 0, 8, 0xff) == 0x7f);
}

TEST_CASE("operators compute what their definitions say") {
  auto children = [](auto... words) {
    std::vector<bits::OwnedWords> list;
    (list.push_back(std::move(words)), ...);
    return list;
  };
  using V = std::vector<uint64_t>;
  CHECK(run_op("merge(1, 4, 3; literal(packed), literal(packed), literal(packed))", 8,
               children(words_of({1, 0}, 1), words_of({0xa, 3}, 4), words_of({5, 7}, 3)), 2) == V{0xd5, 0x1f});
  CHECK(run_op("merge(32, 32; literal(raw), literal(raw))", 64, children(words_of({0x80000001}, 32), words_of({2}, 32)),
               1) == V{0x8000000100000002});
  CHECK(run_op("scan(add, 2; literal(raw), literal(raw))", 8, children(words_of({10, 20}, 8), words_of({1, 255, 2}, 8)),
               5) == V{10, 20, 11, 19, 13});
  CHECK(run_op("scan(xor, 1; literal(packed), literal(packed))", 5, children(words_of({3}, 5), words_of({1, 16}, 5)),
               3) == V{3, 2, 18});
  CHECK(run_op("interleave(literal(raw), literal(raw), literal(raw))", 8,
               children(words_of({1, 4}, 8), words_of({2, 5}, 8), words_of({3}, 8)), 5) == V{1, 2, 3, 4, 5});
  CHECK(run_op("runs(literal(raw), literal(packed))", 8, children(words_of({7, 9}, 8), words_of({0, 2}, 20)), 4) ==
        V{7, 9, 9, 9});
  CHECK(run_op("zeros(literal(packed), literal(raw))", 8, children(words_of({0, 1, 1, 0}, 1), words_of({7, 9}, 8)),
               4) == V{0, 7, 9, 0});
  const WordList list{{2, 30, 200}};
  CHECK(run_op("palette(3; literal(packed))", 8, children(words_of({2, 0, 1}, 2)), 3, &list) == V{200, 2, 30});
  CHECK(run_op("rank(3; literal(packed), literal(packed), literal(raw))", 8,
               children(words_of({3, 0, 2, 3, 3}, 2), words_of({0, 2, 0}, 20), words_of({77, 78, 79}, 8)), 5,
               &list) == V{77, 2, 200, 78, 79});
}

TEST_CASE("word lists: every list comes back, nothing else loads") {
  const auto program = test::program_of("u8 = palette(4; literal(packed))");
  const auto wide = test::program_of("u64 = palette(2; literal(packed))");
  for (const std::vector<uint64_t>& words : {std::vector<uint64_t>{0, 1, 2, 3}, {0, 7, 200, 255}, {252, 253, 254, 255}})
    CHECK(must(load_slot(*program, program->slots()[0], store_word_list(words))).list->words == words);
  const std::vector<uint64_t> ends{0, UINT64_MAX};
  CHECK(must(load_slot(*wide, wide->slots()[0], store_word_list(ends))).list->words == ends);

  auto refused = [&](const Program& of, ByteVector stored) {
    const auto table = load_slot(of, of.slots()[0], stored);
    return !table && table.error().kind() == Errc::corrupt;
  };
  CHECK(refused(*program, {}));
  CHECK(refused(*program, {0, 0, 0}));
  CHECK(refused(*program, {0, 0, 0, 0, 0}));
  CHECK(refused(*program, {0x80, 0x02, 0, 0, 0}));  // 256 in 8 bits
  CHECK(refused(*program, {0xff, 0x01, 0, 0, 0}));  // words after 255
  CHECK(refused(*program, {0, 0, 0, 0x80, 0x00}));  // a varint of two spellings
  CHECK(refused(*wide, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0}));
}

TEST_CASE("bind refuses wrong tables and what cannot run") {
  const auto program = test::program_of("u8 = palette(4; literal(packed))");
  const SlotTable good =
      must(load_slot(*program, program->slots()[0], store_word_list(std::vector<uint64_t>{1, 2, 3, 9})));
  auto kind = [](const auto& bound) { return bound ? Errc{} : bound.error().kind(); };
  CHECK(BoundProgram::bind(program, {{good}}).has_value());
  CHECK(BoundProgram::bind(program, {std::vector(16, good)}).has_value());
  CHECK(kind(BoundProgram::bind(program, {})) == Errc::corrupt);
  CHECK(kind(BoundProgram::bind(program, {{good}, {good}})) == Errc::corrupt);
  CHECK(kind(BoundProgram::bind(program, {{}})) == Errc::corrupt);
  CHECK(kind(BoundProgram::bind(program, {std::vector(17, good)})) == Errc::corrupt);
  CHECK(kind(BoundProgram::bind(program, {{SlotTable{}}})) == Errc::corrupt);
  const SlotTable shorter{nullptr, std::make_shared<const WordList>(WordList{{1, 2, 3}})};
  CHECK(kind(BoundProgram::bind(program, {{good, shorter}})) == Errc::corrupt);
  CHECK(kind(BoundProgram::bind(std::make_shared<const Program>(must(parse_program("u8 = literal", true))), {})) ==
        Errc::invalid_argument);
  CHECK(kind(BoundProgram::bind(test::program_of("u12 = literal(packed)"), {})) == Errc::invalid_argument);
}

TEST_CASE("a frame decodes wherever its output lies") {
  for (const std::string text :
       {"u16 = merge(1, 15; literal(packed), literal(packed))", "u8 = literal(raw)",
        "u24 = merge(11, 13; literal(packed), literal(packed))", "u64 = scan(add, 1; literal(raw), literal(raw))"}) {
    CAPTURE(text);
    const auto bound = bind_plain(text);
    for (const size_t count : {0, 1, 2, 3, 1000}) {
      const bits::OwnedWords words =
          words_of(test::random_bytes(count * bound->program().width() / 8, count), bound->program().width());
      const auto stored = test::encode(*bound, words.view());
      REQUIRE(stored);
      for (size_t misaligned = 0; misaligned < 9; ++misaligned)
        CHECK(must(test::decode(*bound, *stored, count, 0, 0, misaligned)) == test::file_bytes(words.view()));
    }
  }
}

TEST_CASE("frames of another shape are refused") {
  const auto bytes = bind_plain("u8 = literal(raw)");
  CHECK(must(test::decode(*bytes, ByteVector{2, 7, 8}, 2)) == ByteVector{7, 8});
  CHECK(refusal(*bytes, ByteVector{}, 2) == Errc::corrupt);
  CHECK(refusal(*bytes, ByteVector{2, 7}, 2) == Errc::corrupt);           // payload cut off
  CHECK(refusal(*bytes, ByteVector{2, 7, 8, 9}, 2) == Errc::corrupt);     // a byte too many
  CHECK(refusal(*bytes, ByteVector{3, 7, 8, 9}, 2) == Errc::corrupt);     // another number of words
  CHECK(refusal(*bytes, ByteVector{0x82, 0, 7, 8}, 2) == Errc::corrupt);  // length in two bytes
  CHECK(refusal(*bytes, ByteVector{2, 7, 8}, kMaxFrameBytes + 1) == Errc::invalid_argument);

  // Counts and lengths first, then payloads; a packed one is the bits of a field and the fields.
  const auto program = test::program_of("u8 = rank(200; literal(raw), literal(packed), literal(raw))");
  std::vector<uint64_t> list;
  for (uint64_t word = 0; word < 200; ++word) list.push_back(word);
  const auto rank = test::bind_stored(program, {store_word_list(list)});
  CHECK(must(test::decode(*rank, ByteVector{1, 3, 2, 1, 5, 200, 6, 1, 1, 250}, 3)) == ByteVector{5, 250, 6});
  CHECK(refusal(*rank, ByteVector{4, 3, 2, 1, 5, 200, 6, 1, 1, 250}, 3) == Errc::corrupt);    // m > n
  CHECK(refusal(*rank, ByteVector{1, 3, 1, 1, 5, 200, 6, 0, 250}, 3) == Errc::corrupt);       // at a ranked word
  CHECK(refusal(*rank, ByteVector{1, 3, 2, 1, 5, 200, 6, 4, 9, 250}, 3) == Errc::corrupt);    // outside
  CHECK(refusal(*rank, ByteVector{1, 3, 2, 1, 5, 200, 200, 1, 1, 250}, 3) == Errc::corrupt);  // one more rank T
  CHECK(refusal(*rank, ByteVector{1, 3, 2, 1, 5, 201, 6, 1, 1, 250}, 3) == Errc::corrupt);    // above T
  CHECK(refusal(*rank, ByteVector{0, 3, 0, 0, 5, 200, 6}, 3) == Errc::corrupt);

  const auto runs = bind_plain("u8 = runs(literal(raw), literal(packed))");
  CHECK(must(test::decode(*runs, ByteVector{1, 1, 2, 9, 2, 3}, 4)) == ByteVector{9, 9, 9, 9});
  CHECK(refusal(*runs, ByteVector{1, 1, 2, 9, 3, 4}, 4) == Errc::corrupt);
  CHECK(refusal(*runs, ByteVector{1, 1, 2, 9, 2, 2}, 4) == Errc::corrupt);
  CHECK(refusal(*runs, ByteVector{0, 0, 0}, 4) == Errc::corrupt);
  CHECK(must(test::decode(*runs, ByteVector{0, 0, 0}, 0)).empty());

  const auto zeros = bind_plain("u8 = zeros(literal(packed), literal(raw))");
  CHECK(must(test::decode(*zeros, ByteVector{1, 2, 1, 1, 0b100, 9}, 3)) == ByteVector{0, 0, 9});
  CHECK(refusal(*zeros, ByteVector{1, 2, 1, 1, 0b110, 9}, 3) == Errc::corrupt);
  CHECK(refusal(*zeros, ByteVector{1, 2, 1, 1, 0b000, 9}, 3) == Errc::corrupt);

  const auto palette = test::bind_stored(test::program_of("u8 = palette(3; literal(packed))"),
                                         {store_word_list(std::vector<uint64_t>{4, 5, 6})});
  CHECK(must(test::decode(*palette, ByteVector{2, 2, 0b100100}, 3)) == ByteVector{4, 5, 6});
  CHECK(refusal(*palette, ByteVector{2, 2, 0b110100}, 3) == Errc::corrupt);
}

TEST_CASE("ramps inside a region go on from frame to frame") {
  const auto bound = bind_plain("u16 = merge(8, 8; ramp(3, 2), constant(9))");
  CHECK(must(test::decode(*bound, ByteVector{}, 2, 100)) == ByteVector{9, 203, 9, 205});
}

TEST_CASE("a frame's leaves account for its payload bytes") {
  const auto bound = bind_plain("u16 = merge(8, 8; literal(raw), zeros(literal(packed), literal(raw)))");
  const bits::OwnedWords words = words_of({0x100, 0x201, 0x300, 0x400}, 16);
  const ByteVector stored = *test::encode(*bound, words.view());
  const auto leaves = must(frame_leaves(*bound, 0, 4, stored));
  REQUIRE(leaves.size() == 3);
  CHECK((leaves[0].node == 1 && leaves[0].bytes == 4));
  CHECK((leaves[1].node == 3 && leaves[1].bytes == 2));
  CHECK((leaves[2].node == 4 && leaves[2].bytes == 1));
  CHECK_FALSE(frame_leaves(*bound, 0, 4, ByteSpan(stored).first(stored.size() - 1)).has_value());
}

TEST_CASE("default frames are whole periods within the limits") {
  auto words = [](const std::string& text, uint64_t bytes) {
    const auto program = test::program_of(text);
    return default_frame_words(*program, program->regions()[0], bytes);
  };
  CHECK(words("u16 = literal(raw)", 512 << 10) == 256 << 10);
  CHECK(words("u16 = literal(raw)", 0) == kMinFrameBytes / 2);
  CHECK(words("u64 = literal(raw)", uint64_t{1} << 40) == kMaxFrameBytes / 8);
  CHECK(words("u8 = interleave(literal(raw), literal(raw), literal(raw))", 4096) == 4095);
  CHECK(words("u8 = scan(add, 5000; literal(raw), literal(raw))", 4096) == 4096);
  CHECK(words("u8 = scan(add, 5000; literal(raw), literal(raw))", 12288) == 10000);
}

TEST_CASE("decoding leaves the arena as it was and needs no more the second time") {
  const auto bound = bind_plain("u32 = merge(16, 16; scan(add, 1; literal(raw), literal(raw)), literal(raw))");
  const bits::OwnedWords words = words_of(test::random_bytes(1 << 18, 5), 32);
  const ByteVector stored = *test::encode(*bound, words.view());
  ByteVector out(1 << 18);
  Arena arena;
  uint8_t* const before = arena.take(100);
  arena.rewind({0, 0});
  must(decode_frame(*bound, 0, 0, stored, out, arena));
  const size_t capacity = arena.capacity();
  for (int i = 0; i < 10; ++i) must(decode_frame(*bound, 0, 0, stored, out, arena));
  CHECK(arena.capacity() == capacity);
  CHECK(arena.take(100) == before);
}
