// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstring>
#include <iterator>
#include <string>

#include "dsl/encode.h"
#include "dsl/text.h"
#include "support/weights.h"
#include "support/words.h"
#include "synth/choose.h"

using namespace brevis;

namespace {

struct Outcome {
  synth::Choice choice;
  uint64_t bytes = 0;  // really encoded, tables included
};

Outcome choose_for(const ByteVector& bytes, Dtype dtype, synth::ChooseOptions options = {}) {
  const unsigned width = dtype_info(dtype).word_bits();
  synth::Stream stream;
  stream.dtype = dtype;
  stream.width = width;
  stream.words = bytes.size() / (width / 8);
  stream.read = [&](uint64_t first, bits::Words out) -> Status {
    std::memcpy(out.data, bytes.data() + first * (width / 8), out.bytes());
    return {};
  };
  const bits::ConstWords all{bytes.data(), stream.words, static_cast<uint8_t>(width)};
  auto choice = synth::choose(stream, synth::gather(all), options);
  REQUIRE(choice);
  Outcome out{std::move(*choice), 0};
  std::vector<std::vector<dsl::SlotTable>> slots;
  for (size_t i = 0; i < out.choice.tables.size(); ++i) {
    out.bytes += out.choice.tables[i].size();
    auto table = dsl::load_slot(*out.choice.program, out.choice.program->slots()[i], out.choice.tables[i]);
    REQUIRE(table);
    slots.push_back({*table});
  }
  auto bound = dsl::BoundProgram::bind(out.choice.program, std::move(slots));
  REQUIRE(bound);
  if (out.choice.frame_words.empty()) return out;
  Arena arena;
  for (uint64_t first = 0; first < stream.words; first += out.choice.frame_words[0]) {
    const auto part = all.part(first, std::min(out.choice.frame_words[0], stream.words - first));
    ByteVector stored, decoded(part.bytes());
    auto fits = dsl::encode_frame(**bound, 0, first, part, stored);
    REQUIRE(fits);
    REQUIRE(*fits);
    REQUIRE(dsl::decode_frame(**bound, 0, first, stored, decoded, arena));
    REQUIRE(std::memcmp(decoded.data(), part.data, part.bytes()) == 0);
    out.bytes += stored.size();
    arena.reset();
  }
  return out;
}

std::string text_of(const Outcome& outcome) { return dsl::print(*outcome.choice.program); }

}  // namespace

TEST_CASE("Gaussian BF16 weights take the joint coding of exponent and top mantissa bits: about 10.5 bits") {
  const size_t n = 400000;
  const auto outcome = choose_for(test::gaussian_words(Dtype::BF16, n, 1), Dtype::BF16);
  INFO(text_of(outcome));
  CHECK(text_of(outcome).find("alias") != std::string::npos);
  CHECK(8.0 * double(outcome.bytes) / double(n) < 10.53);
}

TEST_CASE("every float dtype of bell-shaped weights gets smaller") {
  for (const auto& [dtype, most] : std::vector<std::pair<Dtype, double>>{
           {Dtype::F16, 0.88}, {Dtype::F32, 0.86}, {Dtype::F8_E4M3, 0.90}, {Dtype::F8_E5M2, 0.75}}) {
    const auto bytes = test::gaussian_words(dtype, 100000, 2);
    const auto outcome = choose_for(bytes, dtype);
    INFO(dtype_info(dtype).name, ": ", text_of(outcome));
    CHECK(double(outcome.bytes) < most * double(bytes.size()));
  }
}

TEST_CASE("F32 that was BF16 costs what BF16 costs") {
  const auto bytes = test::upcast_words(100000, 4);
  const auto outcome = choose_for(bytes, Dtype::F32);
  INFO(text_of(outcome));
  CHECK(double(outcome.bytes) < 0.34 * double(bytes.size()));
}

TEST_CASE("constants and ramps store no frames") {
  CHECK(text_of(choose_for(test::constant_words(16, 5000, 0x3f80), Dtype::BF16)) == "u16 = constant(16256)");
  CHECK(text_of(choose_for(test::ramp_words(64, 5000, 0, 1), Dtype::I64)) == "u64 = ramp(0, 1)");
  CHECK(text_of(choose_for(test::constant_words(8, 1, 9), Dtype::U8)) == "u8 = constant(9)");
}

TEST_CASE("few distinct words become a palette's worth of bits") {
  const auto bytes = test::palette_words(32, 50000, 16, 5);
  const auto outcome = choose_for(bytes, Dtype::F32);
  INFO(text_of(outcome));
  CHECK(8.0 * double(outcome.bytes) / 50000 < 6.0);
}

