// SPDX-License-Identifier: Apache-2.0
//
// The archives that others of a volume stand on: found by id in the volume's tree and in the directories named for it,
// opened and held by whoever needs them, so that a base taken away meanwhile is still there for those who read.
//
// A base is used only where the owner of the archive that names it could read it himself: an archive must not be a way
// to another user's weights.
//
// Errors:  io (EIO) for a base that is missing, is not what it should be, or is damaged; the message names it.
// Threads: any. Waits for storage. Owns: the directories' descriptors.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "serve/archives.h"
#include "serve/tree.h"

namespace brevis::serve {

class BaseFiles {
 public:
  // Directories outside of the tree where bases may be, too. Errors: of opening one.
  static Result<std::unique_ptr<BaseFiles>> open(const Tree& tree, const std::vector<std::string>& directories);

  // Every base of an archive whose index is `reader`, with theirs, in the index's order.
  Result<std::vector<std::shared_ptr<OpenArchive>>> bases_of(Archives& archives, const OpenArchive& archive,
                                                             const archive::Reader& reader) const;
  // Forgets where archives are.
  void rescan();

 private:
  struct Place {
    const Tree* tree = nullptr;
    Backing backing;
  };
  using Known = std::multimap<Digest, Place>;

  explicit BaseFiles(const Tree& tree) : tree_(tree) {}
  Result<std::shared_ptr<OpenArchive>> base_of(Archives& archives, const OpenArchive& archive,
                                               const archive::Base& base) const;
  std::vector<Place> places(const OpenArchive& archive, const archive::Base& base, bool listing) const;
  std::shared_ptr<const Known> known() const;

  const Tree& tree_;
  std::vector<UniqueFd> directories_;
  std::vector<std::unique_ptr<Tree>> others_;
  struct Listing {
    std::shared_ptr<const Known> known;
    int64_t made_ns = 0;
  };
  mutable Guarded<Listing> listing_;
};

}  // namespace brevis::serve
