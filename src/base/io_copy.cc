// SPDX-License-Identifier: Apache-2.0
//
// Whole files into an AtomicFile: extents are shared where the file system knows how (FICLONE), else copied inside the
// kernel, else through a buffer.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/io.h"
#include "base/io_fault.h"

namespace brevis {
namespace {

using io_detail::doing;
using io_detail::injected_fault;

constexpr uint64_t kStep = uint64_t{8} << 20;  // between two looks at whether to go on
constexpr size_t kBuffer = size_t{1} << 20;

// Bytes copied inside the kernel; 0 when it cannot between these two files (or nothing was left to read).
Result<uint64_t> copy_in_kernel(int from, int to, const std::string& path, uint64_t offset, uint64_t length) {
  off64_t in = static_cast<off64_t>(offset), out = in;
  const ssize_t got = ::copy_file_range(from, &in, to, &out, length, 0);
  if (got >= 0) return static_cast<uint64_t>(got);
  switch (errno) {
    case EINTR:
    case EXDEV:
    case EINVAL:
    case ENOSYS:
    case EOPNOTSUPP:
    case EBADF:
    case EPERM: return uint64_t{0};
    default: return Error::from_errno(errno, doing("writing", path));
  }
}

// A clone has the size that its original had by then, which another process may have changed.
Status hold_to(int fd, const std::string& path, uint64_t length) {
  struct stat made {};
  if (::fstat(fd, &made) != 0) return Error::from_errno(errno, doing("examining", path));
  const auto size = static_cast<uint64_t>(made.st_size);
  if (size < length)
    return make_error(Errc::truncated, doing("writing", path) + ": what is copied was cut to " + std::to_string(size) +
                                           " of " + std::to_string(length) + " bytes meanwhile");
  if (size > length && ::ftruncate(fd, static_cast<off_t>(length)) != 0)
    return Error::from_errno(errno, doing("writing", path));
  return {};
}

// Keeps the bytes that only memory holds few: the last fsync is then short, and with it the time in which a copy cannot
// be stopped. Best effort; what fails here fails that fsync.
void write_out_behind(int fd, uint64_t end) {
  constexpr uint64_t kAhead = 4 * kStep;
  const auto from = [&](uint64_t back) { return static_cast<off64_t>(end > back ? end - back : 0); };
  ::sync_file_range(fd, from(kStep), static_cast<off64_t>(kStep), SYNC_FILE_RANGE_WRITE);
  if (end > kAhead)
    ::sync_file_range(fd, from(kAhead + kStep), static_cast<off64_t>(kStep),
                      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
}

}  // namespace

Status AtomicFile::append_file(const File& from, uint64_t length, const std::function<Status(uint64_t done)>& step) {
  if (const int injected = injected_fault("write", path_, size_))
    return Error::from_errno(injected, doing("writing", path_));
  const uint64_t start = size_;
  BREVIS_TRY(step(0));
  // All of a file into an empty one: nothing to copy where extents can be shared.
  if (start == 0 && length > 0) {
    BREVIS_ASSIGN(const FileStat stat, from.stat());
    if (stat.size == length && ::ioctl(fd_.get(), FICLONE, from.fd()) == 0) {
      BREVIS_TRY(hold_to(fd_.get(), path_, length));
      size_ = length;
      return step(length);
    }
  }
  bool in_kernel = start == 0;
  ByteVector buffer;
  for (uint64_t done = 0; done < length;) {
    const uint64_t want = std::min(kStep, length - done);
    uint64_t got = 0;
    if (in_kernel) {
      BREVIS_ASSIGN(got, copy_in_kernel(from.fd(), fd_.get(), path_, done, want));
      in_kernel = got != 0;
      size_ += got;
    }
    if (got == 0) {
      buffer.resize(kBuffer);
      got = std::min<uint64_t>(want, buffer.size());
      const MutByteSpan part(buffer.data(), got);
      BREVIS_TRY(from.read_exact(done, part));
      BREVIS_TRY(append(part));
    }
    done += got;
    write_out_behind(fd_.get(), size_);
    BREVIS_TRY(step(done));
  }
  return {};
}

}  // namespace brevis
