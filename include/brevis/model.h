// SPDX-License-Identifier: Apache-2.0
//
// What an original file is: the verdict on a safetensors file, its tensors, and a name for files of other kinds.
// The rules are the reference implementation's (safetensors core 0.8), each checked and each named in the verdict.
//
// Errors:  a broken file is no Error but a verdict; Errors are failures to read.
// Threads: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "brevis/error.h"
#include "brevis/types.h"

namespace brevis {

enum class VerdictKind : uint8_t {
  valid,            // the reference reader accepts it and readers agree on it
  lenient,          // length and JSON object can be read, some rule is broken
  truncated,        // shorter than its header declares
  not_safetensors,  // anything else
};
std::string_view verdict_name(VerdictKind kind);

struct TensorInfo {
  std::string name;
  Dtype dtype = Dtype::unknown;
  std::string dtype_name;  // as spelled in the header
  std::vector<uint64_t> shape;
  Range span;            // in the file (not relative to the data start)
  uint32_t ordinal = 0;  // place in the header among tensor entries, from 0
};

struct Verdict {
  VerdictKind kind = VerdictKind::not_safetensors;
  // First broken rule, for people: what, where (byte offset in the file), for instance
  // "tensor 'a': duplicate name (header byte 57)". Empty when valid.
  std::string reason;
  uint64_t reason_offset = 0;
  uint64_t missing_bytes = 0;  // truncated: how many bytes the file is short of what its header declares
  std::string looks_like;      // not_safetensors: "Git LFS pointer", "zip archive (PyTorch checkpoint?)", ...
  uint64_t prefix_bytes = 0;   // 8 + header length; 0 when not_safetensors or when the file ends within the header
  bool metadata_present = false;
  std::vector<std::pair<std::string, std::string>> metadata;  // string entries, in header order
  // valid: every tensor. lenient and truncated: the sane ones (span whole inside the file, overlapping no other,
  // = shape x bits, name once). Ascending by span start, then end, then ordinal.
  std::vector<TensorInfo> tensors;
  uint64_t trailing_bytes = 0;  // after the last tensor's end, lenient
};

// Reads the header of `path` (never the data). Errors: io, not_found, permission.
Result<Verdict> examine_file(const std::string& path);
// The same of bytes held elsewhere: `prefix` is the file's first min(file_size, 8 + N) bytes.
Verdict examine_prefix(ByteSpan prefix, uint64_t file_size);
// What a file looks like from its first bytes: "Git LFS pointer", "GGUF", "zip archive", "pickle", "HTML page", "empty
// file", "JSON", ..., "unknown binary data".
std::string describe_content(ByteSpan first_bytes, uint64_t file_size);

}  // namespace brevis
