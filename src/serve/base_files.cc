// SPDX-License-Identifier: Apache-2.0
#include "serve/base_files.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "archive/bases.h"
#include "archive/format.h"

namespace brevis::serve {
namespace {

// A base that is not where it was is looked for in the whole tree, but not again and again.
constexpr int64_t kListingHolds = 5'000'000'000;  // ns
constexpr unsigned kMaxTreeDepth = 128;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

// `hint` seen from `directory`, without "." and "..": "" for a path that leaves the tree.
std::string resolve(const std::string& directory, const std::string& hint) {
  std::vector<std::string> parts;
  const std::string whole = directory + "/" + hint;
  for (size_t at = 0; at <= whole.size();) {
    const size_t slash = std::min(whole.find('/', at), whole.size());
    const std::string part = whole.substr(at, slash - at);
    at = slash + 1;
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      parts.push_back(part);
    } else if (parts.empty()) {
      return "";
    } else {
      parts.pop_back();
    }
  }
  std::string path;
  for (const std::string& part : parts) path += (path.empty() ? "" : "/") + part;
  return path;
}

bool may_use(const FileStat& dependent, const FileStat& base) {
  return dependent.uid == 0 || dependent.uid == base.uid || (base.mode & 0004) != 0 ||
         (dependent.gid == base.gid && (base.mode & 0040) != 0);
}

void list_below(const Tree& tree, const std::string& directory, unsigned depth,
                const std::function<void(const Backing&)>& take) {
  std::vector<std::string> directories;
  const auto archives = tree.archives(directory, directories);
  if (!archives || depth > kMaxTreeDepth) return;
  for (const Backing& backing : *archives) take(backing);
  for (const std::string& below : directories) list_below(tree, below, depth + 1, take);
}

// How many archives are being opened above this one, on this thread: ids are no proof against a forged ring of them.
thread_local unsigned depth_of_opening = 0;
struct Deeper {
  Deeper() { ++depth_of_opening; }
  ~Deeper() { --depth_of_opening; }
};

}  // namespace

Result<std::unique_ptr<BaseFiles>> BaseFiles::open(const Tree& tree, const std::vector<std::string>& directories) {
  std::unique_ptr<BaseFiles> files(new BaseFiles(tree));
  for (const std::string& path : directories) {
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.get() < 0) return Error::from_errno(errno, "opening '" + path + "', where bases shall be looked for");
    files->others_.push_back(std::make_unique<Tree>(fd.get(), path, false));
    files->directories_.push_back(std::move(fd));
  }
  return files;
}

void BaseFiles::rescan() {
  listing_.with([](Listing& listing) { listing = {}; });
  for (const auto& tree : others_) tree->rescan();
}

std::shared_ptr<const BaseFiles::Known> BaseFiles::known() const {
  const auto held = listing_.with(
      [](const Listing& listing) { return now_ns() - listing.made_ns < kListingHolds ? listing.known : nullptr; });
  if (held) return held;
  const auto fresh = std::make_shared<Known>();
  const auto add = [&](const Tree& tree) {
    list_below(tree, "", 0, [&](const Backing& backing) { fresh->emplace(backing.header.id, Place{&tree, backing}); });
  };
  add(tree_);
  for (const auto& tree : others_) add(*tree);
  listing_.with([&](Listing& listing) { listing = {fresh, now_ns()}; });
  return fresh;
}

std::vector<BaseFiles::Place> BaseFiles::places(const OpenArchive& archive, const archive::Base& base,
                                                bool listing) const {
  std::vector<Place> out;
  if (listing) {
    const auto all = known();
    const auto [first, last] = all->equal_range(base.id);
    for (auto at = first; at != last; ++at) out.push_back(at->second);
    return out;
  }
  const std::string beside = directory_of(archive.backing().path);
  std::vector<std::string> paths{resolve(beside, base.hint)};
  paths.push_back(resolve(beside, base.hint.substr(base.hint.rfind('/') + 1)));
  std::vector<const Tree*> trees{&tree_};
  for (const auto& tree : others_) trees.push_back(tree.get());
  for (const Tree* tree : trees)
    for (const std::string& path : paths) {
      if (path.empty()) continue;
      auto backing = tree->archive(directory_of(path), path.substr(path.rfind('/') + 1));
      if (backing) out.push_back({tree, std::move(*backing)});
    }
  return out;
}

Result<std::shared_ptr<OpenArchive>> BaseFiles::base_of(Archives& archives, const OpenArchive& archive,
                                                        const archive::Base& base) const {
  const std::string what = archive.path() + ": its " + archive::base_name(base);
  std::string seen;
  Error fault(Errc::not_found, "");
  std::vector<Version> tried;  // one that failed fails again, and so would every archive below it
  for (const bool listing : {false, true}) {
    for (const Place& place : places(archive, base, listing)) {
      const std::string path = place.tree->full_path(place.backing.path);
      if (place.backing.header.id != base.id) {
        if (seen.empty()) seen = " ('" + path + "' is another archive, of id " + to_hex(place.backing.header.id) + ")";
        continue;
      }
      if (!may_use(archive.backing().stat, place.backing.stat)) {
        if (seen.empty()) seen = " ('" + path + "' is not for the eyes of this archive's owner)";
        continue;
      }
      const Version version = Version::of(place.backing.stat);
      if (std::find(tried.begin(), tried.end(), version) != tried.end()) continue;
      tried.push_back(version);
      std::shared_ptr<OpenArchive> found = archives.find(version);
      if (!found) {
        auto file = place.tree->open(place.backing);
        if (!file) continue;
        const auto stat = file->stat();
        if (!stat || Version::of(*stat) != version) continue;
        found = archives.adopt(place.backing, std::move(*file));
      }
      ReaderPtr reader = found->reader();
      if (!reader) {
        auto loaded = found->load();
        if (!loaded) {
          fault = std::move(loaded).error();
          continue;
        }
        reader = std::move(*loaded);
      }
      if (reader->manifest().depth() == base.depth && reader->manifest().original_size == base.original_size)
        return found;
      fault = make_error(Errc::corrupt, path + ": is not the base that it is taken for");
    }
  }
  if (!fault.message().empty()) return Error(Errc::io, what + " cannot be used: " + fault.message(), EIO);
  return Error(Errc::io,
               what + " is not in the tree" + seen + ": bring it back, or name its directory with --base-path", EIO);
}

Result<std::vector<std::shared_ptr<OpenArchive>>> BaseFiles::bases_of(Archives& archives, const OpenArchive& archive,
                                                                      const archive::Reader& reader) const {
  std::vector<std::shared_ptr<OpenArchive>> out;
  if (depth_of_opening > archive::kMaxDepth)
    return Error(Errc::io, archive.path() + ": stands on a chain of bases without end", EIO);
  const Deeper deeper;
  for (const archive::Base& base : reader.manifest().bases) {
    BREVIS_ASSIGN(auto found, base_of(archives, archive, base));
    out.push_back(std::move(found));
  }
  return out;
}

}  // namespace brevis::serve
