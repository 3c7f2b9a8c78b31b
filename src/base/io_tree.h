// SPDX-License-Identifier: Apache-2.0
//
// Opening files below a directory that others may change at the same time: never outside of it, whatever a symbolic
// link says by the time of the call. A mount over its own source depends on it: a path that left the source could come
// back through the mount and wait for the very thread that walks it.
//
// Errors:  failed system calls with errno and path; a path that leaves the directory is io with EXDEV, a link where
//          none is followed io with ELOOP.
// Threads: any. Owns: what they return owns its descriptor.
#pragma once

#include "base/io.h"

namespace brevis {

// `path` relative to the directory `at`. `follow`: symbolic links are followed as long as they stay below `at`;
// otherwise no component may be one. A kernel without openat2 checks the last component only, and follows nothing.
// `shown_as`: what the file is called in messages, when not `path`.
Result<File> open_beneath(int at, const std::string& path, bool follow, const std::string& shown_as = {});
// The same for a directory, never through links; "" is `at` itself.
Result<UniqueFd> open_directory_beneath(int at, const std::string& path);
// The same open file under a descriptor of its own.
Result<File> duplicate(const File& file);

// Tells the kernel not to read ahead in this open file (best effort).
void advise_random(const File& file);

// What statvfs says of the file system that `fd` is on.
struct FileSystemSpace {
  uint64_t block_size = 0, blocks = 0, free_blocks = 0, available_blocks = 0, files = 0, free_files = 0;
};
Result<FileSystemSpace> space_of(int fd, const std::string& path);

}  // namespace brevis
