// SPDX-License-Identifier: Apache-2.0
#include "serve/archive_names.h"

#include <algorithm>

#include "archive/format.h"
#include "archive/layout.h"
#include "base/coding.h"

namespace brevis::serve {

namespace {

constexpr uint64_t kSniffBytes = 4096;

// What examine_prefix wants of the original: 8 + N bytes if it is safetensors, a little if it is something else.
Result<ByteVector> read_prefix(const archive::Reader& reader) {
  const archive::Manifest& manifest = reader.manifest();
  uint64_t length = std::min(manifest.original_size, kSniffBytes);
  if (!manifest.segments.empty() && manifest.segments.front().kind == archive::SegmentKind::prefix) {
    length = manifest.segments.front().length;
  } else if (manifest.original_size >= 8) {
    uint8_t first[8];
    BREVIS_TRY(archive::read_range(reader, {0, 8}, first));
    BREVIS_ASSIGN(const uint64_t header, ByteReader(first).fixed<uint64_t>());
    if (header <= archive::kMaxPrefixBytes - 8) length = std::min(manifest.original_size, 8 + header);
  }
  ByteVector prefix(length);
  BREVIS_TRY(archive::read_range(reader, {0, length}, prefix));
  return prefix;
}

}  // namespace

bool has_archive_ending(std::string_view path) {
  return path.size() > kArchiveEnding.size() && path.ends_with(kArchiveEnding) &&
         path[path.size() - kArchiveEnding.size() - 1] != '/';
}

std::string without_archive_ending(const std::string& path) {
  return has_archive_ending(path) ? path.substr(0, path.size() - kArchiveEnding.size()) : path;
}

Result<std::shared_ptr<const ArchiveNames>> read_names(const archive::Reader& reader) {
  const archive::Manifest& manifest = reader.manifest();
  const auto names = std::make_shared<ArchiveNames>();
  {
    BREVIS_ASSIGN(const ByteVector prefix, read_prefix(reader));
    names->verdict = examine_prefix(prefix, manifest.original_size);
  }
  const auto& tensors = names->verdict.tensors;
  std::vector<uint32_t> by_ordinal(tensors.size());
  for (uint32_t i = 0; i < by_ordinal.size(); ++i) by_ordinal[i] = i;
  std::sort(by_ordinal.begin(), by_ordinal.end(),
            [&](uint32_t a, uint32_t b) { return tensors[a].ordinal < tensors[b].ordinal; });
  names->info.resize(manifest.segments.size());
  for (size_t i = 0; i < manifest.segments.size(); ++i) {
    const archive::Segment& segment = manifest.segments[i];
    if (segment.kind != archive::SegmentKind::tensor) continue;
    const auto at =
        std::lower_bound(by_ordinal.begin(), by_ordinal.end(), segment.ordinal,
                         [&](uint32_t index, uint32_t ordinal) { return tensors[index].ordinal < ordinal; });
    if (at == by_ordinal.end() || tensors[*at].ordinal != segment.ordinal ||
        tensors[*at].span != Range{segment.offset, segment.length})
      return make_error(Errc::corrupt, reader.file().path() + ": segment " + std::to_string(i) +
                                           " is no tensor of the stored header (entry " +
                                           std::to_string(segment.ordinal) + ")");
    names->info[i] = &tensors[*at];
  }
  return std::shared_ptr<const ArchiveNames>(names);
}

std::optional<size_t> segment_of(const ArchiveNames& names, std::string_view tensor) {
  for (size_t i = 0; i < names.info.size(); ++i)
    if (names.info[i] != nullptr && names.info[i]->name == tensor) return i;
  return std::nullopt;
}

}  // namespace brevis::serve
