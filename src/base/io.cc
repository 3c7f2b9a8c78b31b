// SPDX-License-Identifier: Apache-2.0
#include "base/io.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <limits>
#include <memory>
#include <mutex>

#include "base/io_fault.h"

namespace brevis {
namespace io_detail {
namespace {

// Programs never set a hook, so that they pay one relaxed load per call.
struct Fault {
  std::atomic<bool> armed{false};
  std::mutex mutex;
  std::shared_ptr<const FaultHook> hook;
};

Fault& fault() {
  static Fault& only = *new Fault;
  return only;
}

constexpr uint64_t kMaxOffset = std::numeric_limits<off_t>::max();

int64_t to_ns(const struct timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

}  // namespace

int injected_fault(const char* call, const std::string& path, uint64_t offset) {
  if (!fault().armed.load(std::memory_order_acquire)) return 0;
  std::shared_ptr<const FaultHook> hook;
  {
    const std::lock_guard lock(fault().mutex);
    hook = fault().hook;
  }
  return hook ? (*hook)(call, path, offset) : 0;
}

FileStat to_file_stat(const struct stat& st) {
  FileStat out;
  out.device = st.st_dev;
  out.inode = st.st_ino;
  out.size = static_cast<uint64_t>(st.st_size);
  out.mtime_ns = to_ns(st.st_mtim);
  out.ctime_ns = to_ns(st.st_ctim);
  out.atime_ns = to_ns(st.st_atim);
  out.mode = st.st_mode;
  out.uid = st.st_uid;
  out.gid = st.st_gid;
  out.links = static_cast<uint32_t>(st.st_nlink);
  out.blocks = static_cast<uint64_t>(st.st_blocks);
  return out;
}

Result<size_t> read_at(int fd, const std::string& path, uint64_t offset, MutByteSpan out) {
  if (const int injected = injected_fault("read", path, offset))
    return Error::from_errno(injected, doing("reading", path) + " at byte " + std::to_string(offset));
  size_t done = 0;
  while (done < out.size()) {
    const uint64_t at = offset + done;
    if (at < offset || at >= kMaxOffset) break;  // no file reaches there
    const size_t want = std::min<uint64_t>(out.size() - done, kMaxOffset - at);
    const ssize_t got = ::pread(fd, out.data() + done, want, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error::from_errno(errno, doing("reading", path) + " at byte " + std::to_string(at));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

Status read_exact_at(int fd, const std::string& path, uint64_t offset, MutByteSpan out) {
  BREVIS_ASSIGN(const size_t got, read_at(fd, path, offset, out));
  if (got == out.size()) return {};
  return make_error(Errc::truncated, doing("reading", path) + ": wanted " + std::to_string(out.size()) +
                                         " bytes at byte " + std::to_string(offset) + ", the file ends after " +
                                         std::to_string(got));
}

}  // namespace io_detail

using io_detail::doing;

void set_fault_hook(FaultHook hook) {
  auto& fault = io_detail::fault();
  const std::lock_guard lock(fault.mutex);
  fault.armed.store(static_cast<bool>(hook), std::memory_order_release);
  fault.hook = hook ? std::make_shared<const FaultHook>(std::move(hook)) : nullptr;
}

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

void UniqueFd::reset() {
  if (fd_ >= 0) ::close(release());
}

bool FileStat::is_regular() const { return S_ISREG(mode); }
bool FileStat::is_directory() const { return S_ISDIR(mode); }
bool FileStat::is_symlink() const { return S_ISLNK(mode); }

bool FileStat::same_version(const FileStat& other) const {
  return device == other.device && inode == other.inode && size == other.size && mtime_ns == other.mtime_ns &&
         ctime_ns == other.ctime_ns;
}

Result<File> File::open_at(int at, const std::string& path, bool follow) {
  // O_NONBLOCK: a named pipe in a model directory must not hang the caller; regular files do not care.
  const int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (follow ? 0 : O_NOFOLLOW);
  File file;
  do {
    file.fd_ = UniqueFd(::openat(at, path.c_str(), flags));
  } while (!file.fd_ && errno == EINTR);
  if (!file.fd_) return Error::from_errno(errno, doing("opening", path));
  file.path_ = path;
  return file;
}

Result<File> File::open(const std::string& path) { return open_at(AT_FDCWD, path); }

Result<FileStat> File::stat() const {
  struct stat st;
  if (::fstat(fd_.get(), &st) != 0) return Error::from_errno(errno, doing("looking at", path_));
  return io_detail::to_file_stat(st);
}

Status File::read_exact(uint64_t offset, MutByteSpan out) const {
  return io_detail::read_exact_at(fd_.get(), path_, offset, out);
}

Result<size_t> File::read_some(uint64_t offset, MutByteSpan out) const {
  return io_detail::read_at(fd_.get(), path_, offset, out);
}

namespace {

// Of file systems whose files are nowhere else: they need not say that they do not wait, and do not say so.
bool is_in_memory(int fd) {
  struct statfs system;
  return ::fstatfs(fd, &system) == 0 && (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
}

}  // namespace

bool File::read_exact_nowait(uint64_t offset, MutByteSpan out) const {
  if (out.empty()) return true;
  if (offset > io_detail::kMaxOffset || io_detail::injected_fault("read", path_, offset) != 0) return false;
  const struct iovec part { out.data(), out.size() };
  // Whatever goes wrong here is found out and reported by the waiting read that follows.
  ssize_t got = ::preadv2(fd_.get(), &part, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  if (got < 0 && errno == EOPNOTSUPP && is_in_memory(fd_.get()))
    got = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
  return got >= 0 && static_cast<size_t>(got) == out.size();
}

void File::drop_cached(Range range) const {
  // A length of 0 means "to the end" to the kernel.
  if (range.length == 0 || range.offset > io_detail::kMaxOffset) return;
  const uint64_t length = std::min(range.length, io_detail::kMaxOffset - range.offset);
  ::posix_fadvise(fd_.get(), static_cast<off_t>(range.offset), static_cast<off_t>(length), POSIX_FADV_DONTNEED);
}

void File::announce(Range range) const {
  if (range.length == 0 || range.offset > io_detail::kMaxOffset) return;
  const uint64_t length = std::min(range.length, io_detail::kMaxOffset - range.offset);
  ::posix_fadvise(fd_.get(), static_cast<off_t>(range.offset), static_cast<off_t>(length), POSIX_FADV_WILLNEED);
}

void File::advise_sequential() const { ::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_SEQUENTIAL); }

Result<std::vector<DirEntry>> list_directory_at(int at, const std::string& path) {
  UniqueFd fd(::openat(at, path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return Error::from_errno(errno, doing("opening directory", path));
  struct Close {
    void operator()(DIR* dir) const { ::closedir(dir); }
  };
  std::unique_ptr<DIR, Close> dir(::fdopendir(fd.get()));
  if (!dir) return Error::from_errno(errno, doing("listing", path));
  const int dir_fd = fd.release();  // now the stream's
  std::vector<DirEntry> entries;
  for (;;) {
    errno = 0;
    const struct dirent* entry = ::readdir(dir.get());
    if (entry == nullptr && errno != 0) return Error::from_errno(errno, doing("listing", path));
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    uint8_t type = entry->d_type;
    if (type == DT_UNKNOWN) {
      struct stat st;
      if (::fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) continue;  // removed meanwhile
        return Error::from_errno(errno, doing("looking at", path + "/" + entry->d_name));
      }
      type = static_cast<uint8_t>(IFTODT(st.st_mode));
    }
    entries.push_back({std::string(name), type});
  }
  std::sort(entries.begin(), entries.end(), [](const DirEntry& a, const DirEntry& b) { return a.name < b.name; });
  return entries;
}

Result<FileStat> stat_at(int at, const std::string& path, bool follow) {
  struct stat st;
  if (::fstatat(at, path.c_str(), &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) != 0)
    return Error::from_errno(errno, doing("looking at", path));
  return io_detail::to_file_stat(st);
}

Result<std::string> read_link_at(int at, const std::string& path) {
  std::string target(256, '\0');
  for (;;) {
    const ssize_t length = ::readlinkat(at, path.c_str(), target.data(), target.size());
    if (length < 0) return Error::from_errno(errno, doing("reading link", path));
    if (static_cast<size_t>(length) < target.size()) {
      target.resize(static_cast<size_t>(length));
      return target;
    }
    target.resize(target.size() * 2);
  }
}

Result<UniqueFd> open_directory(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return Error::from_errno(errno, doing("opening directory", path));
  return fd;
}

Result<ByteVector> read_whole_file(const std::string& path, uint64_t limit) {
  BREVIS_ASSIGN(const File file, File::open(path));
  BREVIS_ASSIGN(const FileStat st, file.stat());
  const auto refused = [&] {
    return make_error(Errc::invalid_argument,
                      doing("reading", path) + ": larger than the limit of " + std::to_string(limit) + " bytes");
  };
  if (st.is_regular() && st.size > limit) return refused();
  // The size is only a hint: files of /proc have none, and a file may grow meanwhile.
  constexpr size_t kStep = size_t{64} << 10;
  ByteVector bytes;
  for (size_t step = std::max<size_t>(st.is_regular() ? st.size : 0, kStep);; step = kStep) {
    const size_t at = bytes.size();
    bytes.resize(at + step);
    BREVIS_ASSIGN(const size_t got, file.read_some(at, MutByteSpan(bytes).subspan(at)));
    bytes.resize(at + got);
    if (bytes.size() > limit) return refused();
    if (got < step) return bytes;
  }
}

}  // namespace brevis
