// SPDX-License-Identifier: Apache-2.0
//
// Files, as the rest of Brevis sees them: descriptors that close themselves, reads that are exact or fail, and files
// that appear under their final name whole or not at all. The only POSIX file calls outside fs/ and the terminal code
// of tools/. Files are read with pread, never mapped: a file cut short by somebody else must give an error, not a
// SIGBUS.
//
// Errors:  failed system calls come back with their errno and the path; a file shorter than asked is `truncated`.
// Threads: a File may be read from several threads at once (pread has no position); AtomicFile belongs to one thread.
// Owns:    every object owns its descriptor; AtomicFile also owns its temporary name until commit().
#pragma once

#include <sys/types.h>
#include <functional>
#include <string>

#include "brevis/error.h"
#include "brevis/types.h"

namespace brevis {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd() { reset(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset();

 private:
  int fd_ = -1;
};

// What identifies a version of a file and what a reader is shown of it. Times in nanoseconds since 1970.
struct FileStat {
  uint64_t device = 0, inode = 0, size = 0;
  int64_t mtime_ns = 0, ctime_ns = 0, atime_ns = 0;
  uint32_t mode = 0;  // type and permission bits, as st_mode
  uint32_t uid = 0, gid = 0, links = 1;
  uint64_t blocks = 0;  // of 512 bytes
  bool is_regular() const;
  bool is_directory() const;
  bool is_symlink() const;
  // Same file, same content as far as the file system tells (device, inode, size, mtime, ctime).
  bool same_version(const FileStat& other) const;
};

// A file open for reading.
class File {
 public:
  // A path relative to the directory descriptor `at` (AT_FDCWD: the working directory). `follow`: a symbolic link as
  // last component is followed, otherwise it is an error (io, ELOOP).
  static Result<File> open_at(int at, const std::string& path, bool follow = true);
  static Result<File> open(const std::string& path);
  // An open descriptor with the name it goes by in messages.
  static File adopt(UniqueFd fd, std::string path) {
    File file;
    file.fd_ = std::move(fd);
    file.path_ = std::move(path);
    return file;
  }

  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }
  Result<FileStat> stat() const;

  // Exactly out.size() bytes at `offset`, else `truncated` (the file ends) or `io`. Interrupted and short calls are
  // repeated.
  Status read_exact(uint64_t offset, MutByteSpan out) const;
  // As many bytes as there are, up to out.size(); 0 at and past the end.
  Result<size_t> read_some(uint64_t offset, MutByteSpan out) const;
  // The same without waiting for storage (preadv2 with RWF_NOWAIT): true and `out` filled when every byte was in
  // memory already, false when it would have to wait or the file system cannot say. Files of tmpfs always are.
  bool read_exact_nowait(uint64_t offset, MutByteSpan out) const;

  // Tells the kernel that these pages will not be needed again (best effort).
  void drop_cached(Range range) const;
  // Tells the kernel that the file will be read from front to back (best effort).
  void advise_sequential() const;
  // Has the system begin to read a range, without waiting for it; more than a few hundred KiB it may leave out.
  void announce(Range range) const;

 private:
  UniqueFd fd_;
  std::string path_;
};

// A file written beside its final name and renamed over it once complete: path + ".tmp-XXXXXX" until commit().
class AtomicFile {
 public:
  // `overwrite` false: fails with invalid_argument when something of that name exists, and so does commit() when it
  // exists by then. Only a regular file is ever overwritten, no device or pipe. Others can read it once its mode is
  // set.
  static Result<AtomicFile> create(const std::string& path, bool overwrite);
  AtomicFile(AtomicFile&&) noexcept = default;
  AtomicFile& operator=(AtomicFile&&) noexcept = delete;
  // Without commit(): removes the temporary file.
  ~AtomicFile();

  Status append(ByteSpan bytes);
  // The first `length` bytes of another file, shared with it where the file system can do that. `step` hears the bytes
  // done so far every few MiB; its Error ends the copy. Errors: truncated when the file is shorter.
  Status append_file(const File& from, uint64_t length, const std::function<Status(uint64_t done)>& step);
  // Overwrites bytes already appended (the header, written last).
  Status write_at(uint64_t offset, ByteSpan bytes);
  uint64_t size() const { return size_; }
  // Reads back what was appended.
  Status read_exact(uint64_t offset, MutByteSpan out) const;

  // Permission bits and times of the final file. Set-user-id and set-group-id are left out: they were given by the
  // owner of another file, and this one may belong to somebody else.
  Status set_mode_and_times(uint32_t mode, int64_t atime_ns, int64_t mtime_ns);
  // fsync, rename, fsync of the directory. After this the file is durable under its name.
  Status commit();

 private:
  AtomicFile() = default;
  UniqueFd fd_;
  std::string path_, temporary_;
  uint64_t size_ = 0;
  bool overwrite_ = false;
};

struct DirEntry {
  std::string name;
  uint8_t type;  // DT_* of <dirent.h>, DT_UNKNOWN resolved by lstat
};

// Sorted by name, without . and .. .
Result<std::vector<DirEntry>> list_directory_at(int at, const std::string& path);
// Of the link itself when `follow` is false.
Result<FileStat> stat_at(int at, const std::string& path, bool follow);
Result<std::string> read_link_at(int at, const std::string& path);
Result<UniqueFd> open_directory(const std::string& path);
// The directory and its missing parents.
Status make_directories(const std::string& path);
// Gives directory `to` the permission bits and times of directory `from`.
Status copy_directory_attributes(const std::string& from, const std::string& to);
Status make_symlink(const std::string& target, const std::string& path);
Status remove_file(const std::string& path);
// The whole file, refused beyond `limit` bytes.
Result<ByteVector> read_whole_file(const std::string& path, uint64_t limit);

// Test seam. When set, it is asked before every read, write, fsync and rename: a returned errno (non-zero) makes the
// call fail with it. Arguments: "read", "write", "fsync" or "rename", the path, the offset. Programs never set it.
using FaultHook = std::function<int(const char* call, const std::string& path, uint64_t offset)>;
void set_fault_hook(FaultHook hook);

}  // namespace brevis
