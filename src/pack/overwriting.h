// SPDX-License-Identifier: Apache-2.0
//
// What may be overwritten. An archive that others stand on keeps its id for them: another one in its place, even of the
// same file, would take away theirs, too.
//
// Errors:  invalid_argument, naming who needs the archive. Threads: pure.
#pragma once

#include "pack/inventory.h"
#include "pack/relations.h"

namespace brevis::pack {

// Whether what stands where the item is written may go. Users are looked for in the directories around it, as a series
// lies, and below the target and the base paths of the run; those that this run is about to write do not count.
// `bases`: what the item is packed against, may be null.
Status check_overwrites(const PackOptions& options, const Inventory& inventory, const Bases* bases, const Item& item);

// Whether the item is one of `bases`, or under one, and stays what it is when archives are packed anew.
bool is_base_itself(const Bases* bases, const Item& item);

}  // namespace brevis::pack
