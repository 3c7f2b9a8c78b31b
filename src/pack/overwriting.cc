// SPDX-License-Identifier: Apache-2.0
#include "pack/overwriting.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "archive/bases.h"
#include "archive/format.h"

namespace brevis::pack {
namespace {

namespace stdfs = std::filesystem;

// Series lie in directories side by side, some with folders of their own inside.
constexpr unsigned kLevelsUp = 3;

std::optional<Digest> id_of(const std::string& path) {
  const auto file = File::open(path);
  if (!file) return std::nullopt;
  ByteVector first(archive::kHeaderBytes);
  const auto got = file->read_some(0, first);
  if (!got) return std::nullopt;
  first.resize(*got);
  const auto header = archive::parse_header(first);
  if (!header) return std::nullopt;
  return header->id;
}

std::string absolute(const std::string& path) {
  std::error_code failed;
  const stdfs::path whole = stdfs::weakly_canonical(stdfs::absolute(path, failed), failed);
  return failed ? path : whole.string();
}

// A copy of the base may stand where the user looks first, and this one is not needed then.
bool has_another(const std::string& user, const std::string& target, const Digest& id) {
  auto file = File::open(user);
  if (!file) return false;
  const auto reader = archive::Reader::open(std::move(*file));
  if (!reader) return false;
  for (const archive::Base& base : (*reader)->manifest().bases) {
    if (base.id != id || base.hint.empty()) continue;
    const std::string there = absolute((stdfs::path(user).parent_path() / base.hint).string());
    return there != target && id_of(there) == id;
  }
  return false;
}

std::set<std::string> users_of(const PackOptions& options, const Item& item, const Digest& id) {
  std::set<std::string> users;
  const std::string target = absolute(item.target);
  const auto look = [&](const std::string& root, unsigned levels) {
    for (const std::string& user : archive::needed_by(root, id, levels))
      if (!has_another(user, target, id)) users.insert(absolute(user));
  };
  stdfs::path around = stdfs::path(target).parent_path();
  look(around.string(), archive::kMaxTreeDepth);
  for (unsigned up = 1; up <= kLevelsUp; ++up) {
    around = around.parent_path();
    if (around == around.root_path()) break;
    look(around.string(), up);
  }
  if (!options.target.empty()) look(options.target, archive::kMaxTreeDepth);
  for (const std::string& root : options.base_paths) look(root, archive::kMaxTreeDepth);
  return users;
}

}  // namespace

bool is_base_itself(const Bases* bases, const Item& item) {
  if (bases == nullptr) return false;
  const auto id = id_of(item.target);
  return id && bases->include(*id);
}

Status check_overwrites(const PackOptions& options, const Inventory& inventory, const Bases* bases, const Item& item) {
  const auto id = id_of(item.target);
  if (!id) return {};
  if (is_base_itself(bases, item))
    return make_error(Errc::invalid_argument, "'" + item.target +
                                                  "' is a base of what would take its place: write "
                                                  "elsewhere (-o)");
  if (item.action == PackAction::copied && id_of(item.source) == id) return {};
  std::set<std::string> users = users_of(options, item, *id);
  users.erase(absolute(item.target));
  // Those that are still to be packed anew need it no more. Those before had their turn: who needs it yet has failed.
  if (!users.empty() && !options.from_archives)
    for (const Item* other = &item + 1; other < inventory.items.data() + inventory.items.size(); ++other)
      if (other->action == PackAction::packed) users.erase(absolute(other->target));
  if (users.empty()) return {};
  return make_error(Errc::invalid_argument,
                    "'" + item.target + "' is the base of '" + *users.begin() + "'" +
                        (users.size() > 1 ? " and " + std::to_string(users.size() - 1) + " more" : "") +
                        ": make those stand alone first (--flatten), or write elsewhere (-o)");
}

}  // namespace brevis::pack
