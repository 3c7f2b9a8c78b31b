// SPDX-License-Identifier: Apache-2.0
//
// What may be overwritten. An archive that others stand on keeps its id for them: another one in its place, even of the
// same file, would take away theirs, too.
//
// Who stands on what is found out once a run, however many archives it writes over: each directory is listed once, and
// a user that was found is asked again before it is believed, since the run may have packed it anew meanwhile.
//
// Errors:  invalid_argument, naming who needs the archive. Threads: one caller.
#pragma once

#include <map>
#include <set>

#include "pack/inventory.h"
#include "pack/relations.h"

namespace brevis::pack {

class Overwriting {
 public:
  Overwriting(const PackOptions& options, const Inventory& inventory) : options_(options), inventory_(inventory) {}

  // Whether what stands where the item is written may go. Users are looked for in the directories around it, as a
  // series lies, and below the target, the sources and the base paths of the run; those that this run is about to write
  // do not count. `item`: of the inventory. `bases`: what it is packed against, may be null.
  Status check(const Bases* bases, const Item& item);
  // Archives whose header was read to find users.
  size_t looked_at() const { return looked_at_; }

 private:
  std::set<std::string> users_of(const Item& item, const Digest& id);
  void look_around(const std::string& target);
  void list(const std::string& directory, unsigned levels);
  void note(const std::string& path);
  bool is_written_later(const std::string& user, const Item& item);

  const PackOptions& options_;
  const Inventory& inventory_;
  std::map<std::string, unsigned> listed_;  // directories, and how many levels below them
  bool roots_listed_ = false;
  size_t looked_at_ = 0;
  std::map<Digest, std::set<std::string>> users_;  // of an id, as they were when they were listed
  std::map<std::string, size_t> turns_;            // items by target; made when first needed
};

// Whether the item is one of `bases`, or under one, and stays what it is when archives are packed anew.
bool is_base_itself(const Bases* bases, const Item& item);

}  // namespace brevis::pack
