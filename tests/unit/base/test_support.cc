// SPDX-License-Identifier: Apache-2.0
//
// The tests' own tools: what they make must be right and must never change, for ratios and goldens lean on it.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "base/checksum.h"
#include "support/golden.h"
#include "support/safetensors_writer.h"
#include "support/temp_dir.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::test;

TEST_CASE("generators give the same bytes for ever") {
  CHECK(Rng(1).next() == 0x910a2dec89025cc1u);
  CHECK(to_hex(xxh3_128(random_bytes(1000, 1))) == to_hex(xxh3_128(random_bytes(1000, 1))));
  CHECK(random_bytes(1000, 1) != random_bytes(1000, 2));
  CHECK(to_hex(xxh3_128(safetensors_bytes(mixed_model(7, 16)))) == "b4f49ccaf46aad1f760517e669236657");
}

TEST_CASE("normal values have mean 0 and deviation 1") {
  Rng rng(5);
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double value = rng.gaussian();
    REQUIRE(std::fabs(value) <= 6.0);
    sum += value;
    squares += value * value;
  }
  CHECK(std::fabs(sum / kCount) < 0.02);
  CHECK(std::fabs(squares / kCount - 1) < 0.02);
}

TEST_CASE("float words are the nearest ones") {
  CHECK(to_float_word(Dtype::F32, 1.0) == 0x3f800000);
  CHECK(to_float_word(Dtype::F64, -2.5) == std::bit_cast<uint64_t>(-2.5));
  CHECK(to_float_word(Dtype::BF16, 1.0) == 0x3f80);
  CHECK(to_float_word(Dtype::BF16, 1.00390625) == 0x3f80);  // a tie goes to the even word
  CHECK(to_float_word(Dtype::BF16, 1.01171875) == 0x3f82);  // and up to it
  CHECK(to_float_word(Dtype::F16, 65504.0) == 0x7bff);
  CHECK(to_float_word(Dtype::F16, 1e9) == 0x7bff);              // never an infinity
  CHECK(to_float_word(Dtype::F16, std::ldexp(1.0, -24)) == 1);  // the least subnormal
  CHECK(to_float_word(Dtype::F8_E4M3, 448.0) == 0x7e);
  CHECK(to_float_word(Dtype::F8_E4M3, 1e9) == 0x7e);
  CHECK(to_float_word(Dtype::F8_E4M3, -1.0) == 0xb8);
  CHECK(to_float_word(Dtype::F8_E5M2, 1.0) == 0x3c);
  CHECK(to_float_word(Dtype::F32, -0.0) == 0x80000000);
  Rng rng(9);
  for (int i = 0; i < 1000; ++i) {
    const float value = static_cast<float>(rng.gaussian());
    REQUIRE(to_float_word(Dtype::F32, value) == std::bit_cast<uint32_t>(value));
  }
}

TEST_CASE("shapes of generated data") {
  CHECK(constant_words(16, 2, 0x1234) == ByteVector{0x34, 0x12, 0x34, 0x12});
  CHECK(ramp_words(8, 3, 255, 1) == ByteVector{255, 0, 1});
  CHECK(gaussian_words(Dtype::BF16, 0, 1).empty());
  CHECK(gaussian_words(Dtype::F64, 3, 1).size() == 24);
  size_t zeros = 0;
  const ByteVector sparse = zero_heavy_words(Dtype::I8, 1000, 3, 900);
  for (const uint8_t byte : sparse) zeros += byte == 0;
  CHECK(zeros > 850);
  CHECK(zeros < 960);
  const ByteVector upcast = upcast_words(100, 3);
  for (size_t i = 0; i < 100; ++i) CHECK((upcast[4 * i] == 0 && upcast[4 * i + 1] == 0));
}

TEST_CASE("safetensors files are laid out as the format says") {
  const ByteVector file = safetensors_bytes({flat_tensor("a\"\n", Dtype::U8, {1, 2, 3})}, {{"format", "pt"}});
  uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  CHECK(length % 8 == 0);
  REQUIRE(file.size() == 8 + length + 3);
  const std::string header(reinterpret_cast<const char*>(file.data()) + 8, length);
  CHECK(header.substr(0, header.find_last_not_of(' ') + 1) ==
        R"({"__metadata__":{"format":"pt"},"a\"\u000a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})");
  CHECK(file.back() == 3);
  CHECK(safetensors_raw("").size() == 8);
}

TEST_CASE("a golden that is missing is not accepted by habit") {
  CHECK(golden_difference("no-such-golden", as_bytes("x")).find("is missing") != std::string::npos);
}

TEST_CASE("a temporary directory goes with all it holds") {
  std::string path;
  {
    const TempDir dir;
    path = dir.path();
    write_file(dir / "a/b/c", "text");
    CHECK(read_file(dir / "a/b/c") == ByteVector{'t', 'e', 'x', 't'});
    CHECK(names_in(dir.path()) == std::vector<std::string>{"a"});
  }
  CHECK_FALSE(exists(path));
}
