// SPDX-License-Identifier: Apache-2.0
//
// The header of a safetensors file, taken apart: its tensor entries as written, and the first rule that its text
// breaks. What follows from entries, file size and rules together - sane tensors, the verdict - is verdict.cc.
//
// The line between a broken rule and no header at all is the grammar of JSON: text that a JSON parser refuses holds no
// entries to rely on; anything grammatical is read on past its faults, so that a file with one odd entry keeps the
// others.
//
// Memory: besides the text, at most about eight times its size, and that only for text made to that end.
// Errors:  none; faults are values. Threads: pure. Owns: nothing of the text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brevis/model.h"

namespace brevis::model {

// Above this the reference reader refuses a header; up to kMaxReadHeader we read on and call the file lenient.
constexpr uint64_t kMaxValidHeader = 100'000'000;
constexpr uint64_t kMaxReadHeader = uint64_t{256} << 20;
// The reference parser counts down from 128 and refuses at zero: the header object is the first level.
constexpr size_t kMaxNesting = 127;
// Not a rule of the reference, which has no limit: no framework reads more, and it bounds what an entry may cost.
constexpr size_t kMaxRank = 4096;

// A broken rule. `offset` counts from the header's first byte (byte 8 of the file).
struct HeaderFault {
  size_t offset = 0;
  std::string message;
};

// An entry whose two offsets could be read. Whether they and the rest make sense is not checked here.
struct HeaderEntry {
  TensorInfo info;              // span not set
  uint64_t begin = 0, end = 0;  // relative to the data start
  uint32_t key_offset = 0;      // of the name in the header
  bool whole = false;           // dtype, shape and offsets each there once, of the right types
  bool repeated_name = false;
};

struct ParsedHeader {
  enum class Outcome : uint8_t {
    object,   // a JSON object and nothing but white space around it
    cut,      // the beginning of one: the text ends too early
    no_json,  // anything else; `fault` says why
  };
  Outcome outcome = Outcome::no_json;
  std::optional<HeaderFault> fault;  // first broken rule by place in the text
  std::vector<HeaderEntry> entries;  // in header order
  uint64_t entry_count = 0;          // of all tensor entries, readable or not
  bool metadata_present = false;
  std::vector<std::pair<std::string, std::string>> metadata;
};

ParsedHeader parse_header(std::string_view text);

}  // namespace brevis::model
