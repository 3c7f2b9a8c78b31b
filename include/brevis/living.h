// SPDX-License-Identifier: Apache-2.0
//
// A tree that changes while it is mounted: noticing what others change below the source, and changing it on request
// where a mount over the source hides it from everybody but its daemon. Knows directories and names, nothing of nodes:
// who serves the tree turns what is told here into whatever its readers remember.
//
// Errors:  put and remove change nothing unless they succeed; a watch that cannot be had is replaced by looking again.
// Threads: put_file and remove_file from any thread, one at a time for a path; TreeWatch has a thread of its own, and
//          tells what changed on that thread, under no lock.
// Owns:    temporary files until they have their final name; the watch.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "brevis/error.h"

namespace brevis {

struct PutRequest {
  int source_fd = -1;               // the tree's root, borrowed
  std::string source_path;          // for messages
  std::string path;                 // below the root, "models/x.safetensors.brv"
  int file_fd = -1;                 // what is to stand there, open for reading, borrowed
  bool replace = false;             // true: there must be such a file, false: there must be none
  std::function<bool()> cancelled;  // may be empty
  std::function<void(uint64_t done, uint64_t all)> progress;  // may be empty; bytes
};

// A copy of the open file appears under the path, whole and durable, with its mode and times; missing directories are
// made. NAME.brv must be a whole archive. Errors: invalid_argument (no such path can be; something stands there, or
// would hide it), corrupt and truncated (no whole archive), not_found (nothing to replace), no_space, cancelled, io.
Result<uint64_t> put_file(const PutRequest& request);

// Takes a file out of the tree, under the name that readers see (x stands for x.brv) or its own; gives the path of what
// was removed. Who has it open keeps its bytes. Errors: not_found, invalid_argument (no file), permission, io.
Result<std::string> remove_file(int source_fd, const std::string& source_path, const std::string& path);

// A name in a directory of the source that may mean another thing by now.
struct ChangedName {
  std::string directory;  // below the source, "" for the source itself
  std::string name;       // as readers see it: for x.brv both x.brv and x are told
};

struct WatchOptions {
  int source_fd = -1;       // borrowed
  std::string source_path;  // for messages
  // Look again at the whole tree every so many seconds; 0: never; kRescanAuto: when the file system does not tell.
  unsigned rescan_seconds = 0;
  std::function<void(const std::vector<ChangedName>&)> changed;
};
constexpr unsigned kRescanAuto = ~0u;
constexpr unsigned kRescanDefaultSeconds = 60;

struct WatchCounters {
  uint64_t archives = 0, directories = 0;  // seen last
  uint64_t added = 0, replaced = 0, removed = 0;
  uint64_t rescans = 0;
  uint64_t lost = 0;  // times that the system dropped events: all was looked at again
  bool told = false;  // the file system tells of changes
};

class TreeWatch {
 public:
  // The first look at the tree happens on the watch's thread; what it finds is no change.
  static Result<std::unique_ptr<TreeWatch>> start(const WatchOptions& options);
  virtual ~TreeWatch() = default;  // after stop() said true

  // Looks at everything soon.
  virtual void rescan() = 0;
  virtual WatchCounters counters() const = 0;
  // False when the thread still hangs in storage after `limit`: then nothing may be destroyed.
  virtual bool stop(std::chrono::milliseconds limit) = 0;
};

}  // namespace brevis
