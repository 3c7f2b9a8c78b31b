// SPDX-License-Identifier: Apache-2.0
#include "model/model_dir.h"

#include <algorithm>
#include <string_view>

#include "base/io.h"
#include "model/json_scan.h"

namespace brevis::model {
namespace {

// The value of "weight_map". False when the text stops being JSON or holds something else (then `wrong` says what).
bool read_weight_map(JsonScanner& scan, ShardIndex& index, std::string& wrong) {
  if (scan.next() != JsonToken::begin_object) {
    wrong = "weight_map is not an object";
    return false;
  }
  for (;;) {
    const JsonToken token = scan.next();
    if (token == JsonToken::end_object) return true;
    if (token != JsonToken::key) return false;
    std::string tensor = scan.unescaped();
    const JsonToken value = scan.next();
    if (value == JsonToken::fault) return false;
    if (value != JsonToken::string) {
      wrong = "the shard of tensor " + quoted(tensor) + " is not a string";
      return false;
    }
    index.weight_map.push_back({std::move(tensor), scan.unescaped()});
  }
}

// The value of "metadata"; only total_size is of interest, and writers differ even there (some write 1e9).
bool read_metadata(JsonScanner& scan, ShardIndex& index) {
  JsonScanner::Oddities ignored;
  const JsonToken first = scan.next();
  if (first != JsonToken::begin_object) return scan.skip_rest(first, ignored);
  for (;;) {
    const JsonToken token = scan.next();
    if (token == JsonToken::end_object) return true;
    if (token != JsonToken::key) return false;
    const bool total = scan.unescaped() == "total_size";
    const JsonToken value = scan.next();
    if (total && value == JsonToken::number) index.total_size = json_unsigned(scan.text()).value_or(0);
    if (!scan.skip_rest(value, ignored)) return false;
  }
}

std::vector<std::string> repeated_tensors(const ShardIndex& index) {
  std::vector<std::string_view> names;
  names.reserve(index.weight_map.size());
  for (const ShardIndex::Entry& entry : index.weight_map) names.push_back(entry.tensor);
  std::sort(names.begin(), names.end());
  std::vector<std::string> repeated;
  for (size_t i = 1; i < names.size(); ++i)
    if (names[i] == names[i - 1] && (repeated.empty() || repeated.back() != names[i])) repeated.emplace_back(names[i]);
  return repeated;
}

}  // namespace

bool is_shard_index_name(std::string_view name) { return name.ends_with(".safetensors.index.json"); }

Result<ShardIndex> parse_shard_index(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (const auto bad = find_invalid_utf8(text))
    return make_error(Errc::corrupt, "index is not UTF-8 (byte " + std::to_string(*bad) + ")");
  JsonScanner scan(text);
  JsonScanner::Oddities ignored;
  ShardIndex index;
  std::string wrong;
  bool have_map = false;
  bool good = scan.next() == JsonToken::begin_object;
  if (!good) wrong = "index is not a JSON object";
  while (good) {
    const JsonToken token = scan.next();
    if (token == JsonToken::end_object) {
      good = scan.next() == JsonToken::end;
      break;
    }
    if (token != JsonToken::key) {
      good = false;
      break;
    }
    const std::string key = scan.unescaped();
    if (key == "weight_map") {
      have_map = true;
      good = read_weight_map(scan, index, wrong);
    } else {
      good = key == "metadata" ? read_metadata(scan, index) : scan.skip_value(ignored);
    }
  }
  if (!good) {
    if (wrong.empty() || !scan.fault().empty()) wrong = "index is not JSON: expected " + std::string(scan.fault());
    return make_error(Errc::corrupt, wrong + " (byte " + std::to_string(scan.offset()) + ")");
  }
  if (!have_map) return make_error(Errc::corrupt, "index has no weight_map");
  index.repeated = repeated_tensors(index);
  return index;
}

Result<ShardIndex> read_shard_index(const std::string& path) {
  BREVIS_ASSIGN(const ByteVector bytes, read_whole_file(path, kMaxShardIndex));
  auto index = parse_shard_index({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!index) return std::move(index).error().within(path);
  return index;
}

}  // namespace brevis::model
