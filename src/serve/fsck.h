// SPDX-License-Identifier: Apache-2.0
//
// The two halves of fsck: one archive (fsck_archive.cc), and what a model directory adds (fsck_tree.cc). fsck.cc walks
// the paths and gathers.
//
// Errors: damage goes into the findings; an Error stops the whole check (cancelled). Threads: one caller.
#pragma once

#include <map>
#include <set>

#include "archive/bases.h"
#include "base/threads.h"
#include "brevis/check.h"
#include "brevis/model.h"

namespace brevis::serve {

struct FsckContext {
  const CheckOptions& options;
  Pool& pool;
  CheckReport& report;
  archive::BaseFinder& finder;
  bool tensor_found = false;  // options.tensor was met somewhere

  void add(Severity severity, std::string file, std::string message, std::string tensor = {}, uint64_t offset = 0);
  Status progress(const std::string& file, uint64_t done, uint64_t total) const;
};

Status fsck_archive(FsckContext& context, const std::string& path);

// A safetensors file of a directory, under the name its readers use: `path` may be the archive of it.
struct ShardFile {
  std::string path;
  bool archived = false;
};
// The verdict of the original. Errors: of reading or opening.
Result<Verdict> verdict_of(const ShardFile& file);

Status fsck_tree(FsckContext& context, const std::string& root);

}  // namespace brevis::serve
