// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <limits>

#include "base/io.h"
#include "base/io_fault.h"

namespace brevis {
namespace {

using io_detail::doing;
using io_detail::injected_fault;

constexpr size_t kNameMax = 255;

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string temporary_name(const std::string& path) {
  static constexpr char kLetters[] = "abcdefghijklmnopqrstuvwxyz012345";
  static std::atomic<uint64_t> counter{0};
  uint64_t bits = 0;
  if (::getrandom(&bits, sizeof(bits), GRND_NONBLOCK) != static_cast<ssize_t>(sizeof(bits)))
    bits = static_cast<uint64_t>(::getpid()) * 0x9e3779b97f4a7c15u + counter.fetch_add(1);
  std::string suffix = ".tmp-";
  for (int i = 0; i < 6; ++i, bits >>= 5) suffix += kLetters[bits & 31];
  // A name that only just fits the file system has no room for the suffix.
  const size_t name_at = path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1;
  const size_t name_length = std::min(path.size() - name_at, kNameMax - suffix.size());
  return path.substr(0, name_at + name_length) + suffix;
}

Status write_exact_at(int fd, const std::string& path, uint64_t offset, ByteSpan bytes) {
  if (const int injected = injected_fault("write", path, offset))
    return Error::from_errno(injected, doing("writing", path));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = ::pwrite(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return Error::from_errno(errno, doing("writing", path));
    if (wrote == 0) return Error::from_errno(EIO, doing("writing", path));
    done += static_cast<size_t>(wrote);
  }
  return {};
}

Status sync_directory_of(const std::string& path) {
  const std::string directory = parent_of(path);
  if (const int injected = injected_fault("fsync", directory, 0))
    return Error::from_errno(injected, doing("writing directory", directory));
  BREVIS_ASSIGN(const UniqueFd fd, open_directory(directory));
  // Some file systems cannot sync a directory and say so; there is nothing more to be done then.
  if (::fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP)
    return Error::from_errno(errno, doing("writing directory", directory));
  return {};
}

// rename() that leaves an existing target alone. 0 or an errno.
int rename_new(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  // The file system does not know the flag; a hard link also refuses an existing target.
  if (::link(from.c_str(), to.c_str()) != 0) return errno;
  ::unlink(from.c_str());
  return 0;
}

Error exists_already(const std::string& path) {
  return make_error(Errc::invalid_argument, "'" + path + "' exists already and is left as it is");
}

struct timespec to_timespec(int64_t ns) {
  constexpr int64_t kSecond = 1'000'000'000;
  int64_t seconds = ns / kSecond, rest = ns % kSecond;
  if (rest < 0) seconds -= 1, rest += kSecond;
  struct timespec time {};
  time.tv_sec = seconds;
  time.tv_nsec = rest;
  return time;
}

// What commit() would refuse, and what it must not replace, told before hours of work and not after them.
Status check_target(const std::string& path, bool overwrite) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0)
    return errno == ENAMETOOLONG ? Status(Error::from_errno(errno, doing("creating", path))) : Status();
  if (!overwrite) return exists_already(path);
  // A link is looked through: renaming over /dev/stdout would take it from everybody.
  if (S_ISLNK(found.st_mode) && ::stat(path.c_str(), &found) != 0) return {};
  if (S_ISREG(found.st_mode)) return {};
  return make_error(Errc::invalid_argument,
                    "'" + path + "' is no regular file and is left as it is: name another target");
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::string& path, bool overwrite) {
  BREVIS_TRY(check_target(path, overwrite));
  AtomicFile file;
  for (int attempt = 0; attempt < 100; ++attempt) {
    file.temporary_ = temporary_name(path);
    if (const int injected = injected_fault("write", path, 0))
      return Error::from_errno(injected, doing("creating", path)).creating();
    // Nobody else's until it has the mode of what it is made from, which may be a secret.
    file.fd_ = UniqueFd(::open(file.temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.fd_) {
      file.path_ = path;
      file.overwrite_ = overwrite;
      return file;
    }
    if (errno != EEXIST && errno != EINTR) break;
  }
  return Error::from_errno(errno, doing("creating", path)).creating();
}

AtomicFile::~AtomicFile() {
  // A moved-from or committed object has no descriptor and therefore no temporary file.
  if (fd_) ::unlink(temporary_.c_str());
}

Status AtomicFile::append(ByteSpan bytes) {
  if (bytes.size() > static_cast<uint64_t>(std::numeric_limits<off_t>::max()) - size_)
    return make_error(Errc::invalid_argument, doing("writing", path_) + ": larger than a file can be");
  BREVIS_TRY(write_exact_at(fd_.get(), path_, size_, bytes));
  size_ += bytes.size();
  return {};
}

Status AtomicFile::write_at(uint64_t offset, ByteSpan bytes) {
  if (offset > size_ || bytes.size() > size_ - offset)
    return make_error(Errc::internal, doing("writing", path_) + ": bytes at " + std::to_string(offset) +
                                          " lie outside the " + std::to_string(size_) + " written so far");
  return write_exact_at(fd_.get(), path_, offset, bytes);
}

Status AtomicFile::read_exact(uint64_t offset, MutByteSpan out) const {
  return io_detail::read_exact_at(fd_.get(), path_, offset, out);
}

Status AtomicFile::set_mode_and_times(uint32_t mode, int64_t atime_ns, int64_t mtime_ns) {
  if (::fchmod(fd_.get(), mode & 0777) != 0) return Error::from_errno(errno, doing("setting the mode of", path_));
  const struct timespec times[2] = {to_timespec(atime_ns), to_timespec(mtime_ns)};
  if (::futimens(fd_.get(), times) != 0) return Error::from_errno(errno, doing("setting the times of", path_));
  return {};
}

Status AtomicFile::commit() {
  if (!fd_) return make_error(Errc::internal, doing("writing", path_) + ": committed twice");
  if (const int injected = injected_fault("fsync", path_, 0))
    return Error::from_errno(injected, doing("writing", path_));
  if (::fsync(fd_.get()) != 0) return Error::from_errno(errno, doing("writing", path_));
  int failed = injected_fault("rename", path_, 0);
  if (failed == 0) {
    if (overwrite_) {
      failed = ::rename(temporary_.c_str(), path_.c_str()) == 0 ? 0 : errno;
    } else {
      failed = rename_new(temporary_, path_);
    }
  }
  if (failed == EEXIST && !overwrite_) return exists_already(path_);
  if (failed != 0) return Error::from_errno(failed, doing("renaming a finished file to", path_));
  fd_.reset();
  return sync_directory_of(path_);
}

Status make_directories(const std::string& path) {
  for (size_t at = 0; at < path.size();) {
    at = path.find('/', at + 1);
    if (at == std::string::npos) at = path.size();
    const std::string part = path.substr(0, at);
    if (::mkdir(part.c_str(), 0777) == 0 || errno == EEXIST || errno == EISDIR) continue;
    // A parent may be closed to us (EACCES) or read-only (EROFS) and yet exist.
    const int failed = errno;
    const auto st = stat_at(AT_FDCWD, part, true);
    if (!st || !st->is_directory()) return Error::from_errno(failed, doing("creating directory", part)).creating();
  }
  BREVIS_ASSIGN(const FileStat st, stat_at(AT_FDCWD, path, true));
  if (!st.is_directory()) return Error::from_errno(ENOTDIR, doing("creating directory", path));
  return {};
}

Status copy_directory_attributes(const std::string& from, const std::string& to) {
  BREVIS_ASSIGN(const FileStat stat, stat_at(AT_FDCWD, from, true));
  if (::chmod(to.c_str(), stat.mode & 0777) != 0) return Error::from_errno(errno, doing("setting the mode of", to));
  const struct timespec times[2] = {to_timespec(stat.atime_ns), to_timespec(stat.mtime_ns)};
  if (::utimensat(AT_FDCWD, to.c_str(), times, 0) != 0)
    return Error::from_errno(errno, doing("setting the times of", to));
  return {};
}

Status make_symlink(const std::string& target, const std::string& path) {
  if (::symlink(target.c_str(), path.c_str()) != 0) return Error::from_errno(errno, doing("creating link", path));
  return {};
}

Status remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0) return Error::from_errno(errno, doing("removing", path));
  return {};
}

}  // namespace brevis
