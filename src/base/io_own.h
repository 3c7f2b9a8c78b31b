// SPDX-License-Identifier: Apache-2.0
//
// Files that Brevis keeps for itself and writes in place: those of a cache. They are private to their owner, since they
// hold what others may not be allowed to read, and are never reached through links.
//
// Errors:  failed system calls with errno and path; busy, invalid_argument and unsupported where named.
// Threads: any; writes to one place of a file are the caller's to order. Owns: what they return owns its descriptor.
#pragma once

#include "base/io.h"

namespace brevis {

// Makes it (0700) when it is not there. Errors: invalid_argument when others than its owner may write to it, or its
// owner is neither this user nor root.
Result<UniqueFd> open_private_directory(const std::string& path);

// Is the file system behind `fd` somewhere else than in this machine (network and FUSE file systems), or of a kind that
// is known to break mapped databases? Its name, or "" when it is local.
std::string remote_file_system(int fd);

// Takes the file `name` of the directory, made when missing, for this process alone until the descriptor is closed; the
// kernel gives it back when the process ends in whatever way. Errors: busy.
Result<UniqueFd> lock_file_at(int directory, const std::string& name, const std::string& shown_as);

// A regular file open for reading and writing, made (0600) when missing and `create`.
Result<File> open_own_at(int directory, const std::string& name, const std::string& shown_as, bool create);
Status write_exact_at(const File& file, uint64_t offset, ByteSpan bytes);
// Until what was written is stored (fdatasync).
Status sync_own(const File& file);
// Asks the kernel to begin to store what was written there (best effort).
void start_writing(const File& file, Range range);

// What is not there is as good as removed.
Status remove_at(int directory, const std::string& name, const std::string& shown_as);

}  // namespace brevis
