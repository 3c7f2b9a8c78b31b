// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <set>

#include "brevis/types.h"

using namespace brevis;

TEST_CASE("hex is lower case, the high word of a digest first") {
  CHECK(to_hex(Digest{0x0123456789abcdefu, 0x1u}) == "00000000000000010123456789abcdef");
  const uint8_t bytes[] = {0x00, 0x9f, 0xff};
  CHECK(to_hex(ByteSpan(bytes)) == "009fff");
  CHECK(to_hex(ByteSpan{}).empty());
}

TEST_CASE("every dtype of safetensors is known by its exact name") {
  std::set<std::string_view> names;
  for (const auto& info : all_dtypes()) {
    CAPTURE(info.name);
    CHECK(names.insert(info.name).second);
    CHECK(dtype_from_name(info.name) == info.id);
    CHECK(dtype_info(info.id).name == info.name);
    CHECK(info.word_bits() % 8 == 0);
    CHECK(info.word_bits() <= 64);
    if (info.exponent_bits != 0) CHECK(info.sign_bits + info.exponent_bits + info.mantissa_bits == info.bits);
  }
  CHECK(names.size() == 22);
  CHECK_FALSE(dtype_from_name("bf16").has_value());
  CHECK_FALSE(dtype_from_name("").has_value());
  CHECK_FALSE(dtype_from_name("unknown").has_value());
}

TEST_CASE("an unknown dtype is read as bytes") {
  CHECK(dtype_info(Dtype::unknown).word_bits() == 8);
  CHECK(dtype_info(static_cast<Dtype>(250)).id == Dtype::unknown);
}

TEST_CASE("elements smaller than a byte are read as bytes and are no floats to split") {
  CHECK(dtype_info(Dtype::F4).word_bits() == 8);
  CHECK_FALSE(dtype_info(Dtype::F6_E2M3).is_float());
  CHECK(dtype_info(Dtype::F8_E4M3).is_float());
  CHECK_FALSE(dtype_info(Dtype::I8).is_float());
}
