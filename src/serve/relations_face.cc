// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <algorithm>

#include "archive/bases.h"
#include "archive/format.h"
#include "base/io.h"
#include "brevis/relations.h"

namespace brevis {

Result<std::vector<Relation>> relations(const std::string& directory) {
  BREVIS_ASSIGN(const auto there, list_directory_at(AT_FDCWD, directory));
  archive::DirectoryFinder finder({directory});
  const std::multimap<Digest, std::string> all = finder.archives();
  std::vector<std::string> paths;
  for (const auto& [id, path] : all) paths.push_back(path);
  std::sort(paths.begin(), paths.end());
  std::vector<Relation> out;
  for (const std::string& path : paths) {
    auto file = File::open(path);
    if (!file) continue;
    const auto reader = archive::Reader::open(std::move(*file));
    if (!reader) continue;
    for (const archive::Base& base : (*reader)->manifest().bases) {
      const auto at = all.find(base.id);
      out.push_back({path, base.id, base.hint, at == all.end() ? std::string() : at->second});
    }
  }
  return out;
}

}  // namespace brevis
