// SPDX-License-Identifier: Apache-2.0
#include "bits/kernels.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "bits/bit_io.h"
#include "brevis/log.h"
#include "support/words.h"

using namespace brevis;

namespace {

// The definition of packing, a bit at a time.
ByteVector pack_by_bits(bits::ConstWords in, unsigned b) {
  ByteVector out;
  bits::BitWriter writer(out);
  for (size_t i = 0; i < in.count; ++i) writer.put(in.at(i), b);
  writer.finish();
  return out;
}

}  // namespace

TEST_CASE("kernels: scalar is always there and first") {
  REQUIRE(!bits::all_kernels().empty());
  CHECK(bits::all_kernels().front().name == "scalar");
  bool found = false;
  for (const auto& table : bits::all_kernels()) found = found || table.name == bits::kernels().name;
  CHECK(found);
}

TEST_CASE("kernels: a wish for a CPU is met or the nearest lesser taken, with a warning") {
  std::vector<std::string> warnings;
  set_log_sink([&](LogLevel level, std::string_view message, const LogFields&) {
    if (level == LogLevel::warning) warnings.emplace_back(message);
  });
  CHECK(bits::kernels_for("scalar").name == "scalar");
  CHECK(bits::kernels_for("").name == bits::all_kernels().back().name);
  CHECK(warnings.empty());
  CHECK(bits::kernels_for("sse9").name == bits::all_kernels().back().name);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("BREVIS_CPU=sse9") != std::string::npos);
  for (std::string_view wish : {"avx2", "avx512"}) {
    warnings.clear();
    const bool met = bits::kernels_for(wish).name == wish;
    CHECK(warnings.empty() == met);
  }
  set_log_sink(nullptr);
}

TEST_CASE("kernels: any table can be put to use, and taken back") {
  const bits::Kernels& before = bits::kernels();
  for (const auto& table : bits::all_kernels()) {
    bits::use_kernels(table);
    CHECK(&bits::kernels() == &table);
  }
  bits::use_kernels(before);
  CHECK(&bits::kernels() == &before);
}

TEST_CASE("kernels: the reciprocal divides every state by every frequency") {
  test::Random random(9);
  __extension__ using Wide = unsigned __int128;
  for (uint32_t f = 1; f < 65536; ++f) {
    const uint64_t reciprocal = ((uint64_t{1} << 63) - 1) / f + 1;
    auto divides = [&](uint64_t x) { return static_cast<uint64_t>(Wide{2 * x} * reciprocal >> 64) == x / f; };
    const uint64_t largest = 0xffffffff / f * f;
    REQUIRE((divides(0) && divides(f - 1) && divides(f) && divides(largest) && divides(largest - 1) &&
             divides(0xffffffff) && divides(random.next() >> 32) && divides(random.next() >> 40)));
  }
}

TEST_CASE("kernels: pack and unpack equal the definition for every width, size and length") {
  for (const auto& table : bits::all_kernels()) {
    CAPTURE(table.full_name());
    for (unsigned width = 1; width <= 64; ++width) {
      for (unsigned b = 1; b <= width; b += width > 20 ? 3 : 1) {
        for (size_t count : {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 127, 200, 513}) {
          const auto narrow = test::make_words(test::Shape::uniform, b, count, width * 1000 + count);
          bits::OwnedWords in(width, count), out(width, count);
          for (size_t i = 0; i < count; ++i) in.words().set(i, narrow.view().at(i));
          const ByteVector expected = pack_by_bits(in.view(), b);
          ByteVector packed(expected.size() + 1, 0xee);
          table.pack(in.view(), b, packed.data());
          REQUIRE(packed.back() == 0xee);
          packed.pop_back();
          REQUIRE(packed == expected);
          // From an unaligned place, with ones behind the last byte.
          ByteVector shifted(packed.size() + 1);
          if (!packed.empty()) std::memcpy(shifted.data() + 1, packed.data(), packed.size());
          table.unpack(shifted.data() + 1, b, out.words());
          REQUIRE(
              std::equal(out.view().byte_span().begin(), out.view().byte_span().end(), in.view().byte_span().begin()));
          uint64_t all = 0;
          for (size_t i = 0; i < count; ++i) all |= in.view().at(i);
          REQUIRE(table.any_bits(in.view()) == all);
        }
      }
    }
  }
}
