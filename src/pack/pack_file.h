// SPDX-License-Identifier: Apache-2.0
//
// One file into one archive, from verdict to durable name.
//
// Errors:  in the returned PackedFile (action failed); the source is never touched and nothing stays under the
//          target's name when it fails.
// Threads: one caller; work runs in the pool.
#pragma once

#include "base/threads.h"
#include "brevis/pack.h"
#include "pack/relations.h"
#include "synth/prior.h"

namespace brevis::pack {

struct FileJob {
  std::string source, target;
  bool from_archive = false;  // the source is an archive, its original is packed anew
  bool in_tree = false;       // found in a directory: files of other kinds become opaque archives with a warning
};

struct FileContext {
  const PackOptions* options = nullptr;
  Pool* pool = nullptr;
  const synth::Prior* prior = nullptr;  // to use instead of learning one per file
  synth::Prior* learned = nullptr;      // collects what files teach, may be null
  // Source bytes that were finished, and archive bytes written since the last call; an Error stops the work.
  std::function<Status(uint64_t source_bytes, uint64_t packed_bytes)> on_progress;
  const Bases* bases = nullptr;  // what may be packed against
};

PackedFile pack_file(const FileContext& context, const FileJob& job);

// Whether the target is what pack_file() would make, as far as size, time and options tell.
bool is_packed_already(const FileContext& context, const FileJob& job);

// Removes the source of a target that an earlier run made, once all of the target was read back and found equal to it.
// Errors: internal when it differs (the source stays), changed, io.
Status remove_packed_source(const FileContext& context, const FileJob& job);

}  // namespace brevis::pack