TEST_CASE("a noise stream is stored at its own size, never much above") {
  for (const Dtype dtype : {Dtype::U8, Dtype::BF16, Dtype::F32, Dtype::F64, Dtype::C64}) {
    const auto bytes = test::random_bytes(80000, 6);
    const auto outcome = choose_for(bytes, dtype);
    INFO(dtype_info(dtype).name, ": ", text_of(outcome));
    CHECK(outcome.bytes <= bytes.size() + 64);
  }
}

TEST_CASE("streams of one to a few words work in every dtype") {
  for (const DtypeInfo& info : all_dtypes()) {
    for (const size_t words : {1, 2, 3, 9}) {
      const auto outcome = choose_for(test::random_bytes(words * info.word_bits() / 8, words), info.id);
      CHECK(outcome.choice.program != nullptr);
    }
  }
}

namespace {

// Entries of a vocabulary, numbered one by one: words of letters, UTF-8 and now and then digits.
std::string vocabulary(unsigned entries, uint64_t seed) {
  static constexpr const char* kSyllables[] = {"ka",  "ro",  "mit",    "en", "\u2581",
                                               "sch", "ung", "\u00e9", "20", "\u65e5"};
  test::Random random(seed);
  std::string text = "{";
  for (unsigned i = 0; i < entries; ++i) {
    text += "\n  \"";
    for (uint64_t n = 1 + random.below(5); n > 0; --n) text += kSyllables[random.below(std::size(kSyllables))];
    text += "\": " + std::to_string(i) + ",";
  }
  return text;
}

ByteVector bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

synth::Choice choice_of(const ByteVector& bytes) { return choose_for(bytes, Dtype::U8, {.may_be_text = true}).choice; }

bool is_text(const synth::Choice& choice) {
  return dsl::print(*choice.program).find("literal(text)") != std::string::npos;
}

}  // namespace

TEST_CASE("text is told from other bytes, in longer frames, and its numbers cost nothing") {
  const std::string words = vocabulary(40000, 3);
  const auto chosen = choose_for(bytes_of(words), Dtype::U8, {.may_be_text = true});
  CHECK(is_text(chosen.choice));
  CHECK(chosen.choice.settled);
  CHECK(chosen.choice.frame_words == std::vector<uint64_t>{1 << 20});
  std::string unnumbered;
  for (size_t i = 0, run = 0; i < words.size(); ++i) {
    const bool digit = words[i] >= '0' && words[i] <= '9';
    run = digit ? run + 1 : 0;
    if (!digit || words[i - run] != ' ') unnumbered += words[i];
  }
  const auto without = choose_for(bytes_of(unnumbered), Dtype::U8, {.may_be_text = true});
  CHECK(chosen.bytes < without.bytes + without.bytes / 20);
  CHECK_FALSE(is_text(choose_for(bytes_of(words), Dtype::U8).choice));  // bytes said to be numbers
}

TEST_CASE("bytes that are no text are not taken for it") {
  CHECK_FALSE(is_text(choice_of(test::random_bytes(100000, 5))));
  ByteVector printable = test::random_bytes(100000, 6);
  for (auto& byte : printable) byte = static_cast<uint8_t>(' ' + byte % 64);
  CHECK_FALSE(is_text(choice_of(printable)));  // nothing recurs
  std::string words = vocabulary(5000, 4);
  CHECK(is_text(choice_of(bytes_of(words))));
  for (size_t i = 0; i < words.size(); i += 50) words[i] = '\0';
  CHECK_FALSE(is_text(choice_of(bytes_of(words))));
  CHECK_FALSE(is_text(choice_of(ByteVector(100000, 'x'))));
  CHECK_FALSE(is_text(choice_of(bytes_of("{\"a\": 1}"))));
}

TEST_CASE("the same stream gives the same choice") {
  const auto bytes = test::channel_words(Dtype::BF16, 64, 512, 8);
  const auto a = choose_for(bytes, Dtype::BF16), b = choose_for(bytes, Dtype::BF16);
  CHECK(text_of(a) == text_of(b));
  CHECK(a.choice.tables == b.choice.tables);
}

TEST_CASE("programs asked for may deal and move words: their slots are fitted") {
  const ByteVector bytes = test::channel_words(Dtype::BF16, 300, 256, 5);
  for (const char* text :
       {"u16 = scan(add, 256; literal, context(size, 0, 16, 256, 1; literal, literal, literal, literal))",
        "u16 = offset(7, 8, 256, 300, 1, 256; merge(1, 10, 5; literal, literal, literal))",
        "u16 = select(7, 8, 256, 300; literal, literal, literal, literal)",
        "u16 = transpose(300, 256; context(field, 5, 10, 1, 1; literal, literal, literal, literal))"}) {
    CAPTURE(text);
    synth::ChooseOptions options;
    auto program = dsl::parse_program(text, true);
    REQUIRE(program);
    options.wanted = std::move(*program);
    const auto outcome = choose_for(bytes, Dtype::BF16, std::move(options));
    CHECK(text_of(outcome).substr(0, 10) == std::string(text).substr(0, 10));
  }
}
