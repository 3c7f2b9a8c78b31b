// SPDX-License-Identifier: Apache-2.0
#include "serve/walk.h"

#include <fcntl.h>

namespace brevis::serve {

namespace {

constexpr unsigned kMaxDepth = 512;  // as deep as a path is long; bounds the recursion

std::string below(const std::string& directory, const std::string& name) {
  return directory.empty() || directory.ends_with('/') ? directory + name : directory + "/" + name;
}

Status add_directory(const std::string& root, const std::string& relative, unsigned depth, Walk& walk) {
  if (depth > kMaxDepth) return make_error(Errc::invalid_argument, "directories nested too deeply");
  BREVIS_ASSIGN(const auto names, list_directory_at(AT_FDCWD, relative.empty() ? root : below(root, relative)));
  for (const DirEntry& name : names) {
    const std::string path = below(relative, name.name);
    const auto add = [&]() -> Status {
      WalkEntry entry{path, {}, {}};
      BREVIS_ASSIGN(entry.stat, stat_at(AT_FDCWD, below(root, path), false));
      if (entry.stat.is_symlink()) {
        BREVIS_ASSIGN(entry.link_target, read_link_at(AT_FDCWD, below(root, path)));
      }
      const bool descend = entry.stat.is_directory();
      walk.entries.push_back(std::move(entry));
      return descend ? add_directory(root, path, depth + 1, walk) : Status();
    };
    if (Status added = add(); !added) walk.failed.emplace_back(path, std::move(added).error());
  }
  return {};
}

}  // namespace

Result<Walk> walk_directory(const std::string& root) {
  Walk walk;
  BREVIS_TRY(add_directory(root, "", 0, walk));
  return walk;
}

}  // namespace brevis::serve
