// SPDX-License-Identifier: Apache-2.0
#include "base/io_own.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/io_fault.h"

namespace brevis {
namespace {

using io_detail::doing;
using io_detail::injected_fault;

// Magic numbers of statfs(2); <linux/magic.h> lacks some.
constexpr struct {
  uint32_t magic;
  const char* name;
} kRemote[] = {
    {0x6969, "nfs"},      {0xff534d42, "cifs"},   {0xfe534d42, "smb2"}, {0x517b, "smb"},        {0x01021997, "9p"},
    {0x65735546, "fuse"}, {0x6a656a63, "virtio"}, {0x00c36400, "ceph"}, {0x0bd00bd0, "lustre"}, {0x5346414f, "afs"},
    {0x47504653, "gpfs"}, {0x73757245, "coda"},   {0x564c, "ncp"},      {0x19830326, "beegfs"},
};

}  // namespace

Result<UniqueFd> open_private_directory(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash != std::string::npos && slash > 0) BREVIS_TRY(make_directories(path.substr(0, slash)));
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return Error::from_errno(errno, doing("making directory", path));
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return Error::from_errno(errno, doing("opening directory", path));
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) return Error::from_errno(errno, doing("examining", path));
  if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0 || (st.st_uid != ::geteuid() && st.st_uid != 0))
    return make_error(
        Errc::invalid_argument,
        "others may write to '" + path + "': what is served from there must be its owner's alone (chown, chmod 700)");
  return fd;
}

std::string remote_file_system(int fd) {
  struct statfs st {};
  if (::fstatfs(fd, &st) != 0) return "unknown";
  for (const auto& [magic, name] : kRemote)
    if (magic == static_cast<uint32_t>(st.f_type)) return name;
  return {};
}

Result<UniqueFd> lock_file_at(int directory, const std::string& name, const std::string& shown_as) {
  UniqueFd fd(::openat(directory, name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return Error::from_errno(errno, doing("opening", shown_as));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno == EWOULDBLOCK) return make_error(Errc::busy, "'" + shown_as + "' is held by another process");
  return Error::from_errno(errno, doing("locking", shown_as));
}

Result<File> open_own_at(int directory, const std::string& name, const std::string& shown_as, bool create) {
  if (const int injected = injected_fault("open", shown_as, 0))
    return Error::from_errno(injected, doing("opening", shown_as));
  const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (create ? O_CREAT : 0);
  UniqueFd fd(::openat(directory, name.c_str(), flags, 0600));
  if (!fd) return Error::from_errno(errno, doing("opening", shown_as));
  File file = File::adopt(std::move(fd), shown_as);
  BREVIS_ASSIGN(const FileStat st, file.stat());
  if (!st.is_regular()) return make_error(Errc::unsupported, "'" + shown_as + "' is no regular file");
  return file;
}

Status write_exact_at(const File& file, uint64_t offset, ByteSpan bytes) {
  if (const int injected = injected_fault("write", file.path(), offset))
    return Error::from_errno(injected, doing("writing", file.path()));
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t wrote =
        ::pwrite(file.fd(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return Error::from_errno(wrote < 0 ? errno : EIO, doing("writing", file.path()));
    done += static_cast<size_t>(wrote);
  }
  return {};
}

Status sync_own(const File& file) {
  if (::fdatasync(file.fd()) != 0) return Error::from_errno(errno, doing("writing", file.path()));
  return {};
}

void start_writing(const File& file, Range range) {
  ::sync_file_range(file.fd(), static_cast<off_t>(range.offset), static_cast<off_t>(range.length),
                    SYNC_FILE_RANGE_WRITE);
}

Status remove_at(int directory, const std::string& name, const std::string& shown_as) {
  if (::unlinkat(directory, name.c_str(), 0) == 0 || errno == ENOENT) return {};
  return Error::from_errno(errno, doing("removing", shown_as));
}

}  // namespace brevis
