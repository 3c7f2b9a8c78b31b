// SPDX-License-Identifier: Apache-2.0
//
// fsck: proving that archives are whole. Reads every byte, checks every checksum and digest, decodes every frame.
//
// Errors:  damage is a finding, not an Error; Errors are requests that make no sense. Threads: uses its own workers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "brevis/error.h"

namespace brevis {

// `unread`: nothing is known of it, since this user may not read it.
enum class Severity : uint8_t { note, warning, damage, unread };

struct Finding {
  Severity severity = Severity::damage;
  std::string file;     // archive, or file of a model directory
  std::string tensor;   // empty when not of one tensor
  uint64_t offset = 0;  // in the archive
  std::string message;
};

struct CheckOptions {
  std::vector<std::string> paths;       // archives, plain files or directories
  bool quick = false;                   // headers, indexes and frame checksums only: nothing is decoded
  std::string tensor;                   // only this tensor (with the bundle it lies in)
  std::vector<std::string> base_paths;  // directories where bases are looked for, beside the paths
  unsigned jobs = 0;                    // workers, 0: cores
  std::function<void(const std::string& file, uint64_t bytes_done, uint64_t bytes_total)> progress;
  std::function<bool()> cancelled;
};

struct CheckReport {
  bool stopped = false;           // on request: what follows is what was found until then
  std::vector<Finding> findings;  // by file, then offset
  uint64_t archives = 0, tensors = 0, frames = 0, bytes = 0;
  bool has(Severity severity) const;
  // No finding of severity damage.
  bool clean() const { return !has(Severity::damage); }
};

// Directories are walked: every archive is checked; a model.safetensors.index.json is held against its shards (missing
// shards and tensors, tensors in several shards); x beside x.brv is a warning.
Result<CheckReport> check(const CheckOptions& options);

}  // namespace brevis
