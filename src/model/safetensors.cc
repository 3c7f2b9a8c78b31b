// SPDX-License-Identifier: Apache-2.0
#include "model/safetensors.h"

#include <algorithm>

#include "base/checksum.h"
#include "model/json_scan.h"

namespace brevis::model {
namespace {

// A tensor name as the search for repeated names sees it: hashed, so that a million names need no second copy.
struct NameKey {
  uint64_t hash;
  uint32_t key_offset;
  uint32_t entry;  // index into entries, or kNoEntry
};
constexpr uint32_t kNoEntry = UINT32_MAX;

enum Field : unsigned { kDtype, kShape, kOffsets, kFields };
constexpr const char* kFieldNames[kFields] = {"dtype", "shape", "data_offsets"};

class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text), scan_(text) { oddities_.depth_limit = kMaxNesting; }
  ParsedHeader run();

 private:
  bool top_level();
  bool metadata(size_t key_offset);
  bool tensor(size_t key_offset, std::string name);
  bool entry_object(HeaderEntry& entry);
  bool entry_array(HeaderEntry& entry);
  bool field(HeaderEntry& entry, unsigned which, JsonToken first);
  bool dtype_field(HeaderEntry& entry, JsonToken first);
  bool shape_field(HeaderEntry& entry, JsonToken first);
  bool offsets_field(HeaderEntry& entry, JsonToken first);
  void repeated_names();
  std::string name_at(size_t key_offset) const;

  // Keeps the fault that comes first in the text.
  void fault(size_t offset, std::string message) {
    if (!out_.fault || offset < out_.fault->offset) out_.fault = HeaderFault{offset, std::move(message)};
  }
  void tensor_fault(size_t offset, std::string_view message) {
    if (!out_.fault || offset < out_.fault->offset)
      fault(offset, "tensor " + quoted(name_) + ": " + std::string(message));
  }
  void check_surrogate() {
    if (scan_.lone_surrogate() && !oddities_.surrogate_offset) oddities_.surrogate_offset = scan_.offset();
  }
  bool skip_rest(JsonToken first) { return scan_.skip_rest(first, oddities_); }

  std::string_view text_;
  JsonScanner scan_;
  JsonScanner::Oddities oddities_;
  ParsedHeader out_;
  std::vector<NameKey> names_;
  std::string name_;  // of the tensor at hand
  bool good_[kFields] = {};
};

ParsedHeader HeaderParser::run() {
  using Outcome = ParsedHeader::Outcome;
  if (!top_level()) {
    out_ = {};
    out_.outcome = scan_.ended_early() ? Outcome::cut : Outcome::no_json;
    out_.fault = HeaderFault{scan_.offset(), "header is not a JSON object: expected " + std::string(scan_.fault())};
    return std::move(out_);
  }
  out_.outcome = Outcome::object;
  repeated_names();
  if (oddities_.surrogate_offset) fault(*oddities_.surrogate_offset, "text with half of a surrogate pair");
  if (oddities_.range_offset) fault(*oddities_.range_offset, "number beyond the range of a double");
  if (oddities_.deepest > kMaxNesting)
    fault(oddities_.deepest_offset, "nested deeper than " + std::to_string(kMaxNesting) + " levels");
  return std::move(out_);
}

// False when the text is no JSON object.
bool HeaderParser::top_level() {
  const JsonToken first = scan_.next();
  if (first == JsonToken::fault) return false;
  if (first != JsonToken::begin_object) return scan_.reject("'{'"), false;
  for (;;) {
    switch (scan_.next()) {
      case JsonToken::end_object: return scan_.next() == JsonToken::end;
      case JsonToken::key: break;
      default: return false;
    }
    const size_t key_offset = scan_.offset();
    check_surrogate();
    std::string name = scan_.unescaped();
    const bool readable = name == "__metadata__" ? metadata(key_offset) : tensor(key_offset, std::move(name));
    if (!readable) return false;
  }
}

