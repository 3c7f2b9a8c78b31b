// SPDX-License-Identifier: Apache-2.0
#include "pack/inventory.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "archive/reader.h"
#include "base/io.h"

namespace brevis::pack {
namespace {

namespace stdfs = std::filesystem;

constexpr std::string_view kArchiveSuffix = ".brv";

bool ends_with(const std::string& text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

std::string join(const std::string& directory, const std::string& name) {
  return directory.empty() ? name : directory + "/" + name;
}

// The last component of a path as a person wrote it ("models/a/" is "a", "." is the working directory's name).
std::string name_of(const std::string& path) {
  std::error_code ignored;
  stdfs::path clean = stdfs::path(path).lexically_normal();
  if (clean.filename().empty() || clean.filename() == "." || clean.filename() == "..")
    clean = stdfs::weakly_canonical(stdfs::absolute(clean, ignored), ignored);
  return clean.filename().empty() ? clean.parent_path().filename().string() : clean.filename().string();
}

using Identity = std::pair<uint64_t, uint64_t>;  // device and inode

std::optional<Identity> identity_of(const std::string& path) {
  const auto stat = stat_at(AT_FDCWD, path, true);
  return stat ? std::optional<Identity>({stat->device, stat->inode}) : std::nullopt;
}

// The name of an archive that was being written: see AtomicFile.
bool is_left_over(const std::string& path) {
  constexpr std::string_view kMark = ".brv.tmp-";
  constexpr size_t kLetters = 6;
  return path.size() > kMark.size() + kLetters &&
         path.compare(path.size() - kMark.size() - kLetters, kMark.size(), kMark) == 0;
}

// Makes an item of an archive whose original is packed anew.
Status open_source_archive(Item& item) {
  BREVIS_ASSIGN(File file, File::open(item.source));
  BREVIS_ASSIGN(const auto reader, archive::Reader::open(std::move(file)));
  item.action = PackAction::packed;
  item.bytes = reader->manifest().original_size;
  item.depth = reader->manifest().depth();
  return {};
}

class Walk {
 public:
  Walk(const PackOptions& options, Inventory& out) : options_(options), out_(out) {}

  // The tree below `source` into `target`; an empty target packs in place.
  Status tree(const std::string& source, const std::string& target) {
    std::error_code failed;
    root_ = stdfs::canonical(source, failed);
    if (failed) return Error::from_errno(failed.value(), "finding '" + source + "'");
    in_place_ = target.empty();
    target_ = identity_of(options_.target);
    if (target_ && identity_of(source) == target_)
      return make_error(Errc::invalid_argument, "'" + source +
                                                    "' is source and target; without -o archives go beside their "
                                                    "sources");
    directory(source, in_place_ ? source : target, 0);
    return {};
  }

 private:
  // Deeper trees are made by hand or damage.
  static constexpr int kMaxDepth = 128;

  void fail(const std::string& path, Error error) {
    Item item;
    item.source = path;
    item.action = PackAction::failed;
    item.in_tree = true;
    item.error = std::move(error);
    out_.items.push_back(std::move(item));
  }

  void directory(const std::string& source, const std::string& target, int depth) {
    if (depth > kMaxDepth)
      return fail(source, make_error(Errc::invalid_argument, "'" + source + "' is nested deeper than " +
                                                                 std::to_string(kMaxDepth) + " directories"));
    const auto identity = identity_of(source);
    if (target_ && identity == target_) return;  // what an earlier run made
    if (identity && std::find(above_.begin(), above_.end(), *identity) != above_.end())
      return fail(source, make_error(Errc::invalid_argument, "'" + source +
                                                                 "' is a directory above itself: a link that --follow "
                                                                 "takes leads back; pack without it, or remove the "
                                                                 "link"));
    auto entries = list_directory_at(AT_FDCWD, source);
    if (!entries) return fail(source, std::move(entries).error());
    if (!in_place_) out_.directories.push_back({source, target});
    above_.push_back(identity.value_or(Identity{}));
    for (const DirEntry& entry : *entries) visit(join(source, entry.name), join(target, entry.name), depth);
    above_.pop_back();
  }

  void visit(const std::string& source, const std::string& target, int depth) {
    auto stat = stat_at(AT_FDCWD, source, false);
    if (!stat) return fail(source, std::move(stat).error());
    if (stat->is_symlink()) return link(source, target, depth);
    if (stat->is_directory()) return directory(source, target, depth + 1);
    if (stat->is_regular()) return file(source, target, stat->size);
    skip(source, target, "neither file, directory nor link: left out");
  }

  void skip(const std::string& source, const std::string& target, const std::string& note) {
    out_.items.push_back({source, target, PackAction::skipped, {}, 0, true, std::nullopt, note});
  }

  void link(const std::string& source, const std::string& target, int depth) {
    std::error_code failed;
    const stdfs::path real = stdfs::canonical(source, failed);
    const auto inside = failed ? stdfs::path() : real.lexically_relative(root_);
    const bool leaves = !failed && (inside.empty() || *inside.begin() == "..");
    if (options_.follow_links && (leaves || in_place_) && !failed) {
      if (in_place_ && !leaves) return;  // reached by its own path
      auto stat = stat_at(AT_FDCWD, source, true);
      if (!stat) return fail(source, std::move(stat).error());
      if (stat->is_directory()) return directory(source, target, depth + 1);
      if (stat->is_regular()) return file(source, target, stat->size);
      return skip(source, target, "leads to what is neither file nor directory: left out");
    }
    if (in_place_) return;  // links stay where they are
    auto text = read_link_at(AT_FDCWD, source);
    if (!text) return fail(source, std::move(text).error());
    if (leaves)
      return fail(source, make_error(Errc::unsupported, "'" + source + "' is a link to '" + *text +
                                                            "', outside the tree; --follow packs what it points "
                                                            "to"));
    Item item{source, target, PackAction::linked, *text, 0, true, std::nullopt, {}};
    // An absolute link would go on pointing into the source tree.
    if (!text->empty() && text->front() == '/' && !failed)
      item.link_target = real.lexically_relative(stdfs::canonical(stdfs::path(source).parent_path(), failed)).string();
    out_.items.push_back(std::move(item));
  }

  void file(const std::string& source, const std::string& target, uint64_t bytes) {
    if (is_left_over(source)) return skip(source, target, "left behind by a run that was killed: left out; remove it");
    Item item{source, target, PackAction::copied, {}, bytes, true, std::nullopt, {}};
    if (ends_with(source, kArchiveSuffix)) {
      if (options_.from_archives) return archive(std::move(item));
      if (in_place_) return;
    } else if (options_.from_archives) {
      if (in_place_) return;
    } else if (bytes >= options_.opaque_min || ends_with(source, ".safetensors") || is_safetensors(source)) {
      item.action = PackAction::packed;
      item.target += kArchiveSuffix;
    } else if (in_place_) {
      return;
    }
    out_.bytes += bytes;
    out_.items.push_back(std::move(item));
  }

  // An archive that is packed anew, under the same name.
  void archive(Item item) {
    auto opened = open_source_archive(item);
    if (!opened) return fail(item.source, std::move(opened).error());
    if (in_place_ && options_.bases.empty() && item.depth == 0) return;  // stands alone
    out_.bytes += item.bytes;
    out_.items.push_back(std::move(item));
  }

  // Small files only (model caches hold blobs without extension).
  static bool is_safetensors(const std::string& path) {
    auto verdict = examine_file(path);
    return verdict && verdict->kind != VerdictKind::not_safetensors;
  }

  const PackOptions& options_;
  Inventory& out_;
  stdfs::path root_;
  std::optional<Identity> target_;  // when it exists
  std::vector<Identity> above_;     // directories that are being walked, from the top
  bool in_place_ = false;
};

bool is_existing_directory(const std::string& path) {
  const auto stat = stat_at(AT_FDCWD, path, true);
  return stat && stat->is_directory();
}

// A file named on the command line.
void single_file(const std::string& source, const std::string& target, uint64_t bytes, Inventory& out) {
  out.items.push_back({source, target, PackAction::packed, {}, bytes, false, std::nullopt, {}});
  out.bytes += bytes;
}

// No item may write where another one writes or reads: with --force the first would be gone.
void refuse_clashes(Inventory& inventory, bool in_place) {
  std::set<Identity> sources;
  for (const Item& item : inventory.items)
    if (item.action == PackAction::packed || item.action == PackAction::copied)
      if (const auto identity = identity_of(item.source)) sources.insert(*identity);
  std::map<std::string, std::string> targets;
  for (Item& item : inventory.items) {
    if (item.action == PackAction::failed || item.action == PackAction::skipped) continue;
    std::string clash;
    const auto [at, fresh] = targets.emplace(stdfs::path(item.target).lexically_normal().string(), item.source);
    const auto there = stat_at(AT_FDCWD, item.target, false);
    if (!fresh) {
      clash = "is that of '" + at->second + "', too";
    } else if (there && sources.count({there->device, there->inode}) != 0 &&
               !(in_place && item.source == item.target)) {
      clash = "is a source itself";
    }
    if (clash.empty()) continue;
    item.action = PackAction::failed;
    item.error = make_error(Errc::invalid_argument, "'" + item.source + "': its target '" + item.target + "' " + clash +
                                                        "; name another target");
  }
}

// Leaves this process its part. All of them walk the same tree and so count alike.
void take_shard(const PackOptions& options, Inventory& inventory) {
  if (options.shards <= 1) return;
  std::vector<Item> kept;
  size_t packed = 0;
  inventory.bytes = 0;
  for (Item& item : inventory.items) {
    const size_t turn = item.action == PackAction::packed ? packed++ : 0;
    if (turn % options.shards != options.shard) continue;
    inventory.bytes += item.bytes;
    kept.push_back(std::move(item));
  }
  inventory.items = std::move(kept);
}

// A file of several that an earlier run packed and removed (--resume --replace).
bool was_replaced(const PackOptions& options, const std::string& source, const std::string& below) {
  if (!options.resume || !options.replace || options.sources.size() == 1) return false;
  return stat_at(AT_FDCWD, (below.empty() ? source : below) + std::string(kArchiveSuffix), true).has_value();
}

}  // namespace

Result<Inventory> take_inventory(const PackOptions& options) {
  if (options.sources.empty()) return make_error(Errc::invalid_argument, "nothing to pack: name a file or directory");
  Inventory out;
  const bool several = options.sources.size() > 1;
  if (several && !options.target.empty()) out.directories.push_back({"", options.target});
  size_t grouped = 0;  // items that know their group
  for (size_t group = 0; group < options.sources.size(); ++group) {
    const std::string& source = options.sources[group];
    if (group > 0)
      for (; grouped < out.items.size(); ++grouped) out.items[grouped].group = group - 1;
    const std::string below = several && !options.target.empty() ? join(options.target, name_of(source)) : "";
    const auto found = stat_at(AT_FDCWD, source, true);
    if (!found && was_replaced(options, source, below)) {
      out.targets.push_back((below.empty() ? source : below) + std::string(kArchiveSuffix));
      continue;
    }
    BREVIS_ASSIGN(const FileStat stat, found);
    if (stat.is_directory()) {
      out.targets.push_back(several && !below.empty() ? below : options.target.empty() ? source : options.target);
      BREVIS_TRY(Walk(options, out).tree(source, several ? below : options.target));
      continue;
    }
    if (!stat.is_regular())
      return make_error(Errc::invalid_argument, "'" + source + "' is neither a file nor a directory");
    if (ends_with(source, kArchiveSuffix) && !options.from_archives)
      return make_error(Errc::invalid_argument, "'" + source + "' is named as an archive already");
    const std::string suffix = options.from_archives ? "" : std::string(kArchiveSuffix);
    std::string target = source + suffix;
    if (several && !options.target.empty()) {
      target = below + suffix;
    } else if (!options.target.empty()) {
      target = is_existing_directory(options.target) ? join(options.target, name_of(source) + suffix) : options.target;
    }
    single_file(source, target, stat.size, out);
    out.targets.push_back(target);
    if (options.from_archives) {
      out.bytes -= stat.size;
      BREVIS_TRY(open_source_archive(out.items.back()));
      out.bytes += out.items.back().bytes;
    }
  }
  for (; grouped < out.items.size(); ++grouped) out.items[grouped].group = options.sources.size() - 1;
  if (options.from_archives)  // who stands on others goes first, and needs them no more when their turn comes
    std::stable_sort(out.items.begin(), out.items.end(),
                     [](const Item& a, const Item& b) { return a.depth > b.depth; });
  refuse_clashes(out, options.from_archives);
  take_shard(options, out);
  return out;
}

}  // namespace brevis::pack
