// SPDX-License-Identifier: Apache-2.0
#include "codec/codec.h"

#include <doctest/doctest.h>

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
