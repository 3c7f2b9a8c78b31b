// SPDX-License-Identifier: Apache-2.0
//
// Each rule of the header's text: what is accepted although odd, what is refused, with message and place.
#include <doctest/doctest.h>

#include <cstring>

#include "brevis/model.h"
#include "support/safetensors_writer.h"

using namespace brevis;
using test::safetensors_raw;

namespace {

Verdict examine(const ByteVector& file) {
  uint64_t header = 0;
  if (file.size() >= 8) std::memcpy(&header, file.data(), 8);
  const size_t prefix = file.size() < 8 || header > file.size() - 8 ? file.size() : 8 + header;
  return examine_prefix(ByteSpan(file).first(prefix), file.size());
}

Verdict examine(std::string_view header, size_t data = 0) { return examine(safetensors_raw(header, ByteVector(data))); }

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::string nested(size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); }

// One U8 tensor of one byte; `entry` replaces its entry.
constexpr const char* kEntry = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
std::string one(const std::string& entry) { return R"({"a":)" + entry + "}"; }

}  // namespace

TEST_CASE("accepted although odd") {
  struct Case {
    std::string header;
    size_t data = 0, tensors = 0;
  };
  const std::string a = std::string(R"("a":)") + kEntry;
  const Case cases[] = {
      {"{}"},
      {"  \t\r\n{}"},
      {"{} \t\r\n  "},
      {R"({"__metadata__":{}})"},
      {R"({"__metadata__":null})"},
      {R"({"__metadata__":{"k":"1","k":"2"}})"},
      {one(kEntry), 1, 1},
      {R"({"__metadata__":{"format":"pt"},)" + a + "}", 1, 1},
      {R"({)" + a + R"(,"__metadata__":{"format":"pt"}})", 1, 1},
      {one(R"(["U8",[1],[0,1]])"), 1, 1},
      {one(R"({"dtype":"U8","more":{"x":[1,-0,1.5e-3,true,false,null,"\n"]},"shape":[1],"data_offsets":[0,1]})"), 1, 1},
      {one(R"({"data_offsets":[0,1],"shape":[1],"d\u0074ype":"\u00558"})"), 1, 1},
      {one(R"({ "dtype" : "U8" , "shape" : [ 1 ] , "data_offsets" : [ 0 , 1 ] } )"), 1, 1},
      {R"({"":)" + std::string(kEntry) + "}", 1, 1},
      {R"({"\u0000\u001f\"\\":)" + std::string(kEntry) + "}", 1, 1},
      {R"({"\ud83d\ude00":)" + std::string(kEntry) + "}", 1, 1},
      {"{\"\xc3\xa9\xf0\x9f\x98\x80\x7f\":" + std::string(kEntry) + "}", 1, 1},
      {one(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":)" + nested(125) + "}"), 1, 1},
      {one(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1e-9999})"), 1, 1},
      {one(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":0.0e99999999999999999999})"), 1, 1},
      {one(R"({"dtype":"U8","shape":[0,9223372036854775808,4],"data_offsets":[0,0]})"), 0, 1},
      {one(R"({"dtype":"F4","shape":[2],"data_offsets":[0,1]})"), 1, 1},
      {one(R"({"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]})"), 3, 1},
  };
  for (const Case& c : cases) {
    CAPTURE(c.header);
    const Verdict verdict = examine(c.header, c.data);
    CHECK(verdict.reason == "");
    CHECK(verdict.kind == VerdictKind::valid);
    CHECK(verdict.tensors.size() == c.tensors);
    CHECK(verdict.prefix_bytes == 8 + c.header.size());
    CHECK(verdict.trailing_bytes == 0);
  }
}

