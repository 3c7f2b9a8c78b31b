// SPDX-License-Identifier: Apache-2.0
#include "codec/codec.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <thread>

#include "codec/zstd_frame.h"
#include "codec/zstd_memo.h"
#include "support/words.h"

using namespace brevis;
using codec::CodecId;

TEST_CASE("codec: the table finds every entry by id and name, ids ascend") {
  int64_t last = -1;
  for (const auto* spec : codec::all_codecs()) {
    CHECK(static_cast<int64_t>(spec->id) > last);
    last = static_cast<int64_t>(spec->id);
    CHECK(codec::find_codec(static_cast<uint64_t>(spec->id)) == spec);
    CHECK(codec::find_codec(spec->name) == spec);
  }
  CHECK(codec::find_codec(uint64_t{200}) == nullptr);
  CHECK(codec::find_codec(~uint64_t{0}) == nullptr);
  CHECK(codec::find_codec("ALIAS") == nullptr);
}

TEST_CASE("codec: a histogram's total") {
  CHECK(codec::Histogram{8, {}}.total() == 0);
  CHECK(codec::Histogram{8, {{1, 5}, {7, 6}}}.total() == 11);
}

TEST_CASE("zstd: what was made of bytes is remembered for the thread that asked for that, and is the same") {
  const auto encode = [](const bits::OwnedWords& words) {
    ByteVector payload = {1, 2, 3};  // it is appended to what there is
    REQUIRE(codec::zstd_codec.encode(nullptr, words.view(), payload));
    return payload;
  };
  test::Random random(8);
  bits::OwnedWords words(16, 4000), others(16, 4000), bytes(8, 8000), few(16, 8);
  for (size_t i = 0; i < 4000; ++i) words.words().set(i, random.below(5) * 77), others.words().set(i, i % 300);
  std::copy_n(words.view().data, words.view().bytes(), bytes.words().data);
  for (size_t i = 0; i < 8; ++i) few.words().set(i, i);
  const std::vector<const bits::OwnedWords*> all = {&words, &others, &bytes, &few};
  std::vector<ByteVector> truth;
  for (const auto* one : all) truth.push_back(encode(*one));
  CHECK(codec::ZstdMemo::mine() == nullptr);
  {
    const codec::ZstdMemo memo;
    CHECK(codec::ZstdMemo::mine() == &memo);
    for (int round = 0; round < 2; ++round)
      for (size_t i = 0; i < all.size(); ++i) CHECK(encode(*all[i]) == truth[i]);
    const auto known = memo.find(words.view().byte_span(), 2);
    REQUIRE(known);
    CHECK(ByteVector(known->begin(), known->end()) == ByteVector(truth[0].begin() + 3, truth[0].end()));
    CHECK(memo.find(words.view().byte_span(), 4) == std::nullopt);  // matches of other words are looked for
    CHECK(memo.find(few.view().byte_span(), 2) == std::nullopt);
    {
      const codec::ZstdMemo inner;
      CHECK(codec::ZstdMemo::mine() == &inner);
      CHECK(inner.find(words.view().byte_span(), 2) == std::nullopt);
    }
    CHECK(codec::ZstdMemo::mine() == &memo);
    std::thread([&] { CHECK(codec::ZstdMemo::mine() == nullptr); }).join();
  }
  CHECK(codec::ZstdMemo::mine() == nullptr);
  codec::ZstdMemo full;
  const ByteVector large(codec::ZstdMemo::kBytes), small(4096, 7);
  full.keep(large, 1, small);
  CHECK(full.find(large, 1) == std::nullopt);
  full.keep(small, 1, small);
  CHECK(full.find(small, 1) != std::nullopt);
}

TEST_CASE("raw: whole bytes only, any other size is corrupt") {
  CHECK(codec::raw_codec.accepts(16));
  CHECK(!codec::raw_codec.accepts(24));
  CHECK(!codec::raw_codec.accepts(7));
  bits::OwnedWords out(16, 2);
  const ByteVector good = {1, 2, 3, 4}, small = {1, 2, 3}, large = {1, 2, 3, 4, 5};
  REQUIRE(codec::raw_codec.decode(nullptr, good, out.words()));
  CHECK(out.view().at(1) == 0x0403);
  CHECK(codec::raw_codec.decode(nullptr, small, out.words()).error().kind() == Errc::corrupt);
  CHECK(codec::raw_codec.decode(nullptr, large, out.words()).error().kind() == Errc::corrupt);
}

