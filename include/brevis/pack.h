// SPDX-License-Identifier: Apache-2.0
//
// The write side: files and model directories into archives. An archive appears under its name whole, verified and
// durable, or not at all; sources are never touched.
//
// Errors:  one file's failure does not stop the others of a tree: PackReport lists them all. pack_files() itself fails
//          only for requests that make no sense (invalid_argument, not_found) or a target that cannot be made.
// Threads: pack_files() uses its own workers; `progress` is called from one thread at a time, `cancelled` from any.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "brevis/error.h"
#include "brevis/model.h"

namespace brevis {

struct PackProgress {
  std::string file;         // being packed, path as given or found
  uint64_t bytes_done = 0;  // of all sources together
  uint64_t bytes_total = 0;
  uint64_t bytes_packed = 0;  // written so far
};

struct PackOptions {
  std::vector<std::string> sources;
  std::string target;   // empty: archives go beside their sources
  bool strict = false;  // lenient files and files that are not safetensors, named so, are refused
  bool allow_truncated = false;
  bool follow_links = false;  // pack what links that leave the tree point to
  bool force = false;         // overwrite existing targets
  bool verify = true;         // decode every frame and compare as it is written
  bool sha256 = true;
  bool dry_run = false;                               // everything but writing
  unsigned jobs = 0;                                  // workers, 0: cores
  uint64_t memory = uint64_t{512} << 20;              // cap on buffers
  uint64_t frame_bytes = uint64_t{512} << 10;         // decoded output of a frame, 4 KiB .. 1 MiB
  uint64_t opaque_min = uint64_t{64} << 10;           // other files of a tree: below copied, from here on packed
  std::map<std::string, std::string> programs;        // dtype name -> program text (templates allowed)
  std::function<void(const PackProgress&)> progress;  // may be empty
  std::function<bool()> cancelled;                    // may be empty
};

enum class PackAction : uint8_t { packed, copied, linked, skipped, failed };

struct PackedFile {
  std::string source, target;
  PackAction action = PackAction::packed;
  VerdictKind verdict = VerdictKind::not_safetensors;
  std::string warning;  // lenient files: rule and offset
  uint64_t bytes_in = 0, bytes_out = 0;
  uint64_t tensors = 0, duplicate_tensors = 0, duplicate_bytes = 0;
  std::string sha256;          // hex, empty when not made
  std::optional<Error> error;  // action failed
};

struct PackReport {
  std::vector<PackedFile> files;  // in the order of the walk
  uint64_t bytes_in = 0, bytes_out = 0;
  double seconds = 0;
  // The first failure, if any: what the exit code is made from.
  const Error* first_error() const;
};

Result<PackReport> pack_files(const PackOptions& options);

}  // namespace brevis