bool HeaderParser::metadata(size_t key_offset) {
  const bool repeated = out_.metadata_present;
  if (repeated) fault(key_offset, "'__metadata__' occurs twice");
  out_.metadata_present = true;
  const JsonToken first = scan_.next();
  if (repeated || first == JsonToken::literal_null) return skip_rest(first);
  if (first != JsonToken::begin_object) {
    if (first != JsonToken::fault) fault(scan_.offset(), "'__metadata__' is not an object");
    return skip_rest(first);
  }
  for (;;) {
    const JsonToken token = scan_.next();
    if (token == JsonToken::end_object) return true;
    if (token != JsonToken::key) return false;
    check_surrogate();
    std::string key = scan_.unescaped();
    const JsonToken value = scan_.next();
    if (value == JsonToken::fault) return false;
    if (value == JsonToken::string) {
      check_surrogate();
      out_.metadata.emplace_back(std::move(key), scan_.unescaped());
      continue;
    }
    fault(scan_.offset(), "metadata value of " + quoted(key) + " is not a string");
    if (!skip_rest(value)) return false;
  }
}

bool HeaderParser::tensor(size_t key_offset, std::string name) {
  name_ = std::move(name);
  const uint64_t hash = xxh3_64({reinterpret_cast<const uint8_t*>(name_.data()), name_.size()});
  names_.push_back({hash, static_cast<uint32_t>(key_offset), kNoEntry});
  HeaderEntry entry;
  entry.key_offset = static_cast<uint32_t>(key_offset);
  entry.info.ordinal = static_cast<uint32_t>(out_.entry_count++);
  std::fill(good_, good_ + kFields, false);
  const JsonToken first = scan_.next();
  switch (first) {
    case JsonToken::fault: return false;
    case JsonToken::begin_object:
      if (!entry_object(entry)) return false;
      break;
    case JsonToken::begin_array:
      if (!entry_array(entry)) return false;
      break;
    default: tensor_fault(scan_.offset(), "its entry is not an object"); return true;
  }
  if (!good_[kOffsets]) return true;
  entry.whole = good_[kDtype] && good_[kShape];
  entry.info.name = std::move(name_);
  names_.back().entry = static_cast<uint32_t>(out_.entries.size());
  out_.entries.push_back(std::move(entry));
  return true;
}

// A field that is there twice is good for nothing: which of the two would a reader believe?
bool HeaderParser::entry_object(HeaderEntry& entry) {
  bool seen[kFields] = {}, repeated[kFields] = {};
  for (;;) {
    const JsonToken token = scan_.next();
    if (token == JsonToken::end_object) break;
    if (token != JsonToken::key) return false;
    check_surrogate();
    const size_t offset = scan_.offset();
    const std::string key = scan_.unescaped();
    const auto which = static_cast<unsigned>(std::find(kFieldNames, kFieldNames + kFields, key) - kFieldNames);
    const JsonToken first = scan_.next();
    if (which < kFields && seen[which]) {
      tensor_fault(offset, "duplicate '" + key + "'");
      repeated[which] = true;
    }
    const bool read = which < kFields && !seen[which];
    if (!(read ? field(entry, which, first) : skip_rest(first))) return false;
    if (read) seen[which] = true;
  }
  for (unsigned which = 0; which < kFields; ++which) {
    if (!seen[which]) tensor_fault(entry.key_offset, std::string("'") + kFieldNames[which] + "' is missing");
    good_[which] = good_[which] && !repeated[which];
  }
  return true;
}

// ["U8",[1],[0,1]]: the reference reader takes an array of the three fields in place of an object.
bool HeaderParser::entry_array(HeaderEntry& entry) {
  const size_t offset = scan_.offset();
  unsigned count = 0;
  for (;; ++count) {
    const JsonToken first = scan_.next();
    if (first == JsonToken::fault) return false;
    if (first == JsonToken::end_array) break;
    if (!(count < kFields ? field(entry, count, first) : skip_rest(first))) return false;
  }
  if (count == kFields) return true;
  tensor_fault(offset,
               "its entry is an array of " + std::to_string(count) + " values, not of dtype, shape and offsets");
  std::fill(good_, good_ + kFields, false);
  return true;
}

// Reads one field whose first token is `first`. False when the text stops being JSON.
bool HeaderParser::field(HeaderEntry& entry, unsigned which, JsonToken first) {
  if (first == JsonToken::fault) return false;
  switch (which) {
    case kDtype: return dtype_field(entry, first);
    case kShape: return shape_field(entry, first);
    default: return offsets_field(entry, first);
  }
}

