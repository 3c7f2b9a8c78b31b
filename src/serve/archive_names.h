// SPDX-License-Identifier: Apache-2.0
//
// An archive's segments under their names: the stored prefix read, judged, and held against the segments.
//
// Errors:  corrupt when prefix and segments disagree, or the prefix cannot be decoded. Threads: pure; a value.
#pragma once

#include "archive/reader.h"
#include "brevis/model.h"

namespace brevis::serve {

constexpr std::string_view kArchiveEnding = ".brv";

// Whether `path` ends in .brv with a name before it, and the path without.
bool has_archive_ending(std::string_view path);
std::string without_archive_ending(const std::string& path);

struct ArchiveNames {
  Verdict verdict;                      // of the original file
  std::vector<const TensorInfo*> info;  // a segment each, null where it is no tensor; points into verdict
};

Result<std::shared_ptr<const ArchiveNames>> read_names(const archive::Reader& reader);

// The segment of a tensor, nullopt when there is none of that name.
std::optional<size_t> segment_of(const ArchiveNames& names, std::string_view tensor);

}  // namespace brevis::serve
