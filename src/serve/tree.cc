// SPDX-License-Identifier: Apache-2.0
#include "serve/tree.h"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <unordered_map>
#include <unordered_set>

#include "archive/format.h"
#include "base/checksum.h"
#include "base/io_tree.h"
#include "base/threads.h"
#include "brevis/log.h"

namespace brevis::serve {
namespace {

// Headers kept, in two generations of this many: enough for the largest trees at a few MB.
constexpr size_t kHeaderGeneration = size_t{1} << 15;

bool has_suffix(std::string_view name) { return name.size() > kArchiveSuffix.size() && name.ends_with(kArchiveSuffix); }

std::string without_suffix(std::string_view name) {
  return std::string(name.substr(0, name.size() - kArchiveSuffix.size()));
}

std::string join(const std::string& directory, std::string_view name) {
  std::string path = directory;
  if (!path.empty()) path += '/';
  return path += name;
}

bool is_bad_name(std::string_view name) {
  return name.empty() || name == "." || name == ".." || name.find('/') != name.npos || name.find('\0') != name.npos;
}

uint64_t hash_words(std::initializer_list<uint64_t> words) {
  return xxh3_64({reinterpret_cast<const uint8_t*>(words.begin()), words.size() * sizeof(uint64_t)});
}

}  // namespace

size_t VersionHash::operator()(const Version& version) const {
  return hash_words({version.device, version.inode, version.size, static_cast<uint64_t>(version.mtime_ns)});
}

uint64_t inode_number(const Backing& backing, View view) {
  const FileStat& stat = backing.stat;
  const uint64_t salt = (view == View::raw ? 2u : 0u) + (backing.is_archive ? 1u : 0u);
  const uint64_t number =
      backing.is_archive ? hash_words({salt, stat.device, stat.inode, stat.size, static_cast<uint64_t>(stat.mtime_ns)})
                         : hash_words({salt, stat.device, stat.inode});
  return number < 2 ? number + 2 : number;
}

bool archive_is_whole(const File& file, const FileStat& stat, const archive::Header& header) {
  const uint64_t declared = header.index_offset + header.index_length + archive::kFooterBytes;
  if (declared < header.index_offset || stat.size < declared) return false;
  // Copies that end have their time set to then, or to the original's; an hour ago is long over.
  constexpr int64_t kLatelyNs = int64_t{3600} * 1'000'000'000;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  if (std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() - stat.mtime_ns > kLatelyNs) return true;
  uint64_t magic = 0;
  const auto got = file.read_some(declared - sizeof magic, {reinterpret_cast<uint8_t*>(&magic), sizeof magic});
  return !got || (*got == sizeof magic && magic == archive::kFooterMagic);
}

struct Tree::Cache {
  struct Known {
    Peek peek;
    archive::Header header;
  };
  struct Headers {
    std::unordered_map<Version, Known, VersionHash> young, old;
  };
  Guarded<Headers> headers;
  Guarded<std::unordered_set<std::string>> warned;

  bool find(const Version& version, Known& known) {
    return headers.with([&](Headers& all) {
      if (const auto found = all.young.find(version); found != all.young.end()) {
        known = found->second;
        return true;
      }
      const auto found = all.old.find(version);
      if (found == all.old.end()) return false;
      known = found->second;
      add(all, version, known);
      return true;
    });
  }
  void add(const Version& version, const Known& known) {
    headers.with([&](Headers& all) { add(all, version, known); });
  }

