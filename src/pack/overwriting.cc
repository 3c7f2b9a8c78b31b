// SPDX-License-Identifier: Apache-2.0
#include "pack/overwriting.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>

#include "archive/bases.h"
#include "archive/format.h"

namespace brevis::pack {
namespace {

namespace stdfs = std::filesystem;

// Series lie in directories side by side, some with folders of their own inside.
constexpr unsigned kLevelsUp = 3;
constexpr std::string_view kSuffix = ".brv";

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

std::string in_directory(const std::string& directory, const std::string& name) {
  return directory.ends_with('/') ? directory + name : directory + "/" + name;
}

// Whether the archive at `user` still stands on the one of this id at `target`. A copy of the base may stand where the
// user looks first, and this one is not needed then.
bool needs(const std::string& user, const std::string& target, const Digest& id) {
  auto file = File::open(user);
  if (!file) return false;
  const auto reader = archive::Reader::open(std::move(*file));
  if (!reader) return false;
  for (const archive::Base& base : (*reader)->manifest().bases) {
    if (base.id != id) continue;
    if (base.hint.empty()) return true;
    const std::string there = absolute((stdfs::path(user).parent_path() / base.hint).string());
    return there == target || id_of(there) != id;
  }
  return false;
}

}  // namespace

bool is_base_itself(const Bases* bases, const Item& item) {
  if (bases == nullptr) return false;
  const auto id = id_of(item.target);
  return id && bases->include(*id);
}

void Overwriting::note(const std::string& path) {
  ++looked_at_;
  auto file = File::open(path);
  if (!file) return;
  ByteVector first(archive::kHeaderBytes);
  const auto got = file->read_some(0, first);
  if (!got) return;
  first.resize(*got);
  const auto header = archive::parse_header(first);
  if (!header || (header->features & archive::kFeatureRelations) == 0) return;
  const auto reader = archive::Reader::open(std::move(*file));
  if (!reader) return;
  for (const archive::Base& base : (*reader)->manifest().bases) users_[base.id].insert(path);
}

// `directory`: absolute, without links. What cannot be read is left out.
void Overwriting::list(const std::string& directory, unsigned levels) {
  const auto [at, fresh] = listed_.try_emplace(directory, levels);
  if (!fresh && at->second >= levels) return;
  at->second = levels;
  const auto entries = list_directory_at(AT_FDCWD, directory);
  if (!entries) return;
  for (const DirEntry& entry : *entries) {
    const std::string path = in_directory(directory, entry.name);
    const auto stat = stat_at(AT_FDCWD, path, false);
    if (!stat) continue;
    if (stat->is_directory() && levels > 0) list(path, levels - 1);
    if (fresh && stat->is_regular() && entry.name.ends_with(kSuffix)) note(path);
  }
}

void Overwriting::look_around(const std::string& target) {
  stdfs::path around = stdfs::path(target).parent_path();
  list(around.string(), archive::kMaxTreeDepth);
  for (unsigned up = 1; up <= kLevelsUp; ++up) {
    around = around.parent_path();
    if (around == around.root_path()) break;
    list(around.string(), up);
  }
  if (roots_listed_) return;
  roots_listed_ = true;
  for (const std::string& root : options_.base_paths) list(absolute(root), archive::kMaxTreeDepth);
  if (!options_.target.empty()) return list(absolute(options_.target), archive::kMaxTreeDepth);
  for (const std::string& root : options_.sources) list(absolute(root), archive::kMaxTreeDepth);
}

std::set<std::string> Overwriting::users_of(const Item& item, const Digest& id) {
  const std::string target = absolute(item.target);
  look_around(target);
  std::set<std::string> users;
  if (const auto found = users_.find(id); found != users_.end())
    for (const std::string& user : found->second)
      if (user != target && !is_written_later(user, item) && needs(user, target, id)) users.insert(user);
  return users;
}

// Those that are still to be packed anew need it no more. Those before had their turn: who needs it yet has failed.
bool Overwriting::is_written_later(const std::string& user, const Item& item) {
  if (options_.from_archives) return false;
  if (turns_.empty())
    for (size_t i = 0; i < inventory_.items.size(); ++i)
      if (inventory_.items[i].action == PackAction::packed) turns_[absolute(inventory_.items[i].target)] = i;
  const auto turn = turns_.find(user);
  return turn != turns_.end() && turn->second > static_cast<size_t>(&item - inventory_.items.data());
}

Status Overwriting::check(const Bases* bases, const Item& item) {
  const auto id = id_of(item.target);
  if (!id) return {};
  if (is_base_itself(bases, item))
    return make_error(Errc::invalid_argument, "'" + item.target +
                                                  "' is a base of what would take its place: write "
                                                  "elsewhere (-o)");
  if (item.action == PackAction::copied && id_of(item.source) == id) return {};
  const std::set<std::string> users = users_of(item, *id);
  if (users.empty()) return {};
  return make_error(Errc::invalid_argument,
                    "'" + item.target + "' is the base of '" + *users.begin() + "'" +
                        (users.size() > 1 ? " and " + std::to_string(users.size() - 1) + " more" : "") +
                        ": make those stand alone first (--flatten), or write elsewhere (-o)");
}

}  // namespace brevis::pack
