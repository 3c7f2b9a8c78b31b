// SPDX-License-Identifier: Apache-2.0
//
// What there is to do: the sources walked, every file given its target and its treatment. Nothing is written yet.
//
// Errors:  requests that make no sense (no such source, several sources and a target that is a file) fail the whole
//          inventory; a file of a tree that cannot be treated (a link that leaves the tree, an unreadable directory)
//          becomes a failed item. Threads: pure.
#pragma once

#include "brevis/pack.h"

namespace brevis::pack {

struct Item {
  std::string source, target;
  PackAction action = PackAction::packed;  // packed, copied, linked, skipped or failed
  std::string link_target;                 // linked
  uint64_t bytes = 0;                      // of the source
  bool in_tree = false;
  std::optional<Error> error;  // failed
  std::string note{};          // skipped: why
  size_t group = 0;            // place of the source that it came from
  uint32_t depth = 0;          // of an archive that is packed anew
};

// A directory to be made; it takes the mode and times of `source` unless that is empty.
struct Directory {
  std::string source, target;
};

struct Inventory {
  std::vector<Directory> directories;  // parents first
  std::vector<Item> items;             // sorted by path within each source
  std::vector<std::string> targets;    // of each source: the archive or directory that it is packed to
  uint64_t bytes = 0;                  // of everything to be packed or copied
};

Result<Inventory> take_inventory(const PackOptions& options);

}  // namespace brevis::pack
