// SPDX-License-Identifier: Apache-2.0
//
// Open files: what a FileHandle of volume.h is. It keeps the version it was opened as: an archive's descriptor, or the
// plain file's.
//
// Threads: immutable. Owns: its file, and the mark that its node is in use.
#pragma once

#include <atomic>
#include <memory>

#include "base/io.h"
#include "brevis/volume.h"
#include "serve/archives.h"

namespace brevis::serve {

// A file passed through.
struct PlainFile {
  File file;
  uint64_t number = 0;  // of this object, unlike any archive's
  uint64_t device = 0;
  uint64_t size = 0;  // when it was opened; reads go to what there is
};

}  // namespace brevis::serve

namespace brevis {

class FileHandle {
 public:
  FileHandle(NodeAttr attributes, std::shared_ptr<const void> in_use, std::shared_ptr<std::atomic<uint64_t>> count)
      : attr(attributes), in_use_(std::move(in_use)), count_(std::move(count)) {
    count_->fetch_add(1, std::memory_order_relaxed);
  }
  ~FileHandle() { count_->fetch_sub(1, std::memory_order_relaxed); }
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;

  const NodeAttr attr;
  std::shared_ptr<serve::OpenArchive> archive;  // one of the two
  std::shared_ptr<const serve::PlainFile> plain;

 private:
  std::shared_ptr<const void> in_use_;
  std::shared_ptr<std::atomic<uint64_t>> count_;  // of open files
};

}  // namespace brevis
