// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "sizes.h"

using namespace brevis::tools;

TEST_CASE("sizes with and without units") {
  const std::pair<const char*, uint64_t> cases[] = {
      {"0", 0},
      {"65536", 65536},
      {"7B", 7},
      {"1K", 1024},
      {"1KiB", 1024},
      {"1kib", 1024},
      {"1KB", 1000},
      {"2MiB", 2 << 20},
      {"2 MB", 2'000'000},
      {"3G", 3ull << 30},
      {"4TB", 4'000'000'000'000},
      {"18446744073709551615", UINT64_MAX},
  };
  for (const auto& [text, want] : cases) {
    const auto size = parse_size(text);
    REQUIRE_MESSAGE(size, text);
    CHECK(*size == want);
  }
  for (const char* text :
       {"", "K", "-1", "+1", "1.5G", "1XB", "1KiBs", "18446744073709551616", "16777216T", " 1", "1 "}) {
    CAPTURE(text);
    const bool odd = std::string(text) == "1 ";  // a blank before a unit that is not there
    CHECK(parse_size(text).has_value() == odd);
  }
  const std::string with_nul("1K\0x", 4);
  CHECK_FALSE(parse_size(with_nul));
}

TEST_CASE("sizes for people") {
  const std::pair<uint64_t, const char*> cases[] = {
      {0, "0 B"},          {999, "999 B"},       {1000, "1.00 kB"},       {37'673, "37.7 kB"},
      {999'499, "999 kB"}, {999'500, "1.00 MB"}, {123'456'789, "123 MB"}, {UINT64_MAX, "18.4 EB"}};
  for (const auto& [bytes, want] : cases) CHECK(human_size(bytes) == want);
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1'000) == "1,000");
  CHECK(grouped(12'345'678) == "12,345,678");
  CHECK(counted(1, "file") == "1 file");
  CHECK(counted(0, "file") == "0 files");
  CHECK(counted(2'000, "file") == "2,000 files");
  CHECK(percent(1, 3) == "33.3%");
  CHECK(percent(1, 0) == "-");
  CHECK(ratio_text(3, 2) == "1.500");
  CHECK(ratio_text(0, 2) == "-");
  CHECK(ratio_text(2, 0) == "-");
}
