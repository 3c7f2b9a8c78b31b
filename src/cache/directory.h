// SPDX-License-Identifier: Apache-2.0
//
// The directory of a cache on disk: whose it is, which files in it are ours, and the list of an earlier process.
//
//   brevis.lock         locked by whoever uses the cache
//   brevis.cache        says which version of all this it is
//   brevis.index.N      the list (index.h); the highest number counts
//   brevis.blocks.NNNN  the frames (slots.h)
//
// Files of other names belong to others and are never touched.
//
// Errors:  as disk.h says of open(). Threads: one at a time. Owns: the descriptor and the lock.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/io.h"
#include "cache/index.h"

namespace brevis::cache {

class CacheDirectory {
 public:
  // Makes the directory if need be, and takes it for this process.
  static Result<CacheDirectory> take(const std::string& path, bool allow_remote);
  // Without the lock, for a look at a cache that is in use. Errors: not_found when there is none.
  static Result<CacheDirectory> look(const std::string& path);

  // What the last process left. Cleared when it cannot be understood: then `why` says so.
  Result<std::vector<IndexRecord>> load(std::string& why);
  // A new index that holds these records; older ones are removed.
  Result<std::unique_ptr<Index>> begin_index(std::span<const IndexRecord> records);
  // Removes the index, which no longer tells the truth.
  void drop_index();
  // Removes all files of ours but the lock.
  Status clear();
  // Bytes on disk of the files of ours.
  Result<uint64_t> disk_bytes() const;

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }
  // The records as the index tells them, newest index first that can be read.
  Result<std::vector<IndexRecord>> records() const;

 private:
  CacheDirectory() = default;
  Result<std::vector<std::string>> own_names() const;
  Result<std::vector<uint64_t>> index_numbers() const;  // falling
  std::string in(const std::string& name) const { return path_ + "/" + name; }
  bool of_this_version() const;

  UniqueFd fd_, lock_;
  std::string path_;
};

// Of the bytes and of whose they are: a frame that lies where another's should is found out.
uint64_t block_checksum(const Key& key, ByteSpan bytes);

}  // namespace brevis::cache
