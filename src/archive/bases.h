// SPDX-License-Identifier: Apache-2.0
//
// Finding the archives that an archive is based on, and opening it with all of them. A base is known by its archive id
// alone; the path that an archive remembers is a place to look first. Nothing that has another id is ever taken.
//
// Errors:  not_found, naming the base, its id and where it was looked for; corrupt, unsupported, io for one that is
//          there and cannot be used.
// Threads: finders may be used from several threads.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "archive/reader.h"
#include "base/threads.h"

namespace brevis::archive {

class BaseFinder {
 public:
  virtual ~BaseFinder() = default;
  // The archive of that id, opened with its own bases. `dependent`: path of the archive that names it.
  virtual Result<std::shared_ptr<const Reader>> find(const Base& base, const std::string& dependent) = 0;
};

// Looks where the hint says, then in directories and all below them, which are listed once, when first needed.
class DirectoryFinder final : public BaseFinder {
 public:
  // Beside `roots`, the directory of every archive that asks is searched.
  explicit DirectoryFinder(std::vector<std::string> roots = {}) : roots_(std::move(roots)) {}
  Result<std::shared_ptr<const Reader>> find(const Base& base, const std::string& dependent) override;
  // Every archive below the roots: id -> paths. The first use reads the header of each.
  std::multimap<Digest, std::string> archives();

 private:
  using Found = std::multimap<Digest, std::string>;
  struct State {
    std::map<std::string, std::shared_ptr<const Found>> listed;  // by root
    std::map<Digest, std::weak_ptr<const Reader>> opened;        // so that a series shares its bases
  };
  std::vector<std::string> candidates(const Base& base, const std::string& dependent, bool listing);
  std::shared_ptr<const Found> listed(const std::string& root);

  std::vector<std::string> roots_;
  Guarded<State> state_;
};

// Archives below a directory, at most so many directories down, that stand on the one of this id, sorted. What cannot
// be read is left out.
constexpr unsigned kMaxTreeDepth = 128;
std::vector<std::string> needed_by(const std::string& root, const Digest& id, unsigned levels = kMaxTreeDepth);

// Opens a file by path with its bases. Errors: as Reader::open.
Result<std::shared_ptr<const Reader>> open_with_bases(const std::string& path, BaseFinder& finder);

// "base 'model.brv' (archive id 0123..)": how messages name one.
std::string base_name(const Base& base);

}  // namespace brevis::archive
