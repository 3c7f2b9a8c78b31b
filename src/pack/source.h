// SPDX-License-Identifier: Apache-2.0
//
// An input file that is read in several passes and must not change between them, and streams gathered from it.
//
// Errors:  changed when the file is no longer what it was when it was opened (also when it grew shorter while read).
// Threads: read() and unchanged() may be called from several threads. Owns: the open file.
#pragma once

#include <functional>
#include <memory>

#include "archive/bases.h"
#include "archive/layout.h"
#include "base/io.h"
#include "base/threads.h"

namespace brevis::pack {

class Source {
 public:
  static Result<Source> open(const std::string& path);
  // The original of an archive, to be packed anew. size() is the original's, stat() the archive's but for that.
  static Result<Source> open_archive(const std::string& path, archive::BaseFinder& finder);
  // Null for a plain file.
  const archive::Reader* archive() const { return archive_.get(); }
  const std::string& path() const { return file_.path(); }
  const FileStat& stat() const { return stat_; }
  uint64_t size() const { return stat_.size; }
  Status read(uint64_t offset, MutByteSpan out) const;
  // Asks the file system once more.
  Status unchanged() const;
  // What to say when bytes were not the same twice.
  Error changed() const;
  const File& file() const { return file_; }

 private:
  File file_;
  FileStat stat_;
  std::shared_ptr<const archive::Reader> archive_;
  std::shared_ptr<archive::RangeReaders> original_;  // of the archive
};

// Spans of a source, one after the other, as one stream of bytes.
class SpanStream {
 public:
  SpanStream(const Source& source, std::vector<Range> spans);
  uint64_t bytes() const { return starts_.back(); }
  Status read(uint64_t offset, MutByteSpan out) const;
  // All bytes, as they were read; the source is not asked again.
  void hold(std::unique_ptr<const uint8_t[]> all) { held_ = std::move(all); }
  const uint8_t* held() const { return held_.get(); }

 private:
  std::unique_ptr<const uint8_t[]> held_;  // all or nothing
  const Source* source_;
  std::vector<Range> spans_;
  std::vector<uint64_t> starts_;  // of each span in the stream, then the end
};

// Whether the stream is what read(offset, out) gives, as far as it goes.
Result<bool> equals(const SpanStream& stream, const std::function<Status(uint64_t offset, MutByteSpan out)>& read);

}  // namespace brevis::pack
