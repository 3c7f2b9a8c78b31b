// SPDX-License-Identifier: Apache-2.0
//
// The table of mounts and what we do to it besides mounting: which mount lies at a path, clearing a stale one of ours,
// unmounting, detaching, the kernel's read-ahead.
//
// Errors:  say which path and what to do. Threads: no shared state; unmounting may be called while the mount serves.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "brevis/error.h"

namespace brevis::fs {

// A line of the mount table.
struct MountEntry {
  unsigned major = 0, minor = 0;  // of the file system
  std::string path, type, source;

  // One of ours, whatever its state.
  bool is_brevis() const { return type == "fuse.brevis" || source.starts_with("brevis:"); }
  bool same_file_system(const MountEntry& other) const { return major == other.major && minor == other.minor; }
};

// /proc/self/mountinfo; unreadable lines are left out.
std::vector<MountEntry> parse_mount_table(const std::string& text);
// The uppermost mount exactly at this path.
std::optional<MountEntry> mount_at(const std::string& path);

// Does a mount lie there whose daemon has died? Waits for the daemon's answer if not.
bool is_dead(const std::string& path);
// The same without waiting for ever. silent: nobody answered for ten seconds. Forks; before there are threads.
enum class Pulse { alive, dead, silent };
Pulse feel(const std::string& path);

// The absolute path without links, also when a dead mount lies on its last part.
Result<std::string> resolve_path(const std::string& path);

// Makes `path` fit to be mounted on: clears dead Brevis mounts. Errors: busy (a live Brevis mount, or a dead mount of
// somebody else, or one that does not answer), permission.
Status prepare_mountpoint(const std::string& path);

// Is the directory `inner` the directory `outer` or somewhere below it? Compares identities, not names. 0: the same,
// n > 0: n levels below, nullopt: elsewhere. Errors: io, not_found.
Result<std::optional<unsigned>> depth_below(const std::string& inner, int outer_fd);

// Errors: busy when files are open, not_found when nothing of ours is there.
Status unmount(const std::string& path);
// Takes the mount out of the tree at once; what is open lives on until it is closed.
Status detach(const std::string& path);

// The file by which the kernel cuts a connection: whatever waits for an answer fails, as if the daemon had died. The
// caller closes it. Errors: not_found, permission.
Result<int> open_abort_file(unsigned connection);
// Cuts the connection of one of our mounts and detaches that. In this order: unmounting waits for whoever stores into
// the page cache.
Status cut_off(const std::string& path);

// Lets the kernel read ahead by up to this much on a mount, once it answers. Only root may; a failure is told at debug
// level and costs speed only.
void set_kernel_readahead(const MountEntry& mount, unsigned kib);

// Can this user mount at all? Errors: unavailable (no /dev/fuse), permission (naming what forbids it).
Status check_fuse_access(bool for_others);

}  // namespace brevis::fs
