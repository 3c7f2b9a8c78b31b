// SPDX-License-Identifier: Apache-2.0
#include "archive/bases.h"

#include <fcntl.h>

#include <algorithm>

#include "archive/format.h"

namespace brevis::archive {
namespace {

constexpr std::string_view kSuffix = ".brv";

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::string below(const std::string& directory, const std::string& name) {
  return directory.ends_with('/') ? directory + name : directory + "/" + name;
}

Result<Header> header_of(const File& file) {
  ByteVector first(kHeaderBytes);
  BREVIS_ASSIGN(const size_t got, file.read_some(0, first));
  first.resize(got);
  return parse_header(first);
}

// What cannot be read is left out: a base that is in there stays missing, and that is told.
void list_archives(const std::string& directory, unsigned levels, std::multimap<Digest, std::string>& out) {
  const auto entries = list_directory_at(AT_FDCWD, directory);
  if (!entries) return;
  for (const DirEntry& entry : *entries) {
    const std::string path = below(directory, entry.name);
    const auto stat = stat_at(AT_FDCWD, path, false);
    if (!stat) continue;
    if (stat->is_directory() && levels > 0) list_archives(path, levels - 1, out);
    if (!stat->is_regular() || !entry.name.ends_with(kSuffix)) continue;
    const auto file = File::open(path);
    if (!file) continue;
    if (const auto header = header_of(*file)) out.emplace(header->id, path);
  }
}

}  // namespace

std::string base_name(const Base& base) {
  const std::string id = "archive id " + to_hex(base.id);
  return base.hint.empty() ? "base (" + id + ")" : "base '" + base.hint + "' (" + id + ")";
}

std::shared_ptr<const DirectoryFinder::Found> DirectoryFinder::listed(const std::string& root) {
  if (auto known = state_.with([&](State& state) { return state.listed[root]; })) return known;
  const auto fresh = std::make_shared<Found>();
  list_archives(root, kMaxTreeDepth, *fresh);
  state_.with([&](State& state) { state.listed[root] = fresh; });
  return fresh;
}

std::multimap<Digest, std::string> DirectoryFinder::archives() {
  Found all;
  for (const std::string& root : roots_) {
    const auto found = listed(root);
    all.insert(found->begin(), found->end());
  }
  return all;
}

// Where the archive may be: first by the hint, then (listing) by id.
std::vector<std::string> DirectoryFinder::candidates(const Base& base, const std::string& dependent, bool listing) {
  const std::string beside = directory_of(dependent);
  if (!listing) {
    if (base.hint.empty()) return {};
    const size_t slash = base.hint.rfind('/');
    std::vector<std::string> paths{below(beside, base.hint)};
    if (slash != std::string::npos) paths.push_back(below(beside, base.hint.substr(slash + 1)));
    return paths;
  }
  std::vector<std::string> paths, roots = roots_;
  if (std::find(roots.begin(), roots.end(), beside) == roots.end()) roots.push_back(beside);
  for (const std::string& root : roots) {
    const auto found = listed(root);
    const auto [first, last] = found->equal_range(base.id);
    for (auto at = first; at != last; ++at) paths.push_back(at->second);
  }
  return paths;
}

Result<std::shared_ptr<const Reader>> DirectoryFinder::find(const Base& base, const std::string& dependent) {
  const auto known = state_.with([&](State& state) { return state.opened[base.id].lock(); });
  if (known) return known;
  std::string seen;             // what stands where the base should
  std::optional<Error> damage;  // of one that has the id, or stands in its place
  for (const bool listing : {false, true}) {
    for (const std::string& path : candidates(base, dependent, listing)) {
      auto file = File::open(path);
      if (!file) continue;
      const auto header = header_of(*file);
      if (header && header->id != base.id) {
        if (seen.empty()) seen = "'" + path + "' is another archive, of id " + to_hex(header->id);
        continue;
      }
      if (!header) {
        if (header.error().kind() == Errc::not_found) {
          if (seen.empty()) seen = "'" + path + "' is no archive";
        } else if (!damage) {
          damage = Error(header.error()).within("'" + path + "'");
        }
        continue;
      }
      auto reader = Reader::open(std::move(*file), *this, &base);
      if (!reader) {
        damage = std::move(reader).error();
        continue;
      }
      state_.with([&](State& state) { state.opened[base.id] = *reader; });
      return std::move(*reader);
    }
  }
  const std::string what = "'" + dependent + "' needs its " + base_name(base);
  if (damage) return std::move(*damage).within(what + ", which cannot be used");
  return make_error(Errc::not_found, what + ", which was not found" + (seen.empty() ? "" : " (" + seen + ")") +
                                         ": bring it back beside the archive or into its tree, or name its directory "
                                         "with --base-path");
}

std::vector<std::string> needed_by(const std::string& root, const Digest& id, unsigned levels) {
  std::vector<std::string> out;
  std::multimap<Digest, std::string> all;
  list_archives(root, levels, all);
  for (const auto& [own, path] : all) {
    auto file = File::open(path);
    if (!file) continue;
    const auto header = header_of(*file);
    if (!header || (header->features & kFeatureRelations) == 0) continue;
    const auto reader = Reader::open(std::move(*file));
    if (!reader) continue;
    for (const Base& base : (*reader)->manifest().bases)
      if (base.id == id) out.push_back(path);
  }
  std::sort(out.begin(), out.end());
  return out;
}

Result<std::shared_ptr<const Reader>> open_with_bases(const std::string& path, BaseFinder& finder) {
  BREVIS_ASSIGN(File file, File::open(path));
  return Reader::open(std::move(file), finder);
}

}  // namespace brevis::archive
