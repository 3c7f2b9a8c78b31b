// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "model/model_dir.h"
#include "support/temp_dir.h"

using namespace brevis;
using namespace brevis::model;

TEST_CASE("an index gives its weight map in order") {
  const auto index = parse_shard_index(
      R"({"metadata":{"total_size":12,"x":[1]},"weight_map":{"b":"m-2.safetensors","a\u0031":"m-1.safetensors"},"y":{}})");
  REQUIRE(index);
  CHECK(index->total_size == 12);
  REQUIRE(index->weight_map.size() == 2);
  CHECK(index->weight_map[0].tensor == "b");
  CHECK(index->weight_map[1].tensor == "a1");
  CHECK(index->weight_map[1].shard == "m-1.safetensors");
  CHECK(index->repeated.empty());
}

TEST_CASE("an index with a tensor twice names it") {
  const auto index = parse_shard_index(R"({"weight_map":{"a":"1","b":"1","a":"2","a":"3"}})");
  REQUIRE(index);
  CHECK(index->weight_map.size() == 4);
  CHECK(index->repeated == std::vector<std::string>{"a"});
}

TEST_CASE("broken indexes are errors that name the byte") {
  const std::pair<const char*, const char*> cases[] = {
      {"", "byte 0"},
      {"[]", "not a JSON object (byte 0)"},
      {"{}", "no weight_map"},
      {R"({"weight_map":[]})", "weight_map is not an object"},
      {R"({"weight_map":{"a":1}})", "the shard of tensor 'a' is not a string"},
      {R"({"weight_map":{"a":"1"})", "(byte 23)"},
      {R"({"weight_map":{}}x)", "(byte 17)"},
      {"{\"\xff\":1}", "not UTF-8"},
  };
  for (const auto& [text, want] : cases) {
    CAPTURE(text);
    const auto index = parse_shard_index(text);
    REQUIRE_FALSE(index);
    CHECK(index.error().kind() == Errc::corrupt);
    CHECK_MESSAGE(index.error().message().find(want) != std::string::npos, index.error().message());
  }
}

TEST_CASE("an index is read from its file, and its path is named in errors") {
  const test::TempDir dir;
  test::write_file(dir / "model.safetensors.index.json", R"({"weight_map":{"a":"1"}})");
  CHECK(read_shard_index(dir / "model.safetensors.index.json"));
  test::write_file(dir / "bad.json", "{");
  const auto bad = read_shard_index(dir / "bad.json");
  REQUIRE_FALSE(bad);
  CHECK(bad.error().message().find("bad.json") != std::string::npos);
  CHECK(is_shard_index_name("model.fp16.safetensors.index.json"));
  CHECK_FALSE(is_shard_index_name("index.json"));
}
