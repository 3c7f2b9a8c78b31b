// SPDX-License-Identifier: Apache-2.0
//
// Archives for tests of the reading side: made through the real Writer with programs the test names, without synthesis
// or the packer, so that a test says exactly what stands in the archive.
//
// Errors:  doctest assertions fail the test. Threads: one.
#pragma once

#include <optional>
#include <string>

#include "archive/writer.h"
#include "support/safetensors_writer.h"

namespace brevis::test {

struct PackPart {
  archive::SegmentKind kind = archive::SegmentKind::opaque;
  ByteVector bytes;
  std::string program = "u8 = literal(raw)";
  uint32_t ordinal = 0;
  // Parts with the same number >= 0 make one bundle, under the first one's program.
  int bundle = -1;
  // For programs with one `base`: its spans, and what they hold.
  std::vector<archive::BaseSpan> spans{};
  ByteVector base_bytes{};
};

struct SimplePackOptions {
  uint64_t frame_bytes = 4096;
  bool sha256 = true;
  bool table_sets = false;  // a table for each of the first 16 frames, among which every frame picks
  uint32_t mode = 0644;
  int64_t mtime_ns = 1'700'000'000'123'456'789;
  std::vector<archive::Base> bases{};
  std::optional<Digest> false_digest;  // of the last record, for tests of digests
};

// Codes `bytes` as one record of `writer`, frame by frame.
uint32_t add_stream(archive::Writer& writer, ByteSpan bytes, const std::string& program,
                    const SimplePackOptions& options = {}, bool bundle = false, const PackPart* based = nullptr);

// Writes the parts, in file order, to an archive at `path`.
Result<archive::Writer::Sealed> simple_pack(const std::string& path, const std::vector<PackPart>& parts,
                                            const SimplePackOptions& options = {});

// A whole safetensors file as parts: prefix, tensors by the first program of a list that can express them, and what
// stands behind the last tensor as opaque bytes. Tensors of at most `bundle_up_to` bytes are bundled by dtype.
std::vector<PackPart> parts_of(ByteSpan file, size_t bundle_up_to = 0);

ByteVector joined(const std::vector<PackPart>& parts);

}  // namespace brevis::test