TEST_CASE("packed: takes the bits that the largest word needs, and has one spelling") {
  bits::OwnedWords in(10, 3), out(10, 3);
  for (size_t i = 0; i < 3; ++i) in.words().set(i, i + 4);
  ByteVector payload;
  REQUIRE(codec::packed_codec.encode(nullptr, in.view(), payload));
  CHECK(payload == ByteVector{3, 0b10101100, 0b1});  // 4, 5, 6: 001 101 011 by lowest bit
  REQUIRE(codec::packed_codec.decode(nullptr, payload, out.words()));
  CHECK(out.view().at(2) == 6);
  auto kind = [&](ByteVector bytes) { return codec::packed_codec.decode(nullptr, bytes, out.words()).error().kind(); };
  CHECK(kind({3, 0b10101100, 0b11}) == Errc::corrupt);  // padding
  CHECK(kind({3, 0b10101100}) == Errc::corrupt);
  CHECK(kind({3, 0b10101100, 1, 0}) == Errc::corrupt);
  CHECK(kind({11, 0, 0, 0, 0, 0}) == Errc::corrupt);  // wider than the words
  CHECK(kind({}) == Errc::corrupt);
}

TEST_CASE("packed: zeros cost one byte, nothing costs none") {
  ByteVector payload;
  bits::OwnedWords zeros(33, 1000), none(33, 0);
  REQUIRE(codec::packed_codec.encode(nullptr, zeros.view(), payload));
  CHECK(payload == ByteVector{0});
  payload.clear();
  REQUIRE(codec::packed_codec.encode(nullptr, none.view(), payload));
  CHECK(payload.empty());
}

TEST_CASE("zstd: one frame of the right size, words within their width") {
  const auto in = test::make_words(test::Shape::bell, 5, 1000, 1);
  ByteVector payload;
  REQUIRE(codec::zstd_codec.encode(nullptr, in.view(), payload));
  bits::OwnedWords out(5, 1000), narrow(4, 1000), fewer(5, 999);
  CHECK(codec::zstd_codec.decode(nullptr, payload, out.words()));
  CHECK(codec::zstd_codec.decode(nullptr, payload, narrow.words()).error().kind() == Errc::corrupt);
  CHECK(codec::zstd_codec.decode(nullptr, payload, fewer.words()).error().kind() == Errc::corrupt);
  ByteVector twice = payload;
  twice.insert(twice.end(), payload.begin(), payload.end());
  CHECK(codec::zstd_codec.decode(nullptr, twice, out.words()).error().kind() == Errc::corrupt);
}

namespace {

ByteVector text_payload(std::initializer_list<uint8_t> front, std::string_view body) {
  ByteVector payload(front);
  REQUIRE(codec::append_zstd_frame({reinterpret_cast<const uint8_t*>(body.data()), body.size()}, 3, payload));
  return payload;
}

// What a payload gives as text of `count` bytes; "?" where it is corrupt.
std::string text_of(const ByteVector& payload, size_t count) {
  bits::OwnedWords out(8, count);
  const Status status = codec::text_codec.decode(nullptr, payload, out.words());
  if (!status) {
    CHECK(status.error().kind() == Errc::corrupt);
    return "?";
  }
  const auto bytes = out.view().byte_span();
  return {bytes.begin(), bytes.end()};
}

std::string text_of_body(std::string_view body, size_t count) { return text_of(text_payload({1, '#'}, body), count); }

// The body that the encoder makes, with its marker as '#'; the text itself where no number was taken out.
std::string body_of(std::string_view text) {
  bits::OwnedWords in(8, text.size());
  std::copy(text.begin(), text.end(), in.words().byte_span().begin());
  ByteVector payload;
  REQUIRE(codec::text_codec.encode(nullptr, in.view(), payload));
  CHECK(text_of(payload, text.size()) == text);
  if (payload[0] == 0) return std::string(text);
  const ByteSpan frame = ByteSpan(payload).subspan(2);
  ByteVector body(codec::zstd_frame_content(frame).value());
  REQUIRE(codec::unpack_zstd_frame(frame, body));
  std::replace(body.begin(), body.end(), payload[1], uint8_t{'#'});
  return {body.begin(), body.end()};
}

}  // namespace

TEST_CASE("text: numbers one above the last at the same place are taken out") {
  CHECK(body_of("a: 9, b: 10, c: 11") == "a: 9, b: #, c: #");
  CHECK(body_of("a: 9, b:10, c: 10") == "a: 9, b:10, c: #");  // a place is two bytes
  CHECK(body_of("0 1 2 3") == "0 1 2 3");                     // each is behind another digit
  CHECK(body_of("; 0; 1; 2") == "; 0; #; #");
  CHECK(body_of("; 07; 8; 08; 9") == "; 07; 8; 08; #");  // a leading zero: no number
  CHECK(body_of("; 7; 8; 8; 10; 11") == "; 7; #; 8; 10; #");
  CHECK(body_of("; 999999998; 999999999; 1000000000; 1000000001") == "; 999999998; #; 1000000000; 1000000001");
  CHECK(body_of("; 18446744073709551615; 0; 1") == "; 18446744073709551615; 0; #");
  CHECK(body_of("no numbers") == "no numbers");
  CHECK(body_of("5") == "5");
}

