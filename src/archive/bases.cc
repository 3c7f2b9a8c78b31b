// SPDX-License-Identifier: Apache-2.0
#include "archive/bases.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <optional>

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

// Headers of archives as they were when last seen: trees are listed again and again, and archives hardly ever change.
class KnownHeaders {
 public:
  // nullopt: no archive.
  std::optional<Header> of(const std::string& path, const FileStat& stat) {
    const std::pair key{stat.device, stat.inode};
    const auto known = seen_.with([&](const Seen& seen) -> std::optional<Entry> {
      const auto at = seen.find(key);
      return at == seen.end() ? std::nullopt : std::optional(at->second);
    });
    if (known && known->stat.same_version(stat)) return known->header;
    const auto file = File::open(path);
    if (!file) return std::nullopt;
    const auto header = header_of(*file);
    if (!header) return std::nullopt;
    // What was written just now may be written once more within one tick of the file system's clock.
    if (is_settled(stat))
      seen_.with([&](Seen& seen) {
        if (seen.size() >= kMost) seen.clear();
        seen.insert_or_assign(key, Entry{stat, *header});
      });
    return *header;
  }

 private:
  struct Entry {
    FileStat stat;
    Header header;
  };
  using Seen = std::map<std::pair<uint64_t, uint64_t>, Entry>;  // by device and inode
  static constexpr size_t kMost = 65536;

  static bool is_settled(const FileStat& stat) {
    constexpr int64_t kSettled = 2'000'000'000;  // ns
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() - stat.ctime_ns > kSettled;
  }

  Guarded<Seen> seen_;
};

KnownHeaders& known_headers() {
  static KnownHeaders known;
  return known;
}

// What cannot be read is left out: a base that is in there stays missing, and that is told.
template <class Take>
void list_archives(const std::string& directory, unsigned levels, Take&& take) {
  const auto entries = list_directory_at(AT_FDCWD, directory);
  if (!entries) return;
  for (const DirEntry& entry : *entries) {
    const std::string path = below(directory, entry.name);
    const auto stat = stat_at(AT_FDCWD, path, false);
    if (!stat) continue;
    if (stat->is_directory() && levels > 0) list_archives(path, levels - 1, take);
    if (!stat->is_regular() || !entry.name.ends_with(kSuffix)) continue;
    if (const auto header = known_headers().of(path, *stat)) take(*header, path);
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
  list_archives(root, kMaxTreeDepth,
                [&](const Header& header, const std::string& path) { fresh->emplace(header.id, path); });
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
  std::vector<std::string> out, related;
  list_archives(root, levels, [&](const Header& header, const std::string& path) {
    if ((header.features & kFeatureRelations) != 0) related.push_back(path);
  });
  for (const std::string& path : related) {
    auto file = File::open(path);
    if (!file) continue;
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
