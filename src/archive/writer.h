// SPDX-License-Identifier: Apache-2.0
//
// Writing an archive: frames are appended in order, records and segments added, then the file is sealed and appears
// under its name. The same calls give the same bytes.
//
// Errors:  io, no_space (nothing remains under the final name), invalid_argument when segments do not add up.
// Threads: one thread at a time. Owns: the temporary file until seal().
#pragma once

#include <map>

#include "archive/manifest.h"
#include "base/io.h"

namespace brevis::archive {

class Writer {
 public:
  static Result<Writer> create(const std::string& path, bool overwrite);
  // Counts bytes and keeps the index, writes nothing: what would an archive be like?
  static Writer discarding();

  // Numbers of pool entries; equal entries share one number.
  uint32_t add_program(std::shared_ptr<const dsl::Program> program);
  uint32_t add_table(ByteVector stored);
  // Another archive that records may use; every one added must be used.
  uint32_t add_base(Base base);
  const Manifest& manifest() const { return manifest_; }
  uint64_t bytes_written() const { return size_; }

  // Frames of a record are appended region by region, frame by frame, before add_record(), which gives its number.
  Status append_frame(ByteSpan stored);
  // Fields of the record that are not stored need not be filled.
  uint32_t add_record(Record record);
  // In file order; `offset` need not be filled.
  void add_segment(Segment segment);

  void set_provenance(std::string key, std::string value);
  void set_sha256(const Sha256& digest);

  struct Sealed {
    Digest id;
    uint64_t bytes;  // of the archive
  };
  // Writes index, footer and header, sets mode and times, makes the file durable under its name.
  Result<Sealed> seal(uint32_t mode, int64_t atime_ns, int64_t mtime_ns);

 private:
  Writer() = default;
  Status put(ByteSpan bytes);
  std::unique_ptr<AtomicFile> file_;  // null: discarding
  uint64_t size_ = 0;
  std::string path_;
  Manifest manifest_;
  Status fault_;             // of the first record that cannot be, told by seal()
  uint64_t next_frame_ = 0;  // frames of the records added
  std::map<std::string, uint32_t> table_numbers_, program_numbers_;  // by stored form
};

}  // namespace brevis::archive
