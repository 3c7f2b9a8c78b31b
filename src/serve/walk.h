// SPDX-License-Identifier: Apache-2.0
//
// Everything below a directory, for the commands that go over a whole tree. Links are told, never followed.
//
// Errors:  the root cannot be read; what lies deeper and cannot be looked at is listed beside the rest.
// Threads: pure.
#pragma once

#include "base/io.h"

namespace brevis::serve {

struct WalkEntry {
  std::string path;  // relative to the root, "a/b"
  FileStat stat;     // of a link itself
  std::string link_target;
};

struct Walk {
  std::vector<WalkEntry> entries;                     // each directory before what it holds, siblings by name
  std::vector<std::pair<std::string, Error>> failed;  // path and why
};

Result<Walk> walk_directory(const std::string& root);

}  // namespace brevis::serve
