// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <set>

#include "dsl/encode.h"
#include "dsl/inversions.h"
#include "support/bound.h"
#include "support/weights.h"
#include "support/words.h"

using namespace brevis;
using namespace brevis::dsl;
using test::must;
using test::words_of;

namespace {

bits::OwnedWords bell_bf16(size_t count, uint64_t seed) {
  return words_of(test::gaussian_words(Dtype::BF16, count, seed), 16);
}

std::vector<uint64_t> list_of(const Program& program, size_t slot, const std::vector<ByteVector>& tables) {
  return must(load_slot(program, program.slots()[slot], tables[slot])).list->words;
}

// Trains on the words cut into `frames` equal frames.
std::optional<std::vector<ByteVector>> train_cut(const Program& program, bits::ConstWords words, size_t frames = 1) {
  const size_t each = words.count / frames;
  return must(train(program, 0, frames, each,
                    [&](uint64_t frame) { return Result<bits::ConstWords>(words.part(frame * each, each)); }));
}

const codec::CodecSpec* table_codec(unsigned width) {
  for (const codec::CodecSpec* codec : codec::all_codecs())
    if (codec->needs_table && codec->accepts(width)) return codec;
  return nullptr;
}

}  // namespace

TEST_CASE("rank takes the most frequent words, the smaller of equals first") {
  const auto program = test::program_of("u8 = rank(3; literal(packed), literal(packed), literal(raw))");
  const bits::OwnedWords words = words_of({9, 9, 9, 200, 200, 5, 5, 4, 4, 1}, 8);
  const auto tables = train_cut(*program, words.view());
  REQUIRE(tables);
  CHECK(list_of(*program, 0, *tables) == std::vector<uint64_t>{4, 5, 9});
  CHECK_FALSE(train_cut(*program, words_of({1, 2, 1}, 8).view()));  // fewer words than T
  CHECK_FALSE(train_cut(*program, words_of({}, 8).view()));
}

TEST_CASE("palette takes exactly the words there are") {
  const auto program = test::program_of("u32 = palette(3; literal(packed))");
  const auto tables = train_cut(*program, words_of({0xffffffff, 7, 7, 9}, 32).view());
  REQUIRE(tables);
  CHECK(list_of(*program, 0, *tables) == std::vector<uint64_t>{7, 9, 0xffffffff});
  CHECK_FALSE(train_cut(*program, words_of({1, 2}, 32).view()));
  CHECK_FALSE(train_cut(*program, words_of({1, 2, 3, 4}, 32).view()));
}

TEST_CASE("training reaches slots below nodes that statistics do not pass") {
  // Ranks of the differences, of run words, of one lane of two, of gaps.
  bits::OwnedWords words(8, 6000);
  test::Random random(3);
  uint64_t at = 0;
  for (size_t i = 0; i < words.count(); ++i) words.words().set(i, at = (at + random.below(4) * 3) & 255);
  const std::string rank = "rank(3; literal(packed), literal(packed), literal(raw))";
  for (const std::string& text : std::vector<std::string>{
           "u8 = scan(add, 1; literal(raw), " + rank + ")", "u8 = runs(" + rank + ", literal(packed))",
           "u8 = interleave(" + rank + ", literal(raw))",
           std::string("u8 = rank(3; literal(packed), rank(2; literal(packed), literal(packed), literal(packed)), "
                       "literal(raw))"),
           "u8 = scan(add, 1; literal(raw), palette(4; merge(1, 1; literal(packed), literal(packed))))"}) {
    CAPTURE(text);
    const auto program = test::program_of(text);
    for (const size_t frames : {1, 3}) {
      const auto tables = train_cut(*program, words.view(), frames);
      REQUIRE(tables);
      const auto bound = test::bind_stored(program, *tables);
      for (size_t frame = 0; frame < frames; ++frame) {
        const size_t each = words.count() / frames;
        const bits::ConstWords part = words.view().part(frame * each, each);
        const auto stored = test::encode(*bound, part, frame * each);
        REQUIRE(stored);
        CHECK(must(test::decode(*bound, *stored, each, frame * each)) == test::file_bytes(part));
      }
    }
  }
  const auto program = test::program_of("u8 = scan(add, 1; literal(raw), palette(4; literal(packed)))");
  CHECK(list_of(*program, 0, *train_cut(*program, words.view(), 6)) == std::vector<uint64_t>{0, 3, 6, 9});
}

