// SPDX-License-Identifier: Apache-2.0
//
// Which names a mounted tree shows, and what stands behind each: the rules of archives (x.brv appears as x) over the
// directories of the source. Knows paths and versions, nothing of nodes or reads.
//
//   x.brv, a whole header         x: an archive's file; x.brv itself only with show_archives
//   x.brv, foreign or damaged     x.brv, passed through, one log line
//   x.brv, not all there (yet)    the same; x from when it is whole
//   x beside x.brv                x, passed through, one log line; the archive is not shown under x
//   link x.brv to an archive      x, when the link stays in the source; a link that leaves it is shown as it is, since
//                                 following it could lead through a mount over the source and wait for ourselves
//   anything else                 itself; links are never followed here: the kernel does that for whoever asked
//
// Of each archive 64 bytes are read, once per version (device, inode, size, mtime), and of one that was written to
// lately 8 more, its last.
//
// Errors:  not_found; io. Trouble with one file never fails its directory. Threads: any.
// Owns:    the cache of headers; the source's descriptor is borrowed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "archive/reader.h"
#include "base/io.h"

namespace brevis::serve {

constexpr std::string_view kArchiveSuffix = ".brv";
constexpr std::string_view kRawName = ".brevis";  // at the root: the tree as it is on disk

// A version of a file, as far as the file system tells.
struct Version {
  uint64_t device = 0, inode = 0, size = 0;
  int64_t mtime_ns = 0;
  static Version of(const FileStat& stat) { return {stat.device, stat.inode, stat.size, stat.mtime_ns}; }
  friend bool operator==(const Version&, const Version&) = default;
};
struct VersionHash {
  size_t operator()(const Version& version) const;
};

enum class View : uint8_t {
  shown,  // archives as files
  raw,    // everything as it is: below .brevis
};

// What stands behind a name.
struct Backing {
  std::string path;         // below the source, "" for the source itself
  FileStat stat;            // of the file that holds the bytes (behind a link: what it points to)
  bool is_archive = false;  // shown as its original
  bool by_link = false;     // archives: `path` is a link
  archive::Header header;   // archives
};

struct Listed {
  std::string name;
  Backing backing;
};

class Tree {
 public:
  Tree(int source_fd, std::string source_path, bool show_archives);
  ~Tree();

  // The entry `name` of a directory of the source ("" is the source itself).
  Result<Backing> find(const std::string& directory, View view, std::string_view name) const;
  // Sorted by shown name.
  Result<std::vector<Listed>> list(const std::string& directory, View view) const;
  // The archive of that own name in a directory, whatever it is shown as. Errors: not_found, also for what is none.
  Result<Backing> archive(const std::string& directory, const std::string& name) const;
  // Every archive of a directory; the paths of the directories in it are added to `directories`.
  Result<std::vector<Backing>> archives(const std::string& directory, std::vector<std::string>& directories) const;
  // The file behind a path once more: its stat now. Errors: not_found.
  Result<FileStat> look_again(const Backing& backing) const;
  Result<std::string> link_target(const Backing& backing) const;
  // Opens what stands behind a name, of whatever version it is by now.
  Result<File> open(const Backing& backing) const;

  int source_fd() const { return source_fd_; }
  // For messages.
  std::string full_path(const std::string& path) const;
  // Forgets headers and what was warned of.
  void rescan();

 private:
  struct Cache;
  enum class Peek : uint8_t { archive, foreign, unfinished, unreadable };
  Peek peek(int directory_fd, const std::string& name, const Backing& backing, archive::Header& header) const;
  Backing classify(int directory_fd, const std::string& directory, const std::string& name, const FileStat& stat) const;
  void warn_once(const std::string& path, std::string_view what) const;

  int source_fd_;
  std::string source_path_;
  bool show_archives_;
  std::unique_ptr<Cache> cache_;
};

// Whether all of an archive is there. One that is being copied in place has its header first; one whose space was
// reserved in advance has its size first, so of files written to lately the last bytes are looked at.
bool archive_is_whole(const File& file, const FileStat& stat, const archive::Header& header);

// A number for ls -i and for tools that compare files: never 0 or 1. `view` keeps the raw archive apart from the file
// it is shown as.
uint64_t inode_number(const Backing& backing, View view);

}  // namespace brevis::serve
