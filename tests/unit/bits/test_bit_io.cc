// SPDX-License-Identifier: Apache-2.0
#include "bits/bit_io.h"

#include <doctest/doctest.h>

#include <cmath>

#include "bits/log2.h"
#include "support/words.h"

using namespace brevis;

TEST_CASE("bit_io: what is written is read, whatever the sizes") {
  test::Random random(1);
  std::vector<std::pair<uint64_t, unsigned>> fields;
  ByteVector bytes;
  bits::BitWriter writer(bytes);
  for (int i = 0; i < 5000; ++i) {
    const auto n = static_cast<unsigned>(random.below(65));
    fields.emplace_back(random.next() & bits::low_mask(n), n);
    writer.put(fields.back().first, n);
  }
  for (unsigned n : {0u, 1u, 31u, 32u, 33u, 100u}) writer.put_unary(n);
  writer.finish();
  bits::BitReader reader(bytes);
  for (const auto& [value, n] : fields) REQUIRE(reader.get(n) == value);
  for (unsigned n : {0u, 1u, 31u, 32u, 33u, 100u}) REQUIRE(reader.get_unary(100) == n);
  CHECK(reader.finished());
}

TEST_CASE("bit_io: missing bits, wrong padding and left-over bytes are seen") {
  const ByteVector bytes = {0xff, 0x01};
  bits::BitReader reader(bytes);
  CHECK(reader.get(9) == 0x1ff);
  CHECK(reader.finished());
  CHECK(reader.get(8) == 0);
  CHECK(!reader.ok());
  CHECK(!reader.finished());

  bits::BitReader padded(bytes);
  padded.get(8);
  CHECK(!padded.finished());  // eight bits left, one of them set
  padded.get(1);
  CHECK(padded.finished());

  bits::BitReader unary(bytes);
  unary.get_unary(8);
  CHECK(!unary.ok());
}

TEST_CASE("bit_io: the step code keeps every value and costs one bit for a repeated size") {
  ByteVector bytes;
  bits::BitWriter writer(bytes);
  bits::StepWriter steps;
  const std::vector<uint64_t> values = {0, 0, 1, 1, 5, 7, 6, 0, ~uint64_t{0}, 0, 3, uint64_t{1} << 63, 1000, 1001};
  for (const uint64_t value : values) steps.put(writer, value);
  writer.finish();
  bits::BitReader reader(bytes);
  bits::StepReader read;
  for (const uint64_t value : values) CHECK(read.get(reader, ~uint64_t{0}) == value);
  CHECK(reader.finished());

  ByteVector ones;
  bits::BitWriter one_writer(ones);
  bits::StepWriter one_steps;
  for (int i = 0; i < 15; ++i) one_steps.put(one_writer, 1);
  one_writer.finish();
  CHECK(ones == ByteVector{0x01, 0x00});  // "10" for the first step up, then a zero each

  bits::BitReader limited(bytes);
  bits::StepReader below;
  for (int i = 0; i < 4; ++i) below.get(limited, 1);
  CHECK(limited.ok());
  CHECK(below.get(limited, 1) == 0);
  CHECK(!limited.ok());
}

TEST_CASE("log2: exact for powers of two, never above and less than two units below the real value") {
  for (unsigned e = 0; e < 64; ++e) CHECK(bits::log2_fixed(uint64_t{1} << e) == e << 16);
  test::Random random(2);
  uint32_t last = 0;
  for (uint64_t x = 1; x < 70000; ++x) {
    const uint32_t got = bits::log2_fixed(x);
    const double real = std::log2(static_cast<double>(x)) * 65536;
    REQUIRE(got <= real + 1e-6);
    REQUIRE(got > real - 2);
    REQUIRE(got >= last);
    last = got;
  }
  for (int i = 0; i < 1000; ++i) {
    const uint64_t x = random.next() >> random.below(60);
    if (x == 0) continue;
    const long double real = std::log2(static_cast<long double>(x)) * 65536;
    REQUIRE(bits::log2_fixed(x) <= real + 1e-3L);
    REQUIRE(bits::log2_fixed(x) > real - 2);
  }
  CHECK(bits::log2_fixed(3) == 103872);
}

TEST_CASE("log2: by look-up, equal up to 4096 and within two units beyond") {
  for (uint64_t x = 1; x <= 4096; ++x) REQUIRE(bits::log2_near(x) == bits::log2_fixed(x));
  for (unsigned e = 0; e < 64; ++e) CHECK(bits::log2_near(uint64_t{1} << e) == e << 16);
  CHECK(bits::log2_near(UINT64_MAX) <= 64 << 16);
  test::Random random(3);
  for (int i = 0; i < 100000; ++i) {
    const uint64_t x = random.next() >> random.below(64) | 1;
    const int64_t apart = int64_t{bits::log2_near(x)} - bits::log2_fixed(x);
    REQUIRE(std::abs(apart) <= 2);
  }
}