TEST_CASE("text: numbers that cannot stand where they do are corrupt") {
  CHECK(text_of_body("; 7; #; #", 9) == "; 7; 8; 9");
  CHECK(text_of_body("; 8; #; #", 10) == "; 8; 9; 10");
  CHECK(text_of_body("; 8; #; #", 9) == "?");  // one byte too few, or too many
  CHECK(text_of_body("; 8; #; #", 11) == "?");
  CHECK(text_of_body("; 7; ##", 8) == "?");  // a number right behind another
  CHECK(text_of_body("; 7; #1", 7) == "?");
  CHECK(text_of_body("; 7; 1#", 7) == "?");
  CHECK(text_of_body("# ", 2) == "?");  // none before
  CHECK(text_of_body("; 7, #", 6) == "?");
  CHECK(text_of_body("; 07; #", 8) == "?");  // no number before
  CHECK(text_of_body("; 999999999; #", 23) == "?");
  CHECK(text_of_body(std::string(100, 'a'), 99) == "?");
}

TEST_CASE("text: forms, markers and frames that are none are corrupt") {
  CHECK(text_of(text_payload({0}, "abc"), 3) == "abc");
  CHECK(text_of(text_payload({1, 0}, "abc"), 3) == "abc");
  CHECK(text_of(text_payload({2}, "abc"), 3) == "?");
  CHECK(text_of(text_payload({1, '5'}, "abc"), 3) == "?");
  CHECK(text_of(text_payload({0}, "abc"), 2) == "?");
  CHECK(text_of({}, 3) == "?");
  CHECK(text_of({0}, 3) == "?");
  CHECK(text_of({1}, 3) == "?");
  CHECK(text_of({1, 0}, 3) == "?");
  CHECK(text_of({0}, 0) == "?");
  CHECK(text_of({}, 0) == "");
  ByteVector longer = text_payload({1, 0}, "abc");
  longer.push_back(0);
  CHECK(text_of(longer, 3) == "?");
}

TEST_CASE("alias: tables of one word, of words too wide or of a wrong sum are refused") {
  const auto& alias = codec::alias_codec;
  CHECK(alias.train({6, {{5, 100}}}).error().kind() == Errc::not_found);
  CHECK(alias.train({6, {}}).error().kind() == Errc::not_found);
  CHECK(alias.train({6, {{5, 100}, {64, 1}}}).error().kind() == Errc::not_found);
  CHECK(alias.train({7, {{5, 100}, {6, 1}}}).error().kind() == Errc::not_found);
  const auto stored = alias.train({2, {{1, 3}, {2, 1}}});
  REQUIRE(stored);
  REQUIRE(alias.load(*stored, 2));
  CHECK(alias.load(*stored, 1).error().kind() == Errc::corrupt);  // word 2 has two bits
  CHECK(alias.load(*stored, 7).error().kind() == Errc::corrupt);
  CHECK(alias.load({}, 2).error().kind() == Errc::corrupt);
}

TEST_CASE("alias: a payload by hand") {
  // Two words alike cost a bit each. From 2^16 a state takes 15 of them, then gives up a word for every 16 more.
  const auto stored = codec::alias_codec.train({1, {{0, 1}, {1, 1}}});
  REQUIRE(stored);
  const auto table = *codec::alias_codec.load(*stored, 1);
  bits::OwnedWords in(1, 32), out(1, 32);
  ByteVector payload;
  REQUIRE(codec::alias_codec.encode(table.get(), in.view(), payload));
  CHECK(payload.size() == 4 + 2 * 2);
  REQUIRE(codec::alias_codec.decode(table.get(), payload, out.words()));
  CHECK(codec::alias_codec.estimate(table.get(), {1, {{0, 16}, {1, 16}}}) == 32 * 256);
}

