// SPDX-License-Identifier: Apache-2.0
//
// Opening an archive, checking it, and handing out the stored bytes of frames and the bound programs that decode them.
// The reader decodes nothing itself: serve and the tools pair it with dsl::plan and dsl::decode_frame (read_range below
// does so for callers without a cache).
//
// Requires: nothing of the file: every byte is untrusted.
// Errors:   corrupt, truncated, unsupported, io; messages name the archive's path and the offset.
// Threads:  const functions may be called from several threads at once.
// Owns:     the open file and the manifest.
#pragma once

#include <memory>

#include "archive/manifest.h"
#include "base/io.h"

namespace brevis::archive {

// What the first 64 bytes say: enough to list and stat a file.
struct Header {
  uint32_t version = 0;
  uint32_t features = 0;
  uint64_t original_size = 0;
  Digest id;
  uint64_t index_offset = 0, index_length = 0;
};

// The gate of a header's 64 bytes. Errors: not_found when the magic is foreign (this is no archive), corrupt,
// unsupported.
Result<Header> parse_header(ByteSpan first_64_bytes);

class BaseFinder;  // bases.h

class Reader {
 public:
  // Reads header, footer and index and passes them through the gate. Bases are left alone: what needs none can be read.
  static Result<std::shared_ptr<const Reader>> open(File file);
  // The same, and every base and base of a base, so that all that is missing, wrong or damaged is told before a byte is
  // read. Errors: not_found for a base that the finder does not know.
  // `as_base`: what an archive that is based on this one says of it, to be held against it first.
  static Result<std::shared_ptr<const Reader>> open(File file, BaseFinder& finder, const Base* as_base = nullptr);

  const Header& header() const { return header_; }
  const Manifest& manifest() const { return manifest_; }
  const File& file() const { return file_; }

  // The program of a record with its tables, loaded on first use and kept. Errors: corrupt.
  Result<std::shared_ptr<const dsl::BoundProgram>> bound(uint32_t record) const;

  // Reads frame `frame` (index into manifest().frames) into `buffer` (resized) and checks its checksum.
  Status read_frame(uint64_t frame, ByteVector& buffer) const;
  // The same without waiting for storage: false when it would have to wait; nothing is wrong then.
  Result<bool> read_frame_nowait(uint64_t frame, ByteVector& buffer) const;

  // By Manifest::bases' order; empty when opened without a finder.
  const std::vector<std::shared_ptr<const Reader>>& bases() const { return bases_; }

  // Approximate heap bytes held, for the memory cap; without the bases.
  uint64_t memory() const;

 private:
  friend struct ReaderAccess;
  Reader() = default;
  File file_;
  Header header_;
  Manifest manifest_;
  std::vector<std::shared_ptr<const Reader>> bases_;
  struct Loaded;  // lazily bound programs and tables, behind a lock
  std::shared_ptr<Loaded> loaded_;
};

}  // namespace brevis::archive
