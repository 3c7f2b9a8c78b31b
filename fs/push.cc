// SPDX-License-Identifier: Apache-2.0
#include "push.h"

#include <limits.h>
#include <linux/fuse.h>
#include <sys/uio.h>

#include <cerrno>
#include <vector>

namespace brevis::fs {

bool store_in_page_cache(fuse_session* session, NodeId node, uint64_t offset, const ReadResult& bytes) {
  const size_t size = bytes.bytes();
  if (size == 0 || bytes.parts.size() + 2 > IOV_MAX) return false;
  fuse_notify_store_out what = {};
  what.nodeid = node;
  what.offset = offset;
  what.size = static_cast<uint32_t>(size);
  fuse_out_header header = {};
  header.len = static_cast<uint32_t>(sizeof header + sizeof what + size);
  header.error = FUSE_NOTIFY_STORE;  // of a notification: its kind
  std::vector<iovec> parts = {{&header, sizeof header}, {&what, sizeof what}};
  for (ByteSpan part : bytes.parts) parts.push_back({const_cast<uint8_t*>(part.data()), part.size()});
  const ssize_t wrote = writev(fuse_session_fd(session), parts.data(), static_cast<int>(parts.size()));
  return wrote == static_cast<ssize_t>(header.len);
}

}  // namespace brevis::fs
