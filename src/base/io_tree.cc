// SPDX-License-Identifier: Apache-2.0
#include "base/io_tree.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/io_fault.h"

namespace brevis {
namespace {

using io_detail::doing;

// A descriptor, or -1 with errno. EAGAIN: a rename elsewhere in the tree raced with the walk; asking again is the
// documented answer.
int open_resolved(int at, const char* path, int flags, bool follow) {
  struct open_how how {};
  how.flags = static_cast<uint64_t>(flags);
  how.resolve = RESOLVE_BENEATH | (follow ? 0 : RESOLVE_NO_SYMLINKS);
  for (int attempt = 0;; ++attempt) {
    const long fd = ::syscall(SYS_openat2, at, path, &how, sizeof how);
    if (fd >= 0) return static_cast<int>(fd);
    if (errno == EINTR || (errno == EAGAIN && attempt < 64)) continue;
    // Old kernels do not know the call, some sandboxes forbid it.
    if (errno != ENOSYS && errno != EPERM) return -1;
    return ::openat(at, path, flags | O_NOFOLLOW);
  }
}

}  // namespace

Result<File> open_beneath(int at, const std::string& path, bool follow, const std::string& shown_as) {
  const std::string& name = shown_as.empty() ? path : shown_as;
  UniqueFd fd(open_resolved(at, path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, follow));
  if (!fd) return Error::from_errno(errno, doing("opening", name));
  return File::adopt(std::move(fd), name);
}

Result<UniqueFd> open_directory_beneath(int at, const std::string& path) {
  UniqueFd fd(open_resolved(at, path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, false));
  if (!fd) return Error::from_errno(errno, doing("opening directory", path));
  return fd;
}

Result<File> duplicate(const File& file) {
  UniqueFd fd(::fcntl(file.fd(), F_DUPFD_CLOEXEC, 0));
  if (!fd) return Error::from_errno(errno, doing("duplicating the descriptor of", file.path()));
  return File::adopt(std::move(fd), file.path());
}

void advise_random(const File& file) { ::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_RANDOM); }

Result<FileSystemSpace> space_of(int fd, const std::string& path) {
  struct statvfs st {};
  if (::fstatvfs(fd, &st) != 0) return Error::from_errno(errno, doing("asking for the free space of", path));
  FileSystemSpace out;
  out.block_size = st.f_frsize != 0 ? st.f_frsize : st.f_bsize;
  out.blocks = st.f_blocks;
  out.free_blocks = st.f_bfree;
  out.available_blocks = st.f_bavail;
  out.files = st.f_files;
  out.free_files = st.f_ffree;
  return out;
}

}  // namespace brevis
