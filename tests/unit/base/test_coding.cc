// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <limits>

#include "base/coding.h"

using namespace brevis;

TEST_CASE("integers and varints come back as written") {
  ByteVector bytes;
  ByteWriter out(bytes);
  const uint64_t values[] = {0, 1, 127, 128, 16383, 16384, uint64_t{1} << 63, std::numeric_limits<uint64_t>::max()};
  out.fixed<uint32_t>(0x01020304);
  for (const uint64_t value : values) out.varint(value);
  out.bytes(ByteVector{9, 8});
  ByteReader in(bytes);
  CHECK(in.fixed<uint32_t>().value() == 0x01020304);
  CHECK(bytes[0] == 4);
  for (const uint64_t value : values) CHECK(in.varint().value() == value);
  CHECK(in.bytes(2).value()[0] == 9);
  CHECK(in.at_end());
  CHECK(in.fixed<uint8_t>().error().kind() == Errc::corrupt);
  CHECK(in.varint().error().kind() == Errc::corrupt);
  CHECK(in.bytes(0).has_value());
}

TEST_CASE("varints have one spelling and at most 64 bits") {
  const ByteVector bad[] = {
      {0x80},                                                              // ends too early
      {0x80, 0x00},                                                        // a superfluous zero group
      {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02},        // 65 bits
      {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01},  // eleven bytes
  };
  for (const auto& bytes : bad) CHECK(ByteReader(bytes).varint().error().kind() == Errc::corrupt);
  const ByteVector zero{0x00};
  CHECK(ByteReader(zero).varint().value() == 0);
}

TEST_CASE("limits and lengths beyond the bytes are errors, however large") {
  const ByteVector bytes{5, 1, 2};
  CHECK(ByteReader(bytes).varint_up_to(5, "count").value() == 5);
  const auto above = ByteReader(bytes).varint_up_to(4, "count");
  CHECK(above.error().message() == "count is 5, above the limit of 4");
  CHECK(ByteReader(bytes).bytes(4).error().kind() == Errc::corrupt);
  CHECK(ByteReader(bytes).bytes(std::numeric_limits<uint64_t>::max()).error().kind() == Errc::corrupt);
}
