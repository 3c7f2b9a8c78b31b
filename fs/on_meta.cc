// SPDX-License-Identifier: Apache-2.0
//
// The mount as a whole and what is said about a file beside its content: the talk at the start with the kernel, space,
// extended attributes.
#include <sys/statvfs.h>

#include <cstring>
#include <string_view>

#include "brevis/control.h"
#include "handlers.h"

namespace brevis::fs {

namespace {

// Both xattr requests ask for a size first (size 0), then for the bytes.
void sized(Reply& reply, std::string_view value, size_t size) {
  if (size == 0)
    reply.attribute_size(value.size());
  else if (value.size() > size)
    reply.errnum(ERANGE);
  else
    reply.bytes(value.data(), value.size());
}

}  // namespace

void on_init(void* user_data, fuse_conn_info* connection) {
  auto& service = *static_cast<Service*>(user_data);
  // Replies from a plain buffer that is still warm beat those through pipes.
  connection->want &= ~static_cast<unsigned>(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE);
  const unsigned wish = FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_AUTO_INVAL_DATA |
                        FUSE_CAP_CACHE_SYMLINKS;
  connection->want |= connection->capable & wish;
  connection->max_background = service.max_background;
  connection->congestion_threshold = service.max_background - service.max_background / 4;
  service.initialised.store(true, std::memory_order_release);
}

void on_statfs(fuse_req_t request, fuse_ino_t) {
  guarded(request, "statfs", [&](Reply& reply) -> Status {
    BREVIS_ASSIGN(const Volume::Space space, service_of(request).volume.space());
    struct statvfs s = {};
    s.f_bsize = s.f_frsize = space.block_size;
    s.f_blocks = space.blocks;
    s.f_bfree = space.free_blocks;
    s.f_bavail = space.available_blocks;
    s.f_files = space.files;
    s.f_ffree = s.f_favail = space.free_files;
    s.f_namemax = 255;
    reply.space(s);
    return {};
  });
}

void on_getxattr(fuse_req_t request, fuse_ino_t node, const char* name, size_t size) {
  guarded(request, "getxattr", [&](Reply& reply) -> Status {
    // The kernel asks for capabilities and access lists on its own account, often: those never come from us.
    if (!std::string_view(name).starts_with("user.brevis.")) {
      reply.errnum(ENODATA);
      return {};
    }
    const Service& service = service_of(request);
    if (node == kRootNode && !service.control.empty() && std::string_view(name) == kControlAttribute) {
      sized(reply, service.control, size);
      return {};
    }
    const auto value = service.volume.attribute(node, name);
    if (!value && value.error().kind() == Errc::not_found)
      reply.errnum(ENODATA);
    else if (!value)
      reply.error(value.error());
    else
      sized(reply, *value, size);
    return {};
  });
}

void on_listxattr(fuse_req_t request, fuse_ino_t node, size_t size) {
  guarded(request, "listxattr", [&](Reply& reply) -> Status {
    BREVIS_ASSIGN(const auto names, service_of(request).volume.attribute_names(node));
    std::string list;
    if (node == kRootNode && !service_of(request).control.empty()) list.append(kControlAttribute).push_back('\0');
    for (const std::string& name : names) list.append(name).push_back('\0');
    sized(reply, list, size);
    return {};
  });
}

}  // namespace brevis::fs
