// SPDX-License-Identifier: Apache-2.0
//
// Names and attributes. Each entry that reaches the kernel is one reference to its node, which the kernel gives back
// by forget; an entry whose reply failed never arrived, so we give it back ourselves.
#include "handlers.h"

namespace brevis::fs {

void on_lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  guarded(request, "lookup", [&](Reply& reply) -> Status {
    Volume& volume = service_of(request).volume;
    BREVIS_ASSIGN(const NodeAttr attributes, volume.lookup(parent, name));
    if (!reply.entry(to_entry(attributes))) volume.forget(attributes.id, 1);
    return {};
  });
}

void on_forget(fuse_req_t request, fuse_ino_t node, uint64_t count) {
  guarded_silent(request, "forget", [&] { service_of(request).volume.forget(node, count); });
}

void on_forget_multi(fuse_req_t request, size_t count, fuse_forget_data* forgets) {
  guarded_silent(request, "forget", [&] {
    Volume& volume = service_of(request).volume;
    for (size_t i = 0; i < count; ++i) volume.forget(forgets[i].ino, forgets[i].nlookup);
  });
}

void on_getattr(fuse_req_t request, fuse_ino_t node, fuse_file_info* info) {
  guarded(request, "getattr", [&](Reply& reply) -> Status {
    Volume& volume = service_of(request).volume;
    if (info && info->fh) {  // an open file keeps its version even when the name has gone
      reply.attributes(to_stat(volume.handle_attributes(*file_of(*info))));
      return {};
    }
    BREVIS_ASSIGN(const NodeAttr attributes, volume.attributes(node));
    reply.attributes(to_stat(attributes));
    return {};
  });
}

void on_readlink(fuse_req_t request, fuse_ino_t node) {
  guarded(request, "readlink", [&](Reply& reply) -> Status {
    BREVIS_ASSIGN(const std::string target, service_of(request).volume.link_target(node));
    reply.link(target);
    return {};
  });
}

}  // namespace brevis::fs
