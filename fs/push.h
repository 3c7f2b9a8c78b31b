// SPDX-License-Identifier: Apache-2.0
//
// Puts bytes into the kernel's page cache of a mounted file: the notification that FUSE calls store. Written to the
// connection as they lie in memory, since the library would copy several parts into one buffer first.
//
// Errors:  false when the kernel refuses: the node is unknown to it, or the mount has gone.
// Threads: any that answers no requests (Volume::start_pushing). Owns: nothing.
#pragma once

#include <fuse3/fuse_lowlevel.h>

#include "brevis/volume.h"

namespace brevis::fs {

bool store_in_page_cache(fuse_session* session, NodeId node, uint64_t offset, const ReadResult& bytes);

}  // namespace brevis::fs
