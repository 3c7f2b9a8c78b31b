// SPDX-License-Identifier: Apache-2.0
//
// The read side of a mount, without FUSE: a directory tree in which every archive x.brv appears as the original file x
// and everything else as it is. Names, attributes and reads; decoded frames are shared between readers through one
// memory budget, and each frame is decoded once however many ask for it at once.
//
// Errors:  to_errno() of every Error is what the kernel is told. A damaged frame fails reads that touch it, nothing
//          else; it is logged and counted.
// Threads: every function may be called from several threads at once. read() completes on the calling thread when the
//          bytes are at hand and on a worker when storage must be waited for, so a stalled archive never stops readers
//          of others.
// Owns:    open files, indexes, cached frames; a FileHandle keeps its version of the file until it is released.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "brevis/counters.h"
#include "brevis/error.h"
#include "brevis/types.h"

namespace brevis {

struct VolumeOptions {
  int source_fd = -1;                       // directory, opened before anything is mounted over it; not taken over
  std::string source_path;                  // for messages
  uint64_t memory = uint64_t{512} << 20;    // hard cap over frames, indexes and decodes together
  unsigned jobs = 0;                        // workers that wait for storage, 0: cores + 6
  bool show_archives = false;               // list x.brv too
  uint64_t readahead = uint64_t{16} << 20;  // bytes decoded ahead of each sequential reader at most; 0: none

  // The cache on disk (docs/operations.md); no directory: none. One that cannot be used is warned of and left out,
  // except when another process holds it (busy) or it is no place for it (invalid_argument).
  std::string cache_dir;
  uint64_t cache_size = uint64_t{20} << 30;  // bytes of decoded frames; half of what is free at most
  bool cache_always = false;                 // keep every decoded frame, not only those dear to decode again
  std::vector<std::string> base_paths;       // directories outside of the source where bases may be
};

using NodeId = uint64_t;
constexpr NodeId kRootNode = 1;

struct NodeAttr {
  NodeId id = 0;
  // Archives: from (device, inode, size, mtime) of the backing file, so that a replaced one gets a new number. Others:
  // from (device, inode) alone: a file that is written in place stays itself, as in any file system.
  uint64_t inode = 0;
  uint64_t size = 0, blocks = 0;  // blocks of 512 bytes, of the original
  int64_t mtime_ns = 0, ctime_ns = 0, atime_ns = 0;
  uint32_t mode = 0, uid = 0, gid = 0, links = 1;
};

struct VolumeEntry {
  std::string name;
  uint64_t inode = 0;  // as lookup() will report it
  uint32_t mode = 0;   // type bits
};

// Bytes of a finished read: spans of memory kept alive by `owners`, in file order (for a reply by iovec).
struct ReadResult {
  std::vector<ByteSpan> parts;
  std::vector<std::shared_ptr<const void>> owners;
  size_t bytes() const;
};
using ReadDone = std::function<void(Result<ReadResult>)>;

// Puts bytes of a node into the kernel's page cache; whole pages, or up to the file's end. May wait for requests of
// these pages to be answered. False when the kernel refuses.
using PushSink = std::function<bool(NodeId node, uint64_t offset, const ReadResult& bytes)>;

class FileHandle;

class Volume {
 public:
  // Errors: invalid_argument, io.
  static Result<std::unique_ptr<Volume>> open(const VolumeOptions& options);
  virtual ~Volume() = default;

  // Each successful lookup adds one reference to the node, forget() takes n back. The name ".brevis" at the root is the
  // tree of the raw archives (hidden from listings). A replaced archive is a new node; the old one lives on for those
  // who have it open. Errors: not_found; io.
  virtual Result<NodeAttr> lookup(NodeId parent, std::string_view name) = 0;
  virtual void forget(NodeId node, uint64_t n) = 0;
  virtual Result<NodeAttr> attributes(NodeId node) = 0;
  // Sorted by name, without . and .. .
  virtual Result<std::vector<VolumeEntry>> list(NodeId directory) = 0;
  virtual Result<std::string> link_target(NodeId node) = 0;

  // Opening reads an archive's index; damaged ones are io errors here. Closing is releasing the pointer.
  // A version that is gone from under the node's name is an io error with ESTALE: look the name up again.
  virtual Result<std::shared_ptr<FileHandle>> open_file(NodeId node) = 0;
  // The same for callers that must not wait: `done` is called exactly once, on the calling thread when the index is at
  // hand, on a worker when storage must be waited for.
  using OpenDone = std::function<void(Result<std::shared_ptr<FileHandle>>)>;
  virtual void open_file_then(NodeId node, OpenDone done) { done(open_file(node)); }
  // [offset, offset + length) cut to the file's end; 0 bytes at and past it. `done` is called exactly once.
  // `direct`: the reader goes past the page cache and may come back for the same bytes.
  virtual void read(const std::shared_ptr<FileHandle>& file, Range range, ReadDone done, bool direct = false) = 0;
  // From now on what sequential readers will ask for may be put into the page cache by `sink`, called by threads of
  // their own. Requests must be answered all the time until stop_pushing() has returned true; it returns false when a
  // push still waits after `limit`: then nothing may be destroyed.
  virtual void start_pushing(PushSink sink) = 0;
  virtual bool stop_pushing(std::chrono::milliseconds limit) = 0;
  // Attributes of the version this handle keeps; of files passed through, as they are now.
  virtual NodeAttr handle_attributes(const FileHandle& file) = 0;

  // Extended attributes of archives' files: user.brevis.sha256 (hex, of the original), ratio (packed size over
  // original, four decimals), archive (its path below the source), format (version). Other files have none: the
  // source's own are not shown. Errors: not_found for a name that is not there.
  virtual Result<std::vector<std::string>> attribute_names(NodeId node) = 0;
  virtual Result<std::string> attribute(NodeId node, std::string_view name) = 0;

  // statvfs of the source's file system.
  struct Space {
    uint64_t block_size, blocks, free_blocks, available_blocks, files, free_files;
  };
  virtual Result<Space> space() = 0;

  // The nodes that the kernel knows of a directory of the source ("" is the source itself), for telling it that a name
  // in it means another thing by now. Takes no reference. May wait for storage.
  virtual std::vector<NodeId> known_directories(const std::string& path) = 0;
  // Closes what was removed from the source and nobody reads any more, so that its room is free. May wait for storage.
  virtual void close_removed() = 0;

  virtual VolumeCounters counters() const = 0;
  // Drops what is remembered of names and headers: the next lookups look again (SIGHUP).
  virtual void rescan() = 0;
};

}  // namespace brevis
