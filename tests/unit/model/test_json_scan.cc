// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <random>

#include "model/json_scan.h"

using namespace brevis::model;

TEST_CASE("tokens come in order, with place and text") {
  JsonScanner scan(R"( {"a\n":[1,-2.5e+3,"x"],"b":{},"c":true} )");
  const std::pair<JsonToken, size_t> want[] = {
      {JsonToken::begin_object, 1}, {JsonToken::key, 2},     {JsonToken::begin_array, 8},
      {JsonToken::number, 9},       {JsonToken::number, 11}, {JsonToken::string, 19},
      {JsonToken::end_array, 22},   {JsonToken::key, 24},    {JsonToken::begin_object, 28},
      {JsonToken::end_object, 29},  {JsonToken::key, 31},    {JsonToken::literal_true, 35},
      {JsonToken::end_object, 39},  {JsonToken::end, 41},
  };
  for (const auto& [token, offset] : want) {
    CHECK(scan.next() == token);
    CHECK(scan.offset() == offset);
    if (offset == 2) CHECK(scan.unescaped() == "a\n");
    if (offset == 11) CHECK(scan.text() == "-2.5e+3");
  }
  CHECK(scan.next() == JsonToken::end);
}

TEST_CASE("a fault stays") {
  JsonScanner scan("[1 2]");
  scan.next();
  scan.next();
  CHECK(scan.next() == JsonToken::fault);
  CHECK(scan.offset() == 3);
  CHECK(scan.next() == JsonToken::fault);
  CHECK_FALSE(scan.ended_early());
}

TEST_CASE("every cut of a text ends early, and no longer text does") {
  const std::string text = R"({"a":[1,-2.5e+3,"x\u00e9\ud83d\ude00\\"],"b":{"c":null},"d":true,"e":false})";
  for (size_t size = 0; size < text.size(); ++size) {
    CAPTURE(size);
    JsonScanner scan(std::string_view(text).substr(0, size));
    JsonScanner::Oddities oddities;
    CHECK_FALSE((scan.skip_value(oddities) && scan.next() == JsonToken::end));
    CHECK(scan.ended_early());
  }
}

TEST_CASE("escapes are carried out") {
  const std::pair<const char*, std::string> cases[] = {
      {R"("")", ""},
      {R"("\"\\\/\b\f\n\r\t")", "\"\\/\b\f\n\r\t"},
      {R"("\u0041\u00e9\u20ac\ud83d\ude00")", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
      {R"("\ud800x\udc00")", "\xef\xbf\xbdx\xef\xbf\xbd"},
      {R"("\ud800\ud83d\ude00")", "\xef\xbf\xbd\xf0\x9f\x98\x80"},
      {R"("\u0000")", std::string(1, '\0')},
  };
  for (const auto& [text, want] : cases) {
    JsonScanner scan(text);
    CHECK(scan.next() == JsonToken::string);
    CHECK(scan.unescaped() == want);
    CHECK(scan.lone_surrogate() == (want.find("\xef\xbf\xbd") != std::string::npos));
  }
}

TEST_CASE("numbers: whole ones of 64 bits, and those beyond a double") {
  CHECK(json_unsigned("0") == 0u);
  CHECK(json_unsigned("18446744073709551615") == UINT64_MAX);
  for (const char* text : {"18446744073709551616", "-0", "-1", "1.0", "1e0", "1E0"}) CHECK_FALSE(json_unsigned(text));
  for (const char* text : {"1e309", "1.8e308", "-1E+999", "1e99999999999999999999", "12345e305", "0.01e999"})
    CHECK_MESSAGE(json_exceeds_double(text), text);
  for (const char* text : {"0", "1.7e308", "1e-999", "0e999", "0.0e99999999999999999999", "0.00001e312",
                           "1e-99999999999999999999", "-0.0", "123456789012345678901234567890"})
    CHECK_MESSAGE(!json_exceeds_double(text), text);
  CHECK(json_exceeds_double(std::string(310, '9')));
  CHECK_FALSE(json_exceeds_double("0." + std::string(400, '0') + "1"));
  CHECK_FALSE(json_exceeds_double("1." + std::string(400, '0') + "1"));
}

TEST_CASE("UTF-8: shortest forms only, no surrogates, nothing above U+10FFFF") {
  using namespace std::string_literals;
  const auto good = {""s,
                     "abc"s,
                     "\xc2\x80"s,
                     "\xdf\xbf"s,
                     "\xe0\xa0\x80"s,
                     "\xed\x9f\xbf"s,
                     "\xee\x80\x80"s,
                     "\xf0\x90\x80\x80"s,
                     "\xf4\x8f\xbf\xbf"s,
                     "12345678\xc3\xa9"
                     "9"s};
  for (const std::string& text : good) CHECK_FALSE(find_invalid_utf8(text));
  const auto bad = {"\x80"s,
                    "\xc1\xbf"s,
                    "\xc2"s,
                    "\xc2\x41"s,
                    "\xe0\x9f\xbf"s,
                    "\xed\xa0\x80"s,
                    "\xe2\x82"s,
                    "\xf0\x8f\xbf\xbf"s,
                    "\xf4\x90\x80\x80"s,
                    "\xf5\x80\x80\x80"s,
                    "\xf0\x90\x80"s,
                    "\xff"s};
  for (const std::string& text : bad)
    for (size_t before = 0; before < 10; ++before) CHECK(find_invalid_utf8(std::string(before, 'x') + text) == before);
}

TEST_CASE("skipping never recurses and stops where the value stops") {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']') + ",";
  JsonScanner scan("[" + deep.substr(0, deep.size()) + "7]");
  std::string text = "[" + deep + "7]";
  JsonScanner again(text);
  CHECK(again.next() == JsonToken::begin_array);
  JsonScanner::Oddities oddities;
  oddities.depth_limit = 10;
  CHECK(again.skip_value(oddities));
  CHECK(oddities.deepest == 1'000'001);
  CHECK(oddities.deepest_offset == 10);
  CHECK(again.next() == JsonToken::number);
}
