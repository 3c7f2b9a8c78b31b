// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstring>

#include "base/checksum.h"
#include "dsl/text.h"
#include "support/search_world.h"
#include "synth/spine.h"

using namespace brevis;

namespace {

struct World {
  test::SmallGrammar grammar;
  synth::Prior prior;
  synth::Effort effort = synth::effort_of(synth::Profile::dense);
  synth::Budget budget{effort};
  synth::SearchOptions options() { return {&grammar, &prior, &effort, &budget}; }
};

synth::Stream stream_of(const ByteVector& bytes, Dtype dtype, std::vector<uint64_t> shape = {}) {
  synth::Stream stream;
  stream.dtype = dtype;
  stream.width = dtype_info(dtype).word_bits();
  stream.words = bytes.size() / (stream.width / 8);
  stream.shape = std::move(shape);
  stream.read = [&bytes, width = stream.width](uint64_t first, bits::Words out) -> Status {
    REQUIRE(first * (width / 8) + out.bytes() <= bytes.size());
    std::memcpy(out.data, bytes.data() + first * (width / 8), out.bytes());
    return {};
  };
  return stream;
}

synth::Choice choose(const ByteVector& bytes, Dtype dtype, const char* wanted = nullptr) {
  World world;
  const synth::Stream stream = stream_of(bytes, dtype);
  synth::ChooseOptions options;
  options.search = world.options();
  if (wanted != nullptr) {
    auto program = dsl::parse_program("u" + std::to_string(stream.width) + " = " + wanted, true);
    REQUIRE(program);
    options.wanted = std::move(*program);
  }
  const bits::ConstWords all{bytes.data(), stream.words, static_cast<uint8_t>(stream.width)};
  auto choice = synth::choose(stream, synth::gather(all), options);
  REQUIRE(choice);
  return std::move(*choice);
}

ByteVector joined(std::initializer_list<ByteVector> parts) {
  ByteVector out;
  for (const ByteVector& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

std::string text_of(const synth::Choice& choice) { return dsl::print(*choice.program); }

}  // namespace

TEST_CASE("tied halves are stored once") {
  const ByteVector half = test::gaussian_words(Dtype::BF16, 40000, 1);
  const auto choice = choose(joined({half, half}), Dtype::BF16);
  INFO(text_of(choice));
  CHECK(text_of(choice).starts_with("u16 = repeat(2; "));
  CHECK(choice.estimated_bytes < 40000 * 11 / 8);
}

TEST_CASE("halves that differ in one word are not") {
  const ByteVector half = test::gaussian_words(Dtype::BF16, 40000, 1);
  ByteVector bytes = joined({half, half});
  bytes[bytes.size() - 30001] ^= 1;
  CHECK(text_of(choose(bytes, Dtype::BF16)).find("repeat") == std::string::npos);
}

TEST_CASE("an alternating pattern is a few words") {
  const ByteVector pattern = test::random_bytes(3 * 4, 7);
  ByteVector bytes;
  for (int i = 0; i < 20000; ++i) bytes.insert(bytes.end(), pattern.begin(), pattern.end());
  const auto choice = choose(bytes, Dtype::F32);
  INFO(text_of(choice));
  CHECK(text_of(choice).starts_with("u32 = repeat(20000; "));
  CHECK(choice.estimated_bytes < 200);
}

TEST_CASE("a constant half beside a noisy one is cut off") {
  const auto choice = choose(joined({test::constant_words(16, 50000, 0), test::random_bytes(100000, 3)}), Dtype::U16);
  INFO(text_of(choice));
  CHECK(text_of(choice).starts_with("u16 = concat(50000; constant(0), "));
  CHECK(choice.estimated_bytes < 101000);
}

TEST_CASE("a stream of one kind stays whole") {
  CHECK(text_of(choose(test::gaussian_words(Dtype::BF16, 80000, 5), Dtype::BF16)).find("concat") == std::string::npos);
}

TEST_CASE("a skeleton that a person wants is used where it is true and left where it is not") {
  const ByteVector half = test::gaussian_words(Dtype::BF16, 8000, 1);
  const ByteVector tied = joined({half, half});
  CHECK(text_of(choose(tied, Dtype::BF16, "repeat(2; merge(8, 8; literal, literal(raw)))"))
            .starts_with("u16 = repeat(2; merge(8, 8; literal("));
  CHECK(text_of(choose(tied, Dtype::BF16, "concat(100; literal(packed), literal(raw))")) ==
        "u16 = concat(100; literal(packed), literal(raw))");
  CHECK(
      text_of(choose(test::gaussian_words(Dtype::BF16, 16000, 2), Dtype::BF16, "repeat(2; literal)")).find("repeat") ==
      std::string::npos);
}

TEST_CASE("regions of a skeleton are streams of their own, and what it computes is checked") {
  const ByteVector head = test::random_bytes(2000, 1), noise = test::random_bytes(600, 2);
  const ByteVector bytes = joined({noise, noise, head, test::ramp_words(16, 500, 9, 3)});
  const synth::Stream stream = stream_of(bytes, Dtype::U16);
  const auto program = dsl::parse_program("u16 = concat(600, 1000; repeat(2; literal(raw)), literal(raw), ramp(9, 3))");
  REQUIRE(program);
  const auto regions = synth::Regions::of(*program, stream);
  REQUIRE(regions);
  REQUIRE(regions->count() == 2);
  CHECK(regions->region(0).words == 300);
  CHECK(regions->region(1).words == 1000);
  CHECK(regions->saved() == 800);
  bits::OwnedWords words(16, 700);
  REQUIRE(regions->region(1).read(300, words.words()));
  CHECK(std::memcmp(words.view().data, head.data() + 600, 1400) == 0);
  CHECK(*regions->looks_true());
  const auto truth = regions->is_true();
  REQUIRE(truth);
  REQUIRE(*truth);
  CHECK((*truth)->whole == xxh3_128(bytes));
  CHECK((*truth)->regions[0] == xxh3_128(noise));
  CHECK((*truth)->regions[1] == xxh3_128(head));
  for (const size_t place : {size_t{601}, size_t{1199}, bytes.size() - 1}) {
    ByteVector other = bytes;
    other[place] ^= 0x40;
    const synth::Stream changed = stream_of(other, Dtype::U16);
    const auto found = synth::Regions::of(*program, changed)->is_true();
    REQUIRE(found);
    CHECK(!*found);
  }
  CHECK(!synth::Regions::of(*program, stream_of(head, Dtype::U16)));
}
