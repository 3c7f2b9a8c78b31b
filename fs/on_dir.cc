// SPDX-License-Identifier: Apache-2.0
//
// Listings. An open directory keeps the list it had when it was read from the start, so that offsets (a name's place in
// the list, after . and ..) stay true while the tree changes; reading from the start again takes a new list.
#include <mutex>

#include "handlers.h"

namespace brevis::fs {

namespace {

using Entries = std::vector<VolumeEntry>;

// Several threads may read one open directory at once.
class OpenDirectory {
 public:
  Result<std::shared_ptr<const Entries>> entries(Volume& volume, fuse_ino_t node, bool from_start) {
    {
      std::lock_guard lock(mutex_);
      if (entries_ && !from_start) return entries_;
    }
    BREVIS_ASSIGN(Entries list, volume.list(node));
    auto fresh = std::make_shared<const Entries>(std::move(list));
    std::lock_guard lock(mutex_);
    entries_ = fresh;
    return fresh;
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<const Entries> entries_;
};

OpenDirectory& directory_of(const fuse_file_info& info) { return *reinterpret_cast<OpenDirectory*>(info.fh); }

// Fills one reply of at most `size` bytes.
class Page {
 public:
  Page(fuse_req_t request, size_t size) : request_(request), buffer_(size) {}

  bool add(const char* name, const struct stat& attributes, off_t next) {
    return take(fuse_add_direntry(request_, free(), left(), name, &attributes, next));
  }
  bool add_plus(const char* name, const fuse_entry_param& entry, off_t next) {
    return take(fuse_add_direntry_plus(request_, free(), left(), name, &entry, next));
  }
  const char* data() const { return buffer_.data(); }
  size_t size() const { return used_; }

 private:
  char* free() { return buffer_.data() + used_; }
  size_t left() const { return buffer_.size() - used_; }
  bool take(size_t needed) {
    if (needed > left()) return false;
    used_ += needed;
    return true;
  }
  fuse_req_t request_;
  std::vector<char> buffer_;
  size_t used_ = 0;
};

// References to nodes that a reply hands to the kernel; given back unless it arrived.
class HandedOut {
 public:
  explicit HandedOut(Volume& volume) : volume_(volume) {}
  ~HandedOut() {
    for (const NodeId node : nodes_) volume_.forget(node, 1);
  }
  void add(NodeId node) {
    try {
      nodes_.push_back(node);
    } catch (...) {
      volume_.forget(node, 1);
      throw;
    }
  }
  void arrived() { nodes_.clear(); }

 private:
  Volume& volume_;
  std::vector<NodeId> nodes_;
};

struct stat type_only(uint64_t inode, uint32_t mode) {
  struct stat s = {};
  s.st_ino = inode;
  s.st_mode = mode;
  return s;
}

// The parent's number is not known here and nobody relies on it.
constexpr uint64_t kSomeInode = 1;
constexpr off_t kDots = 2;

Status fill(Reply& reply, fuse_req_t request, fuse_ino_t node, size_t size, off_t offset, const fuse_file_info& info,
            bool plus) {
  Volume& volume = service_of(request).volume;
  BREVIS_ASSIGN(const auto entries, directory_of(info).entries(volume, node, offset == 0));
  Page page(request, size);
  HandedOut handed_out(volume);
  off_t at = offset < 0 ? 0 : offset;
  for (; at < kDots; ++at) {
    const char* name = at == 0 ? "." : "..";
    fuse_entry_param dot = {};
    dot.attr = type_only(kSomeInode, S_IFDIR);
    if (!(plus ? page.add_plus(name, dot, at + 1) : page.add(name, dot.attr, at + 1))) break;
  }
  for (size_t i = static_cast<size_t>(at) - kDots; at >= kDots && i < entries->size(); ++i, ++at) {
    const VolumeEntry& entry = (*entries)[i];
    if (!plus) {
      if (!page.add(entry.name.c_str(), type_only(entry.inode, entry.mode), at + 1)) break;
      continue;
    }
    // A name that has gone meanwhile is still told, without a node: its reader looks it up and is told ENOENT then.
    fuse_entry_param param = {};
    param.attr = type_only(entry.inode, entry.mode);
    const auto found = volume.lookup(node, entry.name);
    if (found) param = to_entry(*found);
    if (!page.add_plus(entry.name.c_str(), param, at + 1)) {
      if (found) volume.forget(found->id, 1);
      break;
    }
    if (found) handed_out.add(found->id);
  }
  if (reply.bytes(page.data(), page.size())) handed_out.arrived();
  return {};
}

}  // namespace

void on_opendir(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  guarded(request, "opendir", [&](Reply& reply) -> Status {
    auto directory = std::make_unique<OpenDirectory>();
    info->fh = reinterpret_cast<uint64_t>(directory.get());
    if (reply.opened(*info)) directory.release();
    return {};
  });
}

void on_readdir(fuse_req_t request, fuse_ino_t node, size_t size, off_t offset, fuse_file_info* info) {
  guarded(request, "readdir", [&](Reply& reply) { return fill(reply, request, node, size, offset, *info, false); });
}

void on_readdirplus(fuse_req_t request, fuse_ino_t node, size_t size, off_t offset, fuse_file_info* info) {
  guarded(request, "readdirplus", [&](Reply& reply) { return fill(reply, request, node, size, offset, *info, true); });
}

void on_releasedir(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  guarded(request, "releasedir", [&](Reply& reply) -> Status {
    delete &directory_of(*info);
    reply.ok();
    return {};
  });
}

}  // namespace brevis::fs
