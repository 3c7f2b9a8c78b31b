// SPDX-License-Identifier: Apache-2.0
//
// A model directory: every archive in it, and the index of a sharded model against its shards. Names are those that
// readers of the mounted or extracted tree see: x.brv counts as x.
#include <algorithm>

#include "archive/layout.h"
#include "model/model_dir.h"
#include "serve/archive_names.h"
#include "serve/fsck.h"
#include "serve/walk.h"

namespace brevis::serve {

namespace {

using Files = std::map<std::string, ShardFile>;  // by the name that readers see

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

// Where a link inside the tree leads, as text.
std::string resolved(const std::string& path, const std::string& target) {
  std::vector<std::string> parts;
  const std::string joined = directory_of(path) + target;
  for (size_t at = 0; at <= joined.size();) {
    const size_t end = std::min(joined.find('/', at), joined.size());
    const std::string part = joined.substr(at, end - at);
    if (part == ".." && !parts.empty()) {
      parts.pop_back();
    } else if (!part.empty() && part != "." && part != "..") {
      parts.push_back(part);
    }
    at = end + 1;
  }
  std::string path_text;
  for (const std::string& part : parts) {
    if (!path_text.empty()) path_text += '/';
    path_text += part;
  }
  return path_text;
}

Result<model::ShardIndex> read_index(const ShardFile& file) {
  if (!file.archived) return model::read_shard_index(file.path);
  BREVIS_ASSIGN(File opened, File::open(file.path));
  BREVIS_ASSIGN(const auto reader, archive::Reader::open(std::move(opened)));
  const uint64_t size = reader->manifest().original_size;
  if (size > model::kMaxShardIndex)
    return make_error(Errc::corrupt, file.path + ": an index of " + std::to_string(size) + " bytes");
  std::string text(size, '\0');
  BREVIS_TRY(archive::read_range(*reader, {0, size}, {reinterpret_cast<uint8_t*>(text.data()), text.size()}));
  return model::parse_shard_index(text);
}

// "a, b, c and 7 more"
std::string listing(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i == 0 ? "'" : ", '") + names[i] + "'";
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

class IndexCheck {
 public:
  IndexCheck(FsckContext& context, const Files& files, std::string index) : context_(context), files_(files) {
    index_ = std::move(index);
    folder_ = directory_of(index_);
  }

  Status run() {
    const std::string& shown = files_.at(index_).path;
    auto index = read_index(files_.at(index_));
    if (!index) {
      const bool closed = index.error().kind() == Errc::permission;
      context_.add(closed ? Severity::unread : Severity::damage, shown, index.error().message());
      return {};
    }
    for (const std::string& tensor : index->repeated)
      context_.add(Severity::warning, shown, "names the tensor more than once", tensor);
    std::map<std::string, std::vector<std::string>> wanted;  // shard -> tensors
    for (const auto& entry : index->weight_map) wanted[entry.shard].push_back(entry.tensor);
    for (const auto& [shard, tensors] : wanted) check_shard(shown, shard, tensors);
    std::map<std::string, std::vector<std::string>> holders;
    for (const auto& [shard, held] : held_)
      for (const std::string& tensor : held) holders[tensor].push_back(shard);
    for (const auto& [tensor, shards] : holders)
      if (shards.size() > 1) context_.add(Severity::warning, shown, "in several shards: " + listing(shards), tensor);
    return {};
  }

 private:
  void check_shard(const std::string& shown, const std::string& shard, const std::vector<std::string>& tensors) {
    const auto at = files_.find(folder_ + shard);
    if (at == files_.end()) {
      context_.add(Severity::damage, shown,
                   "shard '" + shard + "' is missing (" + std::to_string(tensors.size()) + " tensors)");
      return;
    }
    auto verdict = verdict_of(at->second);
    if (!verdict) {
      // An archive that cannot be opened has a finding of its own.
      const bool closed = verdict.error().kind() == Errc::permission;
      if (!at->second.archived)
        context_.add(closed ? Severity::unread : Severity::damage, at->second.path, verdict.error().message());
      return;
    }
    if (verdict->kind == VerdictKind::truncated)
      context_.add(Severity::damage, at->second.path,
                   std::to_string(verdict->missing_bytes) + " bytes short of what its header declares");
    if (verdict->kind == VerdictKind::not_safetensors) {
      context_.add(Severity::damage, at->second.path,
                   "named as a shard by '" + index_ + "', but looks like: " + verdict->looks_like);
      return;
    }
    std::set<std::string>& held = held_[shard];
    for (const TensorInfo& tensor : verdict->tensors) held.insert(tensor.name);
    std::vector<std::string> absent;
    for (const std::string& tensor : tensors)
      if (held.count(tensor) == 0) absent.push_back(tensor);
    if (!absent.empty())
      context_.add(Severity::damage, shown,
                   "shard '" + shard + "' lacks " + std::to_string(absent.size()) +
                       (absent.size() == 1 ? " tensor that the index names: " : " tensors that the index names: ") +
                       listing(absent),
                   absent.size() == 1 ? absent.front() : std::string());
    const std::set<std::string> named(tensors.begin(), tensors.end());
    std::vector<std::string> unnamed;
    for (const std::string& tensor : held)
      if (named.count(tensor) == 0) unnamed.push_back(tensor);
    if (!unnamed.empty())
      context_.add(Severity::warning, shown,
                   "shard '" + shard + "' holds tensors that the index does not place there: " + listing(unnamed));
  }

  FsckContext& context_;
  const Files& files_;
  std::string index_, folder_;
  std::map<std::string, std::set<std::string>> held_;  // shard -> its tensors
};

}  // namespace

Status fsck_tree(FsckContext& context, const std::string& root) {
  BREVIS_ASSIGN(const Walk walk, walk_directory(root));
  const auto path_of = [&](const std::string& name) { return root.ends_with('/') ? root + name : root + "/" + name; };
  for (const auto& [path, error] : walk.failed)
    context.add(error.kind() == Errc::permission ? Severity::unread : Severity::damage, path_of(path), error.message());
  Files files;
  std::vector<std::string> archives;
  for (const WalkEntry& entry : walk.entries) {
    if (!entry.stat.is_regular()) continue;
    if (has_archive_ending(entry.path)) {
      archives.push_back(entry.path);
    } else {
      files[entry.path] = {path_of(entry.path), false};
    }
  }
  if (archives.empty()) context.add(Severity::warning, root, "there is no archive in here: nothing was checked");
  for (const std::string& path : archives) {
    BREVIS_TRY(fsck_archive(context, path_of(path)));
    const std::string name = without_archive_ending(path);
    if (!files.emplace(name, ShardFile{path_of(path), true}).second)
      context.add(Severity::warning, path_of(path),
                  "a file '" + name + "' stands beside its archive: readers get the file, not the archive");
  }
  if (!context.options.tensor.empty()) return {};
  // A link may lead to a name that only exists once archives stand for their originals.
  for (const WalkEntry& entry : walk.entries) {
    if (!entry.stat.is_symlink()) continue;
    const auto target = files.find(without_archive_ending(resolved(entry.path, entry.link_target)));
    if (target != files.end()) files.emplace(without_archive_ending(entry.path), ShardFile(target->second));
  }
  for (const auto& [name, file] : files) {
    const size_t slash = name.rfind('/');
    if (model::is_shard_index_name(slash == std::string::npos ? std::string_view(name)
                                                              : std::string_view(name).substr(slash + 1)))
      BREVIS_TRY(IndexCheck(context, files, name).run());
  }
  return {};
}

}  // namespace brevis::serve