 private:
  static void add(Headers& all, const Version& version, const Known& known) {
    if (all.young.size() >= kHeaderGeneration) {
      all.old = std::move(all.young);
      all.young.clear();
    }
    all.young.insert_or_assign(version, known);
  }
};

Tree::Tree(int source_fd, std::string source_path, bool show_archives)
    : source_fd_(source_fd),
      source_path_(std::move(source_path)),
      show_archives_(show_archives),
      cache_(std::make_unique<Cache>()) {}

Tree::~Tree() = default;

std::string Tree::full_path(const std::string& path) const { return join(source_path_, path); }

void Tree::rescan() {
  cache_->headers.with([](Cache::Headers& all) { all = {}; });
  cache_->warned.with([](auto& paths) { paths.clear(); });
}

void Tree::warn_once(const std::string& path, std::string_view what) const {
  const bool first = cache_->warned.with([&](auto& paths) {
    if (paths.size() > kHeaderGeneration) paths.clear();
    return paths.insert(path).second;
  });
  if (first) log(LogLevel::warning, full_path(path) + ": " + std::string(what), {{"file", full_path(path)}});
}

// What the first 64 bytes of a file say. Trouble in reading them is not remembered: it may pass.
Tree::Peek Tree::peek(int directory_fd, const std::string& name, const Backing& backing,
                      archive::Header& header) const {
  const Version version = Version::of(backing.stat);
  Cache::Known known{Peek::foreign, {}};
  if (cache_->find(version, known)) {
    header = known.header;
    return known.peek;
  }
  // A link may stay in the source and still climb above its own directory: the walk starts at the source.
  const std::string shown = full_path(backing.path);
  auto file = backing.by_link ? open_beneath(source_fd_, backing.path, true, shown)
                              : open_beneath(directory_fd, name, false, shown);
  if (!file) {
    warn_once(backing.path, "cannot be opened, shown as it is: " + file.error().message());
    return Peek::unreadable;
  }
  advise_random(*file);  // 64 bytes, not a window of read-ahead
  std::array<uint8_t, archive::kHeaderBytes> bytes;
  const auto stat = file->stat();
  const auto got = file->read_some(0, bytes);
  if (!stat || !got || Version::of(*stat) != version) {
    if (!got) warn_once(backing.path, "cannot be read, shown as it is: " + got.error().message());
    return Peek::unreadable;
  }
  auto parsed = archive::parse_header(ByteSpan(bytes).first(*got));
  if (parsed && !archive_is_whole(*file, *stat, *parsed)) {
    // Not remembered: it may be whole soon, at the same size and time.
    warn_once(backing.path, "is not whole, shown as it is: it is being copied, or its copy was cut off");
    return Peek::unfinished;
  }
  if (parsed) {
    known = {Peek::archive, *parsed};
  } else if (parsed.error().kind() == Errc::not_found) {
    warn_once(backing.path, "is named like an archive but is none, shown as it is");
  } else {
    warn_once(backing.path, "is shown as it is: " + parsed.error().message());
  }
  cache_->add(version, known);
  header = known.header;
  return known.peek;
}

// The entry `name` of a directory, not yet knowing under which name it will be shown.
Backing Tree::classify(int directory_fd, const std::string& directory, const std::string& name,
                       const FileStat& stat) const {
  Backing backing;
  backing.path = join(directory, name);
  backing.stat = stat;
  if (!has_suffix(name) || !(stat.is_regular() || stat.is_symlink())) return backing;
  Backing target = backing;
  if (stat.is_symlink()) {
    target.by_link = true;
    const auto file = open_beneath(source_fd_, backing.path, true);
    if (!file) return backing;  // leaves the source, or leads nowhere
    const auto behind = file->stat();
    if (!behind || !behind->is_regular()) return backing;
    target.stat = *behind;
  }
  target.is_archive = peek(directory_fd, name, target, target.header) == Peek::archive;
  return target.is_archive ? target : backing;
}

Result<Backing> Tree::find(const std::string& directory, View view, std::string_view name) const {
  if (is_bad_name(name)) return make_error(Errc::not_found, "no such name");
  BREVIS_ASSIGN(const UniqueFd at, open_directory_beneath(source_fd_, directory));
  const std::string own(name);
  auto stat = stat_at(at.get(), own, false);
  if (stat) {
    Backing backing;
    backing.path = join(directory, own);
    backing.stat = *stat;
    if (view == View::raw || !has_suffix(name)) return backing;
    if (!classify(at.get(), directory, own, *stat).is_archive || show_archives_) return backing;
    return make_error(Errc::not_found, full_path(backing.path) + " is shown as what it holds");
  }
  if (stat.error().kind() != Errc::not_found || view == View::raw) return std::move(stat).error();
  const std::string packed = own + std::string(kArchiveSuffix);
  const auto packed_stat = stat_at(at.get(), packed, false);
  if (packed_stat) {
    Backing backing = classify(at.get(), directory, packed, *packed_stat);
    if (backing.is_archive) return backing;
  }
  return std::move(stat).error();
}

Result<std::vector<Listed>> Tree::list(const std::string& directory, View view) const {
  BREVIS_ASSIGN(const UniqueFd at, open_directory_beneath(source_fd_, directory));
  BREVIS_ASSIGN(const std::vector<DirEntry> entries, list_directory_at(at.get(), "."));
  const auto exists = [&](const std::string& name) {
    const auto found = std::lower_bound(entries.begin(), entries.end(), name,
                                        [](const DirEntry& entry, const std::string& key) { return entry.name < key; });
    return found != entries.end() && found->name == name;
  };
  std::vector<Listed> shown;
  shown.reserve(entries.size());
  for (const DirEntry& entry : entries) {
    if (directory.empty() && entry.name == kRawName) continue;
    const auto stat = stat_at(at.get(), entry.name, false);
    if (!stat) continue;  // gone meanwhile
    Backing own;
    own.path = join(directory, entry.name);
    own.stat = *stat;
    if (view == View::shown && has_suffix(entry.name)) {
      Backing backing = classify(at.get(), directory, entry.name, *stat);
      if (backing.is_archive) {
        std::string name = without_suffix(entry.name);
        if (exists(name)) {
          warn_once(own.path, "is not shown: '" + name + "' stands beside it and wins");
        } else if (!directory.empty() || name != kRawName) {
          shown.push_back({std::move(name), std::move(backing)});
        }
        if (!show_archives_) continue;
      }
    }
    shown.push_back({entry.name, std::move(own)});
  }
  std::sort(shown.begin(), shown.end(), [](const Listed& a, const Listed& b) { return a.name < b.name; });
  return shown;
}

Result<Backing> Tree::archive(const std::string& directory, const std::string& name) const {
  if (is_bad_name(name)) return make_error(Errc::not_found, "no such name");
  BREVIS_ASSIGN(const UniqueFd at, open_directory_beneath(source_fd_, directory));
  BREVIS_ASSIGN(const FileStat stat, stat_at(at.get(), name, false));
  Backing backing = classify(at.get(), directory, name, stat);
  if (!backing.is_archive) return make_error(Errc::not_found, full_path(backing.path) + " is no archive");
  return backing;
}

Result<std::vector<Backing>> Tree::archives(const std::string& directory, std::vector<std::string>& directories) const {
  BREVIS_ASSIGN(const UniqueFd at, open_directory_beneath(source_fd_, directory));
  BREVIS_ASSIGN(const std::vector<DirEntry> entries, list_directory_at(at.get(), "."));
  std::vector<Backing> found;
  for (const DirEntry& entry : entries) {
    const auto stat = stat_at(at.get(), entry.name, false);
    if (!stat) continue;  // gone meanwhile
    if (stat->is_directory()) directories.push_back(join(directory, entry.name));
    if (!has_suffix(entry.name)) continue;
    Backing backing = classify(at.get(), directory, entry.name, *stat);
    if (backing.is_archive) found.push_back(std::move(backing));
  }
  return found;
}

Result<FileStat> Tree::look_again(const Backing& backing) const {
  if (backing.by_link) {
    BREVIS_ASSIGN(const File file, open_beneath(source_fd_, backing.path, true));
    return file.stat();
  }
  const size_t slash = backing.path.rfind('/');
  const std::string directory = slash == backing.path.npos ? "" : backing.path.substr(0, slash);
  const std::string name = slash == backing.path.npos ? backing.path : backing.path.substr(slash + 1);
  if (directory.empty()) return stat_at(source_fd_, name.empty() ? "." : name, false);
  BREVIS_ASSIGN(const UniqueFd at, open_directory_beneath(source_fd_, directory));
  return stat_at(at.get(), name, false);
}

Result<std::string> Tree::link_target(const Backing& backing) const { return read_link_at(source_fd_, backing.path); }

Result<File> Tree::open(const Backing& backing) const {
  return open_beneath(source_fd_, backing.path, backing.by_link, full_path(backing.path));
}

}  // namespace brevis::serve
