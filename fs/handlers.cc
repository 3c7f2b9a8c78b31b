// SPDX-License-Identifier: Apache-2.0
#include "handlers.h"

#include <limits.h>

#include <array>
#include <cstring>

#include "brevis/log.h"

namespace brevis::fs {

namespace {

// Requests that are not here are answered by the library with ENOSYS, after which the kernel does without them (flush,
// locks, poll) or never sends them: the mount is read-only, so every change ends in the kernel with EROFS.
constexpr fuse_lowlevel_ops kRequests = {
    .init = on_init,
    .lookup = on_lookup,
    .forget = on_forget,
    .getattr = on_getattr,
    .readlink = on_readlink,
    .open = on_open,
    .read = on_read,
    .release = on_release,
    .opendir = on_opendir,
    .readdir = on_readdir,
    .releasedir = on_releasedir,
    .statfs = on_statfs,
    .getxattr = on_getxattr,
    .listxattr = on_listxattr,
    .forget_multi = on_forget_multi,
    .readdirplus = on_readdirplus,
    .lseek = on_lseek,
};

timespec to_timespec(int64_t ns) {
  constexpr int64_t kSecond = 1'000'000'000;
  int64_t seconds = ns / kSecond, rest = ns % kSecond;
  if (rest < 0) --seconds, rest += kSecond;
  return {.tv_sec = seconds, .tv_nsec = rest};
}

}  // namespace

Service& service_of(fuse_req_t request) { return *static_cast<Service*>(fuse_req_userdata(request)); }

const fuse_lowlevel_ops& request_table() { return kRequests; }

void log_escaped(const char* request, const char* what) noexcept try {
  log(LogLevel::error, "a request failed inside brevis-mount", {{"request", request}, {"cause", what}});
} catch (...) {  // no memory for the line: the request still gets its answer
}

void Reply::errnum(int value) {
  if (request_) fuse_reply_err(take(), value);
}
bool Reply::entry(const fuse_entry_param& entry) { return fuse_reply_entry(take(), &entry) == 0; }
void Reply::attributes(const struct stat& attributes) { fuse_reply_attr(take(), &attributes, kAttributeSeconds); }
void Reply::link(const std::string& target) { fuse_reply_readlink(take(), target.c_str()); }
bool Reply::opened(const fuse_file_info& info) { return fuse_reply_open(take(), &info) == 0; }
bool Reply::bytes(const void* data, size_t size) {
  return fuse_reply_buf(take(), static_cast<const char*>(data), size) == 0;
}
void Reply::space(const struct statvfs& space) { fuse_reply_statfs(take(), &space); }
void Reply::attribute_size(size_t size) { fuse_reply_xattr(take(), size); }
void Reply::position(off_t offset) { fuse_reply_lseek(take(), offset); }

void Reply::parts(const ReadResult& result, size_t asked) {
  const size_t total = result.bytes();
  if (total > asked) {  // the kernel would refuse the answer and the reader would hang on nothing
    log_escaped("read", "more bytes than asked for");
    return errnum(EIO);
  }
  constexpr size_t kFew = 16;
  // The reply's own header takes one of the system's IOV_MAX.
  constexpr size_t kMost = IOV_MAX - 1;
  std::array<iovec, kFew> few;
  std::vector<iovec> many;
  iovec* vector = few.data();
  const size_t count = result.parts.size();
  if (count > kMost) {
    std::vector<uint8_t> joined;
    joined.reserve(total);
    for (ByteSpan part : result.parts) joined.insert(joined.end(), part.begin(), part.end());
    bytes(joined.data(), joined.size());
    return;
  }
  if (count > kFew) {
    many.resize(count);
    vector = many.data();
  }
  for (size_t i = 0; i < count; ++i)
    vector[i] = {.iov_base = const_cast<uint8_t*>(result.parts[i].data()), .iov_len = result.parts[i].size()};
  fuse_reply_iov(take(), vector, static_cast<int>(count));
}

struct stat to_stat(const NodeAttr& a) {
  struct stat s = {};
  s.st_ino = a.inode;
  s.st_mode = a.mode;
  s.st_nlink = a.links;
  s.st_uid = a.uid;
  s.st_gid = a.gid;
  s.st_size = static_cast<off_t>(a.size);
  s.st_blocks = static_cast<blkcnt_t>(a.blocks);
  s.st_blksize = 4096;
  s.st_atim = to_timespec(a.atime_ns);
  s.st_mtim = to_timespec(a.mtime_ns);
  s.st_ctim = to_timespec(a.ctime_ns);
  return s;
}

fuse_entry_param to_entry(const NodeAttr& a) {
  fuse_entry_param e = {};
  e.ino = a.id;
  e.attr = to_stat(a);
  e.attr_timeout = kAttributeSeconds;
  e.entry_timeout = kAttributeSeconds;
  return e;
}

}  // namespace brevis::fs