TEST_CASE("refused, but grammatical: lenient, with rule and place") {
  struct Case {
    std::string header;
    const char* rule;
    size_t at;  // header byte
    size_t tensors = 0;
  };
  const auto shape = [](const std::string& dims) {
    return one(R"({"dtype":"U8","shape":)" + dims + R"(,"data_offsets":[0,1]})");
  };
  const std::string kept = std::string(R"({"a":)") + kEntry + ",";
  const Case cases[] = {
      {R"({"__metadata__":{},"__metadata__":{}})", "'__metadata__' occurs twice", 19},
      {R"({"__metadata__":null,"__metadata__":null})", "'__metadata__' occurs twice", 21},
      {R"({"__metadata__":[]})", "'__metadata__' is not an object", 16},
      {R"({"__metadata__":{"n":0}})", "metadata value of 'n' is not a string", 21},
      {R"({"__metadata__":{"n":{"m":"x"}}})", "metadata value of 'n' is not a string", 21},
      {R"({"__metadata__":{"n":null}})", "metadata value of 'n' is not a string", 21},
      {one(R"({"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]})"), "tensor 'a': duplicate 'dtype'", 19},
      {one(R"({"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]})"), "tensor 'a': duplicate 'shape'", 31},
      {one(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"data_offsets":[0,1]})"),
       "tensor 'a': duplicate 'data_offsets'", 52},
      {one(R"({"shape":[1],"data_offsets":[0,1]})"), "tensor 'a': 'dtype' is missing", 1},
      {one(R"({"dtype":"U8","data_offsets":[0,1]})"), "tensor 'a': 'shape' is missing", 1},
      {one(R"({"dtype":"U8","shape":[1]})"), "tensor 'a': 'data_offsets' is missing", 1},
      {one(R"({"dtype":"Q9","shape":[1],"data_offsets":[0,1]})"), "tensor 'a': unknown dtype 'Q9', treated as bytes",
       14, 1},
      {one(R"({"dtype":"u8","shape":[1],"data_offsets":[0,1]})"), "tensor 'a': unknown dtype 'u8', treated as bytes",
       14, 1},
      {one(R"({"dtype":8,"shape":[1],"data_offsets":[0,1]})"), "tensor 'a': dtype is not a string", 14},
      {shape("[-1]"), "dimension 0 of its shape", 28},
      {shape("[1,1.0]"), "dimension 1 of its shape", 30},
      {shape("[1.5]"), "dimension 0 of its shape", 28},
      {shape("[1e0]"), "dimension 0 of its shape", 28},
      {shape("[-0]"), "dimension 0 of its shape", 28},
      {shape(R"(["1"])"), "dimension 0 of its shape", 28},
      {shape("[[1]]"), "dimension 0 of its shape", 28},
      {shape("[null]"), "dimension 0 of its shape", 28},
      {shape("[18446744073709551616]"), "dimension 0 of its shape", 28},
      {shape("1"), "shape is not an array", 27},
      {one(R"({"dtype":"U8","shape":[1],"data_offsets":[0]})"), "data_offsets holds 1 values, not 2", 46},
      {one(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1,2]})"), "data_offsets holds 3 values, not 2", 46},
      {one(R"({"dtype":"U8","shape":[1],"data_offsets":[0,"1"]})"), "an offset is not a whole number", 49},
      {one(R"({"dtype":"U8","shape":[1],"data_offsets":[-0,1]})"), "an offset is not a whole number", 47},
      {one(R"({"dtype":"U8","shape":[1],"data_offsets":{"0":1}})"), "data_offsets is not an array", 46},
      {one(R"(["U8",[1]])"), "array of 2 values", 5},
      {one(R"(["U8",[1],[0,1],0])"), "array of 4 values", 5},
      {one("0"), "tensor 'a': its entry is not an object", 5},
      {one("null"), "tensor 'a': its entry is not an object", 5},
      {kept + R"("\ud800":0})", "half of a surrogate pair", 53, 1},
      {kept + R"("x\udc00":0})", "half of a surrogate pair", 53, 1},
      {R"({"__metadata__":{"k":"\ud800\ud800"}})", "half of a surrogate pair", 21},
      {one(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":["\udfff"]})"), "half of a surrogate pair", 57, 1},
      {one(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":)" + nested(126) + "}"),
       "nested deeper than 127 levels", 56 + 125, 1},
      {one(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":)" + nested(100000) + "}"),
       "nested deeper than 127 levels", 56 + 125, 1},
      {one(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":[2,-1e999]})"), "beyond the range of a double", 59, 1},
      {one(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1)" + std::string(400, '0') + "}"),
       "beyond the range of a double", 56, 1},
  };
  for (const Case& c : cases) {
    CAPTURE(c.header.substr(0, 300));
    const Verdict verdict = examine(c.header, 1);
    CHECK(verdict.kind == VerdictKind::lenient);
    CHECK_MESSAGE(contains(verdict.reason, c.rule), verdict.reason);
    CHECK_MESSAGE(contains(verdict.reason, "(header byte " + std::to_string(c.at) + ")"), verdict.reason);
    CHECK(verdict.reason_offset == 8 + c.at);
    CHECK(verdict.tensors.size() == c.tensors);
  }
}

