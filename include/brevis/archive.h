// SPDX-License-Identifier: Apache-2.0
//
// One archive, opened for reading without FUSE: what it holds, and the original's bytes in any range.
//
// Errors:  corrupt, truncated, unsupported, io, not_found; messages name the path and offset.
// Threads: const functions may be called from several threads at once. Owns: the open file.
#pragma once

#include <map>
#include <memory>

#include "brevis/error.h"
#include "brevis/model.h"
#include "brevis/types.h"

namespace brevis {

// The first 64 bytes of a file tell whether it is an archive: nullopt when it is something else.
// Errors: corrupt (an archive's magic but a damaged header), unsupported, io.
struct ArchiveSummary {
  uint64_t original_size;
  uint64_t archive_size;
  uint32_t version;
  Digest id;
};
Result<std::optional<ArchiveSummary>> peek_archive(const std::string& path);

// Another archive whose bytes this one uses.
struct ArchiveBase {
  Digest id;
  uint64_t original_size = 0;
  uint32_t depth = 0;  // archives that it stands on itself, one below the other
  std::string hint;    // where it was, relative to this archive's directory
};

struct ArchiveInfo {
  uint32_t version = 0;
  Digest id;
  uint64_t original_size = 0, archive_size = 0;
  uint64_t index_bytes = 0;  // stored
  std::optional<Sha256> sha256;
  std::map<std::string, std::string> provenance;
  std::vector<ArchiveBase> bases;
  size_t programs = 0, tables = 0, records = 0, segments = 0, frames = 0;
  uint64_t table_bytes = 0;  // uncompressed, in the index
};

enum class SpanKind : uint8_t { prefix, tensor, opaque };

// A span of the original file as the archive holds it.
struct ArchiveSpan {
  SpanKind kind;
  Range span;                 // of the original file
  TensorInfo tensor;          // kind tensor
  uint64_t packed_bytes = 0;  // frames' bytes; its share, for a bundle's member; 0 for a duplicate (ref)
  bool bundled = false;       // the digest is the bundle's
  Digest digest;              // XXH3-128 of the content (of the bundle's when bundled)
  bool duplicate = false;     // stored once, elsewhere in this file
  bool on_base = false;       // read through another archive, in part or whole
};

// How a span is stored, for people.
struct LeafUse {
  std::string path;    // node as text, e.g. "literal(alias)"
  unsigned width = 0;  // bits of a word
  uint64_t bytes = 0;  // payload
};
struct Explanation {
  std::string program;  // text form
  uint64_t words = 0;
  std::vector<uint64_t> frame_words;
  std::vector<LeafUse> leaves;        // in program order, over the whole record
  uint64_t frame_overhead_bytes = 0;  // lengths, counts and table choices
  uint64_t frames = 0;
  uint64_t record_bytes = 0;     // stored, of the whole record
  std::vector<uint32_t> tables;  // pool numbers used
  std::vector<size_t> bases;     // of ArchiveInfo::bases those used
  uint64_t table_bytes = 0;      // of those, uncompressed
};

class Archive {
 public:
  // `base_paths`: directories where its bases are looked for, beside its own.
  static Result<std::shared_ptr<const Archive>> open(const std::string& path,
                                                     const std::vector<std::string>& base_paths = {});
  virtual ~Archive() = default;

  virtual const std::string& path() const = 0;
  virtual const ArchiveInfo& info() const = 0;
  // Verdict of the original file, from its stored prefix (reads it on first use).
  virtual Result<Verdict> verdict() const = 0;
  // In file order; tensors named from the stored prefix.
  virtual Result<std::vector<ArchiveSpan>> spans() const = 0;
  virtual Result<Explanation> explain(const ArchiveSpan& span) const = 0;
  // Exactly range.length bytes of the original file. The first read finds and opens the bases; nothing else needs
  // them. Errors: invalid_argument beyond its end; corrupt; not_found for a base.
  virtual Status read(Range range, MutByteSpan out) const = 0;
};

}  // namespace brevis
