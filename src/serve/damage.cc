// SPDX-License-Identifier: Apache-2.0
#include "serve/damage.h"

#include <new>

#include "brevis/log.h"
#include "brevis/model.h"

namespace brevis::serve {
namespace {

// A name in a log line is not worth decoding more than this for.
constexpr uint64_t kMaxPrefix = uint64_t{16} << 20;

}  // namespace

std::string tensor_at(const archive::Reader& reader, uint64_t offset) {
  const archive::Manifest& manifest = reader.manifest();
  if (offset >= manifest.original_size) return {};
  const archive::Segment& segment = manifest.segments[manifest.segment_at(offset)];
  const archive::Segment& prefix = manifest.segments.front();
  if (segment.kind != archive::SegmentKind::tensor || prefix.kind != archive::SegmentKind::prefix) return {};
  if (prefix.length > kMaxPrefix) return {};
  try {
    ByteVector bytes(prefix.length);
    if (!archive::read_range(reader, {0, prefix.length}, bytes)) return {};
    for (const TensorInfo& tensor : examine_prefix(bytes, manifest.original_size).tensors)
      if (tensor.ordinal == segment.ordinal) return tensor.name;
  } catch (const std::bad_alloc&) {
  }
  return {};
}

void log_damage(const archive::Reader& reader, const archive::FilePiece& piece, uint64_t offset, const Error& error) {
  const archive::FrameEntry& entry = reader.manifest().frames[piece.frame_index];
  LogFields fields = {{"archive", reader.file().path()}};
  if (std::string name = tensor_at(reader, offset); !name.empty()) fields.emplace_back("tensor", std::move(name));
  fields.emplace_back("frame", std::to_string(piece.frame_index));
  fields.emplace_back("offset", std::to_string(entry.offset));
  fields.emplace_back("original_offset", std::to_string(offset));
  log(LogLevel::error, "cannot serve a frame: " + error.message(), fields);
}

}  // namespace brevis::serve