TEST_CASE("no JSON object: not safetensors") {
  struct Case {
    std::string header;
    const char* rule;
    size_t at;
  };
  const Case cases[] = {
      {"", "not a JSON object", 0},
      {"   ", "not a JSON object", 3},
      {"[]", "does not begin with '{'", 0},
      {"0", "does not begin with '{'", 0},
      {"\xef\xbb\xbf{}", "does not begin with '{'", 0},
      {R"({"a":)", "expected a value", 5},
      {R"({"a" 1})", "expected ':'", 5},
      {R"({"a":1,})", "expected a key", 7},
      {R"({,})", "expected a key", 1},
      {R"({"a":[1,]})", "expected a value", 8},
      {R"({a:1})", "expected a key", 1},
      {R"({'a':1})", "expected a key", 1},
      {R"({"a":1 "b":2})", "expected ',' or '}'", 7},
      {R"({"a":[1 2]})", "expected ',' or ']'", 8},
      {R"({"a":[1}})", "expected ',' or ']'", 7},
      {R"({/**/})", "expected a key", 1},
      {"{}//", "nothing but white space after", 2},
      {"{}x", "nothing but white space after", 2},
      {"{}{}", "nothing but white space after", 2},
      {std::string("{}\0", 3), "nothing but white space after", 2},
      {"{}\v", "nothing but white space after", 2},
      {std::string("{\"a\0\":1}", 8), "no raw control character", 3},
      {"{\"a\n\":1}", "no raw control character", 3},
      {R"({"a":"\x"})", "a known escape", 6},
      {R"({"a":"\u12g4"})", "four hex digits", 6},
      {R"({"a":"\U0041"})", "a known escape", 6},
      {R"({"a":01})", "without leading zeros", 5},
      {R"({"a":-})", "a digit", 6},
      {R"({"a":+1})", "a value", 5},
      {R"({"a":.5})", "a value", 5},
      {R"({"a":1.})", "a digit", 7},
      {R"({"a":1e})", "a digit", 7},
      {R"({"a":NaN})", "a value", 5},
      {R"({"a":True})", "a value", 5},
      {R"({"a":nul})", "a value", 5},
      {"{\"\xff\":1}", "not UTF-8", 2},
      {"{\"\xc0\x80\":1}", "not UTF-8", 2},
      {"{\"\xed\xa0\x80\":1}", "not UTF-8", 2},
      {"{\"\xf4\x90\x80\x80\":1}", "not UTF-8", 2},
      {"{\"\xe2\x82\":1}", "not UTF-8", 2},
      {"{\"12345678\x80\":1}", "not UTF-8", 10},
  };
  for (const Case& c : cases) {
    CAPTURE(c.header);
    const Verdict verdict = examine(c.header, 5);
    CHECK(verdict.kind == VerdictKind::not_safetensors);
    CHECK_MESSAGE(contains(verdict.reason, c.rule), verdict.reason);
    CHECK(verdict.reason_offset == 8 + c.at);
    CHECK(verdict.prefix_bytes == 0);
    CHECK(verdict.tensors.empty());
    CHECK_FALSE(verdict.looks_like.empty());
  }
}

TEST_CASE("F02: duplicate names, one span") {
  const Verdict verdict = examine(std::string(R"({"a":)") + kEntry + R"(,"a":)" + kEntry + "}", 1);
  CHECK(verdict.kind == VerdictKind::lenient);
  CHECK(verdict.reason == "tensor 'a': duplicate name (header byte 53)");
  CHECK(verdict.reason_offset == 61);
  CHECK(verdict.tensors.empty());
}

