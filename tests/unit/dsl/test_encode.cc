// SPDX-License-Identifier: Apache-2.0
#include "dsl/encode.h"

#include <doctest/doctest.h>

#include "support/bound.h"
#include "support/weights.h"
#include "support/words.h"

using namespace brevis;
using namespace brevis::dsl;
using test::must;
using test::words_of;

TEST_CASE("histograms count every word once") {
  for (const unsigned width : {1u, 3u, 8u, 11u, 16u, 17u, 32u, 64u})
    for (const test::Shape shape : test::kShapes)
      for (const size_t count : {0, 1, 3, 5000}) {
        const bits::OwnedWords words = test::make_words(shape, width, count, width + count);
        const codec::Histogram expected = test::histogram_of(words.view());
        codec::Histogram got = histogram_of(words.view());
        CHECK(got.width == width);
        CHECK(got.counts == expected.counts);
        add_histogram(got, expected);
        CHECK(got.total() == 2 * count);
        CHECK(got.counts.size() == expected.counts.size());
      }
}

TEST_CASE("what a program cannot express is told apart from errors, and leaves the output alone") {
  auto fits = [](const std::string& text, const bits::OwnedWords& words, std::vector<ByteVector> tables = {}) {
    const auto bound = test::bind_stored(test::program_of(text), tables);
    ByteVector out{1, 2, 3};
    const bool result = must(encode_frame(*bound, 0, 0, words.view(), out));
    CHECK((result ? out.size() > 3 : out == ByteVector{1, 2, 3}));
    return result;
  };
  const bits::OwnedWords words = words_of({0x105, 0x205, 0x305}, 16);
  CHECK(fits("u16 = merge(8, 8; literal(raw), constant(5))", words));
  CHECK_FALSE(fits("u16 = merge(8, 8; literal(raw), constant(6))", words));
  CHECK(fits("u16 = merge(8, 8; ramp(1, 1), literal(raw))", words));
  CHECK_FALSE(fits("u16 = merge(8, 8; ramp(1, 2), literal(raw))", words));
  CHECK_FALSE(fits("u16 = cast(f8_e5m2_f16; literal(raw))", words));
  CHECK(fits("u16 = palette(4; literal(packed))", words,
             {store_word_list(std::vector<uint64_t>{1, 0x105, 0x205, 0x305})}));
  CHECK_FALSE(fits("u16 = palette(4; literal(packed))", words,
                   {store_word_list(std::vector<uint64_t>{1, 0x105, 0x205, 9999})}));
}

TEST_CASE("a frame picks the word list that leaves the fewest exceptions") {
  const auto program = test::program_of("u8 = rank(2; literal(packed), literal(packed), literal(raw))");
  std::vector<SlotTable> set;
  for (const std::vector<uint64_t>& list : {std::vector<uint64_t>{1, 2}, {3, 4}, {5, 6}, {3, 4}})
    set.push_back(must(load_slot(*program, program->slots()[0], store_word_list(list))));
  const auto bound = must(BoundProgram::bind(program, {set}));
  auto choice = [&](std::initializer_list<uint64_t> words) {
    const bits::OwnedWords target = words_of(words, 8);
    const ByteVector stored = *test::encode(*bound, target.view());
    CHECK(must(test::decode(*bound, stored, target.count())) == test::file_bytes(target.view()));
    return stored[0];
  };
  CHECK(choice({1, 2, 3}) == 0);
  CHECK(choice({1, 4, 3}) == 1);
  CHECK(choice({1, 6, 6}) == 2);
  CHECK(choice({1, 3, 5}) == 0);  // the first among equals
  CHECK(choice({7}) == 0);

  // A frame that names no list of the set is refused.
  ByteVector stored = *test::encode(*bound, words_of({1, 2}, 8).view());
  stored[0] = 4;
  CHECK_FALSE(test::decode(*bound, stored, 2).has_value());
}

TEST_CASE("a frame picks the table with the smallest estimate") {
  for (const codec::CodecSpec* codec : codec::all_codecs()) {
    if (!codec->needs_table || !codec->accepts(8)) continue;
    CAPTURE(codec->name);
    const auto program = test::program_of("u8 = literal(" + std::string(codec->name) + ")");
    std::vector<bits::OwnedWords> streams;
    std::vector<SlotTable> set;
    for (uint64_t i = 0; i < 3; ++i) {  // skewed towards different words of the same alphabet
      bits::OwnedWords words(8, 4000);
      test::Random random(i);
      for (size_t j = 0; j < words.count(); ++j) {
        const uint64_t r = random.below(100);
        words.words().set(j, r < 80 ? i * 5 : r % 20);
      }
      const ByteVector table = must(codec->train(histogram_of(words.view())));
      set.push_back(must(load_slot(*program, program->slots()[0], table)));
      streams.push_back(std::move(words));
    }
    const auto bound = must(BoundProgram::bind(program, {set}));
    for (size_t i = 0; i < streams.size(); ++i) {
      const ByteVector stored = *test::encode(*bound, streams[i].view());
      CHECK(stored[0] == i);
      CHECK(must(test::decode(*bound, stored, streams[i].count())) == test::file_bytes(streams[i].view()));
    }
  }
}

// Lists of several parts of a stream in one set: the one that leaves the fewest exceptions may leave some that no table
// of exceptions has, where the frame lies over two parts.
TEST_CASE("a list whose exceptions no table codes gives way to one that serves") {
  for (const char* text :
       {"u8 = rank(3; literal(alias), literal(packed), literal(huffman))",
        "u16 = merge(8, 8; rank(3; literal(alias), literal(packed), literal(huffman)), literal(packed))"}) {
    CAPTURE(text);
    const auto program = test::program_of(text);
    const unsigned shift = program->width() - 8;
    const codec::Histogram ranks{2, {{0, 5}, {1, 5}, {2, 5}, {3, 5}}}, others{8, {{4, 9}, {5, 9}, {6, 9}, {7, 3}}};
    const uint64_t first[] = {1, 2, 3}, second[] = {4, 5, 6};
    const std::vector<std::vector<ByteVector>> stored{{dsl::store_word_list(first), dsl::store_word_list(second)},
                                                      {test::must(codec::find_codec("alias")->train(ranks))},
                                                      {test::must(codec::find_codec("huffman")->train(others))}};
    std::vector<std::vector<dsl::SlotTable>> tables;
    for (size_t slot = 0; slot < stored.size(); ++slot) {
      tables.emplace_back();
      for (const ByteVector& table : stored[slot])
        tables.back().push_back(test::must(dsl::load_slot(*program, program->slots()[slot], table)));
    }
    bits::OwnedWords words(program->width(), 300);
    for (size_t i = 0; i < words.count(); ++i) words.words().set(i, (i == 200 ? 1 : 4 + i % 3) << shift);
    for (const bool fuse : {true, false}) {
      const auto bound = test::must(dsl::BoundProgram::bind(program, tables, fuse));
      const auto frame = test::encode(*bound, words.view());
      REQUIRE(frame.has_value());
      CHECK(frame->front() == 0);  // the first list
      CHECK(*test::decode(*bound, *frame, words.count()) == test::file_bytes(words.view()));
      // What none serves is refused as before.
      bits::OwnedWords wrong = words;
      wrong.words().set(100, uint64_t{99} << shift);
      CHECK_FALSE(test::encode(*bound, wrong.view()).has_value());
    }
  }
}
