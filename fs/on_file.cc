// SPDX-License-Identifier: Apache-2.0
//
// Open files. The kernel keeps what it has read (keep_cache): a node's bytes never change, since a replaced file is a
// node of its own. direct_io is never set: it would make shared mappings fail.
#include <fcntl.h>

#include "handlers.h"

namespace brevis::fs {

namespace {

using OpenFile = std::shared_ptr<FileHandle>;

// Replies from wherever the bytes came to hand, a loop thread or a worker of the Volume.
void answer(Reply& reply, const Result<ReadResult>& result, size_t asked) noexcept {
  try {
    if (result)
      reply.parts(*result, asked);
    else
      reply.error(result.error());
  } catch (...) {  // out of memory for the vector of parts
    reply.errnum(ENOMEM);
  }
}

// The same for an open: an index that is not in memory is read by a worker.
void answer_open(Reply& reply, Result<OpenFile>& opened, fuse_file_info info) noexcept {
  try {
    if (!opened) return reply.error(opened.error());
    auto file = std::make_unique<OpenFile>(std::move(*opened));
    info.fh = reinterpret_cast<uint64_t>(file.get());
    info.keep_cache = 1;
    info.noflush = 1;
    if (reply.opened(info)) file.release();
  } catch (...) {
    reply.errnum(ENOMEM);
  }
}

}  // namespace

const std::shared_ptr<FileHandle>& file_of(const fuse_file_info& info) {
  return *reinterpret_cast<const OpenFile*>(info.fh);
}

void on_open(fuse_req_t request, fuse_ino_t node, fuse_file_info* info) {
  guarded(request, "open", [&](Reply& reply) -> Status {
    if ((info->flags & O_ACCMODE) != O_RDONLY) {
      reply.errnum(EROFS);
      return {};
    }
    Volume& volume = service_of(request).volume;
    auto shared = std::make_shared<Reply>(std::move(reply));
    volume.open_file_then(node, [shared, info = *info](Result<OpenFile> file) { answer_open(*shared, file, info); });
    return {};
  });
}

void on_read(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info* info) {
  guarded(request, "read", [&](Reply& reply) -> Status {
    if (offset < 0) {
      reply.errnum(EINVAL);
      return {};
    }
    const OpenFile& file = file_of(*info);
    Volume& volume = service_of(request).volume;
    // The completion is copied about by std::function, so the one reply is shared; dropped unanswered it says EIO.
    auto shared = std::make_shared<Reply>(std::move(reply));
    const bool direct = (info->flags & O_DIRECT) != 0;
    volume.read(
        file, {static_cast<uint64_t>(offset), size},
        [shared, size](Result<ReadResult> result) { answer(*shared, result, size); }, direct);
    return {};
  });
}

void on_lseek(fuse_req_t request, fuse_ino_t, off_t offset, int whence, fuse_file_info* info) {
  guarded(request, "lseek", [&](Reply& reply) -> Status {
    const auto size = static_cast<off_t>(service_of(request).volume.handle_attributes(*file_of(*info)).size);
    if (whence != SEEK_DATA && whence != SEEK_HOLE)
      reply.errnum(EINVAL);
    else if (offset < 0 || offset >= size)
      reply.errnum(ENXIO);
    else
      reply.position(whence == SEEK_DATA ? offset : size);  // all data, then the end
    return {};
  });
}

void on_release(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  guarded(request, "release", [&](Reply& reply) -> Status {
    const std::unique_ptr<OpenFile> file(reinterpret_cast<OpenFile*>(info->fh));
    reply.ok();
    return {};
  });
}

}  // namespace brevis::fs