bool HeaderParser::dtype_field(HeaderEntry& entry, JsonToken first) {
  const size_t offset = scan_.offset();
  if (first != JsonToken::string) {
    tensor_fault(offset, "dtype is not a string");
    return skip_rest(first);
  }
  check_surrogate();
  entry.info.dtype_name = scan_.unescaped();
  const std::optional<Dtype> dtype = dtype_from_name(entry.info.dtype_name);
  if (!dtype) tensor_fault(offset, "unknown dtype " + quoted(entry.info.dtype_name) + ", treated as bytes");
  entry.info.dtype = dtype.value_or(Dtype::unknown);
  good_[kDtype] = true;
  return true;
}

bool HeaderParser::shape_field(HeaderEntry& entry, JsonToken first) {
  const size_t offset = scan_.offset();
  if (first != JsonToken::begin_array) {
    tensor_fault(offset, "shape is not an array");
    return skip_rest(first);
  }
  bool good = true;
  for (size_t rank = 0;; ++rank) {
    const JsonToken token = scan_.next();
    if (token == JsonToken::fault) return false;
    if (token == JsonToken::end_array) break;
    if (rank == kMaxRank) {
      tensor_fault(offset, "shape has more than " + std::to_string(kMaxRank) + " dimensions");
      good = false;
    }
    const std::optional<uint64_t> dim =
        token == JsonToken::number ? json_unsigned(scan_.text()) : std::optional<uint64_t>();
    if (!dim) {
      tensor_fault(scan_.offset(),
                   "dimension " + std::to_string(rank) + " of its shape is not a whole number of 64 bits");
      good = false;
      if (!skip_rest(token)) return false;
    } else if (good) {
      entry.info.shape.push_back(*dim);
    }
  }
  good_[kShape] = good;
  return true;
}

bool HeaderParser::offsets_field(HeaderEntry& entry, JsonToken first) {
  const size_t offset = scan_.offset();
  if (first != JsonToken::begin_array) {
    tensor_fault(offset, "data_offsets is not an array");
    return skip_rest(first);
  }
  uint64_t values[2] = {};
  bool good = true;
  size_t count = 0;
  for (;; ++count) {
    const JsonToken token = scan_.next();
    if (token == JsonToken::fault) return false;
    if (token == JsonToken::end_array) break;
    const std::optional<uint64_t> value =
        token == JsonToken::number ? json_unsigned(scan_.text()) : std::optional<uint64_t>();
    if (!value) {
      if (good) tensor_fault(scan_.offset(), "an offset is not a whole number of 64 bits");
      good = false;
      if (!skip_rest(token)) return false;
    } else if (count < 2) {
      values[count] = *value;
    }
  }
  if (count != 2) tensor_fault(offset, "data_offsets holds " + std::to_string(count) + " values, not 2");
  entry.begin = values[0];
  entry.end = values[1];
  good_[kOffsets] = good && count == 2;
  return true;
}

std::string HeaderParser::name_at(size_t key_offset) const {
  JsonScanner again(text_.substr(key_offset));
  again.next();
  return again.unescaped();
}

// Sorted by hash, equal hashes by the names themselves and then by place, so that a name's first place comes first.
void HeaderParser::repeated_names() {
  std::sort(names_.begin(), names_.end(), [this](const NameKey& a, const NameKey& b) {
    if (a.hash != b.hash) return a.hash < b.hash;
    if (const int order = name_at(a.key_offset).compare(name_at(b.key_offset)); order != 0) return order < 0;
    return a.key_offset < b.key_offset;
  });
  for (size_t i = 1; i < names_.size(); ++i) {
    const NameKey &before = names_[i - 1], &here = names_[i];
    if (before.hash != here.hash) continue;
    name_ = name_at(here.key_offset);
    if (name_at(before.key_offset) != name_) continue;
    tensor_fault(here.key_offset, "duplicate name");
    for (const uint32_t entry : {before.entry, here.entry})
      if (entry != kNoEntry) out_.entries[entry].repeated_name = true;
  }
}

}  // namespace

ParsedHeader parse_header(std::string_view text) { return HeaderParser(text).run(); }

}  // namespace brevis::model