TEST_CASE("F03: readers differ on duplicate names, so their tensors are never guessed") {
  const std::string low = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  const std::string high = R"({"dtype":"U8","shape":[1],"data_offsets":[1,2]})";
  const std::string other = R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]})";
  for (const auto& [first, second] : {std::pair(low, high), std::pair(high, low)}) {
    // The second spelling of the name is escaped: names are compared as they read, not as they are written.
    for (const char* again : {"a", "\\u0061"}) {
      const Verdict verdict = examine(R"({"a":)" + first + R"(,")" + again + R"(":)" + second + "," + other + "}", 3);
      CHECK(verdict.kind == VerdictKind::lenient);
      CHECK(contains(verdict.reason, "tensor 'a': duplicate name"));
      REQUIRE(verdict.tensors.size() == 1);
      CHECK(verdict.tensors[0].name == "b");
      CHECK(verdict.tensors[0].ordinal == 2);
    }
  }
}

TEST_CASE("a name is also taken by an entry that cannot be read") {
  const Verdict verdict = examine(std::string(R"({"a":)") + kEntry + R"(,"a":0,"b":5,"b":5})", 1);
  CHECK(contains(verdict.reason, "tensor 'a': duplicate name"));
  CHECK(verdict.tensors.empty());
}

TEST_CASE("F04: metadata that is no string is refused strictly, the tensors stay") {
  const Verdict verdict = examine(std::string(R"({"__metadata__":{"n":0,"s":"x"},"a":)") + kEntry + "}", 1);
  CHECK(verdict.kind == VerdictKind::lenient);
  CHECK(verdict.reason == "metadata value of 'n' is not a string (header byte 21)");
  CHECK(verdict.metadata == decltype(verdict.metadata){{"s", "x"}});
  CHECK(verdict.tensors.size() == 1);
}

TEST_CASE("F06, F29: metadata empty, null or absent is all valid and told apart") {
  CHECK(examine(R"({"__metadata__":{}})").metadata_present);
  CHECK(examine(R"({"__metadata__":null})").metadata_present);
  CHECK_FALSE(examine("{}").metadata_present);
  const Verdict verdict = examine(R"({"__metadata__":{"format":"pt","b":"\u00e9\n"}})");
  CHECK(verdict.metadata == decltype(verdict.metadata){{"format", "pt"}, {"b", "\xc3\xa9\n"}});
}

TEST_CASE("F07: metadata alone is a valid file; the broken form of an old writer is not") {
  CHECK(examine(R"({"__metadata__":{"a":"b"}})").kind == VerdictKind::valid);
  const Verdict verdict = examine(R"({},"__metadata__":{"a":"b"}})");
  CHECK(verdict.kind == VerdictKind::not_safetensors);
  CHECK(verdict.reason_offset == 10);
  CHECK(verdict.looks_like == "safetensors with a damaged header");
}

TEST_CASE("F23: metadata full of braces, quotes and backslashes hides no tensor") {
  const std::string big(1 << 20, '}');
  const Verdict verdict =
      examine(R"({"__metadata__":{"k}{":"}{\"\\\"},{","\\":"\\\\","big":")" + big + R"("},"a":)" + kEntry + "}", 1);
  CHECK(verdict.kind == VerdictKind::valid);
  REQUIRE(verdict.tensors.size() == 1);
  REQUIRE(verdict.metadata.size() == 3);
  CHECK(verdict.metadata[0] == std::pair<std::string, std::string>("k}{", R"(}{"\"},{)"));
  CHECK(verdict.metadata[2].second == big);
}

TEST_CASE("names in messages are escaped and cut") {
  const Verdict verdict = examine(R"({"\u001b[31m)" + std::string(1000, 'x') + R"(":0})");
  CHECK(contains(verdict.reason, R"(tensor '\x1b[31mxxx)"));
  CHECK(verdict.reason.size() < 250);
}
