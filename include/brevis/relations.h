// SPDX-License-Identifier: Apache-2.0
//
// Which archives of a tree stand on which.
//
// Errors:  the directory cannot be read; archives in it that cannot are left out. Threads: pure; reads headers of all
//          archives and the index of those that have bases.
#pragma once

#include <string>
#include <vector>

#include "brevis/error.h"
#include "brevis/types.h"

namespace brevis {

struct Relation {
  std::string archive;  // path
  Digest base_id;
  std::string hint;  // where the base was
  std::string base;  // path of an archive of that id in the tree; empty: it is not there
};

// By archive, then as it names its bases.
Result<std::vector<Relation>> relations(const std::string& directory);

}  // namespace brevis