TEST_CASE("training passes errors of the source on and gives up on what cannot be expressed") {
  const auto program = test::program_of("u16 = palette(2; literal(packed))");
  const auto failed = train(*program, 0, 1, 10, [](uint64_t) -> Result<bits::ConstWords> {
    return make_error(Errc::changed, "the file changed");
  });
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().kind() == Errc::changed);
  CHECK_FALSE(must(train(*program, 0, 0, 10, [](uint64_t) -> Result<bits::ConstWords> { return bits::ConstWords{}; })));
  const auto cast = test::program_of("u16 = cast(f8_e5m2_f16; palette(2; literal(packed)))");
  CHECK_FALSE(train_cut(*cast, words_of({1, 0}, 16).view()));
  const auto untyped = train(must(parse_program("u8 = literal", true)), 0, 0, 0, nullptr);
  REQUIRE_FALSE(untyped.has_value());
  CHECK(untyped.error().kind() == Errc::invalid_argument);
}

TEST_CASE("without slots there is nothing to train") {
  const auto program = test::program_of("u16 = merge(8, 8; literal(raw), literal(raw))");
  const auto tables = must(train(*program, 0, 100, 10, nullptr));
  REQUIRE(tables);
  CHECK(tables->empty());
}

TEST_CASE("an estimate gives the same tables as training and sizes close to the truth") {
  const bits::OwnedWords words = bell_bf16(100000, 11);
  const codec::Histogram histogram = histogram_of(words.view());
  std::set<uint64_t> seen;
  for (const auto& entry : histogram.counts) seen.insert(entry.first >> 7 & 255);
  const std::string exponents = std::to_string(seen.size());
  std::vector<std::string> texts = {
      "u16 = literal(raw)",
      "u16 = merge(1, 10, 5; literal(packed), rank(63; literal(packed), literal(packed), literal(packed)), "
      "literal(packed))",
      "u16 = merge(1, 8, 7; literal(packed), palette(" + exponents + "; literal(packed)), literal(packed))",
      "u16 = zeros(literal(packed), map(sign_fold, 0; literal(raw)))",
  };
  if (const codec::CodecSpec* codec = table_codec(6))
    texts.push_back("u16 = merge(1, 10, 5; literal(packed), rank(63; literal(" + std::string(codec->name) +
                    "), literal(packed), literal(packed)), literal(packed))");
  for (const std::string& text : texts) {
    CAPTURE(text);
    const auto program = test::program_of(text);
    const auto estimated = must(estimate(*program, 0, histogram));
    REQUIRE(estimated);
    const auto trained = train_cut(*program, words.view(), 4);
    REQUIRE(trained);
    CHECK(estimated->tables == *trained);
    const ByteVector stored = *test::encode(*test::bind_stored(program, *trained), words.view());
    const double bits = static_cast<double>(estimated->bits);
    CHECK(bits == doctest::Approx(static_cast<double>(stored.size()) * 8).epsilon(0.01));
  }
}

TEST_CASE("estimates are withheld where statistics do not tell") {
  const codec::Histogram histogram = histogram_of(bell_bf16(1000, 1).view());
  for (const char* text : {"u16 = scan(add, 1; literal(raw), literal(raw))", "u16 = literal(zstd)",
                           "u16 = runs(literal(raw), literal(packed))", "u16 = interleave(literal(raw), literal(raw))",
                           "u16 = merge(8, 8; constant(1), literal(raw))", "u16 = cast(f8_e5m2_f16; literal(raw))",
                           "u16 = palette(3; literal(packed))"}) {
    CAPTURE(text);
    CHECK_FALSE(must(estimate(*test::program_of(text), 0, histogram)));
  }
}

TEST_CASE("programs of one root that differ in children are trained as if alone") {
  bits::OwnedWords words(8, 4800);
  test::Random random(5);
  for (size_t i = 0; i < words.count(); ++i) words.words().set(i, 16 * (i % 4) + random.below(3 + i % 4));
  const std::string huffman = "literal(huffman)";
  const auto interleaved = [&](size_t arity) {
    std::string text = "u8 = interleave(" + huffman;
    for (size_t i = 1; i < arity; ++i) text += ", " + huffman;
    return test::program_of(text + ")");
  };
  Inversions inversions;
  for (const size_t arity : {4, 2, 3, 2, 6, 4}) {
    CAPTURE(arity);
    const auto program = interleaved(arity);
    constexpr size_t kFrames = 4, kEach = 1200;
    const auto tables = must(train(
        *program, 0, kFrames, kEach,
        [&](uint64_t frame) { return Result<bits::ConstWords>(words.view().part(frame * kEach, kEach)); },
        &inversions));
    CHECK(tables == train_cut(*program, words.view(), kFrames));
  }
}