TEST_CASE("huffman: lengths are the best, and never above twelve") {
  // Fibonacci counts make the longest codes.
  codec::Histogram steep{8, {}};
  uint64_t a = 1, b = 1;
  for (uint64_t word = 0; word < 40; ++word) {
    steep.counts.emplace_back(word, a);
    b += a;
    std::swap(a, b);
  }
  const auto stored = codec::huffman_codec.train(steep);
  REQUIRE(stored);
  REQUIRE(codec::huffman_codec.load(*stored, 8));
  // Powers of two are met exactly: 1/2, 1/4, 1/8, 1/8.
  const codec::Histogram exact{4, {{3, 4}, {7, 2}, {9, 1}, {15, 1}}};
  const auto table = *codec::huffman_codec.load(*codec::huffman_codec.train(exact), 4);
  CHECK(codec::huffman_codec.estimate(table.get(), exact) == (4 * 1 + 2 * 2 + 3 + 3) * 256);
  // All 4,096 words of twelve bits: each twelve bits.
  codec::Histogram all{12, {}};
  for (uint64_t word = 0; word < 4096; ++word) all.counts.emplace_back(word, 1 + word * word);
  const auto full = *codec::huffman_codec.load(*codec::huffman_codec.train(all), 12);
  CHECK(codec::huffman_codec.estimate(full.get(), all) == all.total() * 12 * 256);
}

TEST_CASE("huffman: as good as Huffman's own method where no code is long") {
  test::Random random(8);
  for (int round = 0; round < 50; ++round) {
    codec::Histogram histogram{6, {}};
    const uint64_t words = 2 + random.below(60);
    for (uint64_t word = 0; word < words; ++word) histogram.counts.emplace_back(word, 50 + random.below(1000));
    std::multiset<uint64_t> trees;
    for (const auto& [word, count] : histogram.counts) trees.insert(count);
    uint64_t bits = 0;  // each merge adds one bit to all words below
    while (trees.size() > 1) {
      const uint64_t sum = *trees.begin() + *std::next(trees.begin());
      trees.erase(trees.begin(), std::next(trees.begin(), 2));
      trees.insert(sum);
      bits += sum;
    }
    const auto table = *codec::huffman_codec.load(*codec::huffman_codec.train(histogram), 6);
    CHECK(codec::huffman_codec.estimate(table.get(), histogram) == bits * 256);
  }
}

TEST_CASE("rans: up to 65,536 different words of any width, no more") {
  codec::Histogram many{64, {}};
  for (uint64_t word = 0; word < 65536; ++word) many.counts.emplace_back(word << 48 | word, 1 + word % 3);
  const auto stored = codec::rans_codec.train(many);
  REQUIRE(stored);
  REQUIRE(codec::rans_codec.load(*stored, 64));
  many.counts.emplace_back(~uint64_t{0}, 1);
  CHECK(codec::rans_codec.train(many).error().kind() == Errc::not_found);
  CHECK(codec::rans_codec.train({64, {{7, 100}}}).error().kind() == Errc::not_found);
}

TEST_CASE("rans: a table takes at most a byte a word of a bell curve") {
  const auto in = test::make_words(test::Shape::bell, 8, 100000, 3);
  const auto histogram = test::histogram_of(in.view());
  const auto stored = codec::rans_codec.train(histogram);
  REQUIRE(stored);
  CHECK(stored->size() <= histogram.counts.size());
}

TEST_CASE("sparse: one word costs a few bytes, the others their place and bits") {
  bits::OwnedWords in(8, 100000), out(8, 100000);
  for (size_t i = 0; i < 100000; ++i) in.words().set(i, 200);
  ByteVector payload;
  REQUIRE(codec::sparse_codec.encode(nullptr, in.view(), payload));
  CHECK(payload == ByteVector{0xc8, 0x01, 0x00});
  in.words().set(0, 1);
  in.words().set(99999, 3);
  payload.clear();
  REQUIRE(codec::sparse_codec.encode(nullptr, in.view(), payload));
  CHECK(payload.size() <= 12);
  REQUIRE(codec::sparse_codec.decode(nullptr, payload, out.words()));
  CHECK(out.view().at(0) == 1);
  CHECK(out.view().at(1) == 200);
  CHECK(out.view().at(99999) == 3);
  // A place beyond the stream.
  bits::OwnedWords shorter(8, 99999);
  CHECK(codec::sparse_codec.decode(nullptr, payload, shorter.words()).error().kind() == Errc::corrupt);
}

TEST_CASE("codec: short frames pay for few states") {
  for (const size_t count : {1, 100, 4095, 4096, 16383, 16384, 65535, 65536, 262144}) {
    const auto in = test::make_words(test::Shape::bell, 6, count, 2);
    const codec::Histogram histogram = test::histogram_of(test::make_words(test::Shape::bell, 6, 300000, 2).view());
    const auto table = *codec::alias_codec.load(*codec::alias_codec.train(histogram), 6);
    ByteVector payload;
    REQUIRE(codec::alias_codec.encode(table.get(), in.view(), payload));
    const uint64_t least = codec::alias_codec.estimate(table.get(), test::histogram_of(in.view())) / 256 / 8;
    CHECK(payload.size() <= least + least / 100 + 8);
  }
}
