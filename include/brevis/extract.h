// SPDX-License-Identifier: Apache-2.0
//
// The original files again, on disk: one archive gives a file, a directory gives a tree (archives unpacked, everything
// else copied, links kept).
//
// Errors:  files appear whole under their names or not at all; per-file failures are in the report.
// Threads: uses its own workers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "brevis/error.h"

namespace brevis {

struct ExtractOptions {
  std::string source;  // an archive or a directory
  std::string target;
  bool force = false;                   // overwrite existing files
  bool verify = false;                  // SHA-256 of every file against the archive's (frames and tensors always)
  bool continue_on_error = false;       // go on with the other files of a tree
  std::string tensor;                   // one tensor's bytes only, from one archive
  std::vector<std::string> base_paths;  // directories where bases are looked for, beside the source
  unsigned jobs = 0;
  std::function<void(const std::string& file, uint64_t bytes_done, uint64_t bytes_total)> progress;
  std::function<bool()> cancelled;
};

struct ExtractedFile {
  std::string source, target;
  uint64_t bytes = 0;
  std::optional<Error> error;
};

struct ExtractReport {
  std::vector<ExtractedFile> files;
  uint64_t bytes = 0;
  double seconds = 0;
  const Error* first_error() const;
};

Result<ExtractReport> extract(const ExtractOptions& options);

}  // namespace brevis
