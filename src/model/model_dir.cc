// SPDX-License-Identifier: Apache-2.0
#include "model/model_dir.h"

#include <fcntl.h>
#include <stdlib.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "model/json_scan.h"

namespace brevis::model {
namespace {

// As deep as a path may be long: deeper trees are loops or attacks.
constexpr size_t kMaxTreeDepth = 512;

std::string joined(const std::string& directory, const std::string& name) {
  return directory.empty() ? name : directory + "/" + name;
}

// The path with every link resolved; empty when it leads nowhere.
std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&free)> resolved(::realpath(path.c_str(), nullptr), &free);
  return resolved ? std::string(resolved.get()) : std::string();
}

bool lies_within(const std::string& path, const std::string& root) {
  if (root == "/") return true;
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

struct FileId {
  uint64_t device, inode;
  friend bool operator==(const FileId&, const FileId&) = default;
};

class Walker {
 public:
  Walker(std::string root, bool follow) : root_(std::move(root)), real_root_(real_path(root_)), follow_(follow) {}

  Result<TreeWalk> run() {
    BREVIS_ASSIGN(const FileStat stat, stat_at(AT_FDCWD, root_, true));
    if (!stat.is_directory()) return make_error(Errc::invalid_argument, root_ + " is not a directory");
    above_.push_back({stat.device, stat.inode});
    BREVIS_TRY(directory(""));
    return std::move(walk_);
  }

 private:
  Status directory(const std::string& relative) {
    if (above_.size() > kMaxTreeDepth) return make_error(Errc::invalid_argument, "directories nested too deeply");
    BREVIS_ASSIGN(const std::vector<DirEntry> names, list_directory_at(AT_FDCWD, absolute(relative)));
    for (const DirEntry& name : names) {
      const std::string path = joined(relative, name.name);
      if (Status status = entry(path); !status) walk_.failed.emplace_back(path, std::move(status).error());
    }
    return {};
  }

  Status entry(const std::string& path) {
    TreeEntry here;
    here.path = path;
    BREVIS_ASSIGN(here.stat, stat_at(AT_FDCWD, absolute(path), false));
    if (here.stat.is_symlink()) BREVIS_TRY(link(here));
    if (here.kind == TreeKind::link || here.kind == TreeKind::stray_link) {
      walk_.entries.push_back(std::move(here));
      return {};
    }
    here.kind = here.stat.is_regular()     ? TreeKind::file
                : here.stat.is_directory() ? TreeKind::directory
                                           : TreeKind::special;
    const bool descend = here.kind == TreeKind::directory;
    const FileId id{here.stat.device, here.stat.inode};
    if (descend && std::find(above_.begin(), above_.end(), id) != above_.end())
      return make_error(Errc::invalid_argument, "the directory contains itself by way of " + here.link_target);
    walk_.entries.push_back(std::move(here));
    if (!descend) return {};
    above_.push_back(id);
    Status status = directory(path);
    above_.pop_back();
    return status;
  }

  // Leaves kind `file` when the link is to be taken as what it points to.
  Status link(TreeEntry& here) {
    BREVIS_ASSIGN(here.link_target, read_link_at(AT_FDCWD, absolute(here.path)));
    const std::string target = real_path(absolute(here.path));
    const bool inside = link_stays_inside(here.path, here.link_target) &&
                        (target.empty() || real_root_.empty() || lies_within(target, real_root_));
    if (inside) {
      here.kind = TreeKind::link;
    } else if (!follow_) {
      here.kind = TreeKind::stray_link;
    } else {
      BREVIS_ASSIGN(here.stat, stat_at(AT_FDCWD, absolute(here.path), true));
      here.followed = true;
    }
    return {};
  }

  std::string absolute(const std::string& relative) const { return relative.empty() ? root_ : root_ + "/" + relative; }

  const std::string root_, real_root_;
  const bool follow_;
  std::vector<FileId> above_;  // directories on the way down to here
  TreeWalk walk_;
};

// The value of "weight_map". False when the text stops being JSON or holds something else (then `wrong` says what).
bool read_weight_map(JsonScanner& scan, ShardIndex& index, std::string& wrong) {
  if (scan.next() != JsonToken::begin_object) {
    wrong = "weight_map is not an object";
    return false;
  }
  for (;;) {
    const JsonToken token = scan.next();
    if (token == JsonToken::end_object) return true;
    if (token != JsonToken::key) return false;
    std::string tensor = scan.unescaped();
    const JsonToken value = scan.next();
    if (value == JsonToken::fault) return false;
    if (value != JsonToken::string) {
      wrong = "the shard of tensor " + quoted(tensor) + " is not a string";
      return false;
    }
    index.weight_map.push_back({std::move(tensor), scan.unescaped()});
  }
}

// The value of "metadata"; only total_size is of interest, and writers differ even there (some write 1e9).
bool read_metadata(JsonScanner& scan, ShardIndex& index) {
  JsonScanner::Oddities ignored;
  const JsonToken first = scan.next();
  if (first != JsonToken::begin_object) return scan.skip_rest(first, ignored);
  for (;;) {
    const JsonToken token = scan.next();
    if (token == JsonToken::end_object) return true;
    if (token != JsonToken::key) return false;
    const bool total = scan.unescaped() == "total_size";
    const JsonToken value = scan.next();
    if (total && value == JsonToken::number) index.total_size = json_unsigned(scan.text()).value_or(0);
    if (!scan.skip_rest(value, ignored)) return false;
  }
}

std::vector<std::string> repeated_tensors(const ShardIndex& index) {
  std::vector<std::string_view> names;
  names.reserve(index.weight_map.size());
  for (const ShardIndex::Entry& entry : index.weight_map) names.push_back(entry.tensor);
  std::sort(names.begin(), names.end());
  std::vector<std::string> repeated;
  for (size_t i = 1; i < names.size(); ++i)
    if (names[i] == names[i - 1] && (repeated.empty() || repeated.back() != names[i])) repeated.emplace_back(names[i]);
  return repeated;
}

}  // namespace

Result<TreeWalk> walk_tree(const std::string& root, bool follow) {
  std::string trimmed = root;
  while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
  return Walker(std::move(trimmed), follow).run();
}

bool link_stays_inside(const std::string& path, const std::string& target) {
  if (target.empty() || target[0] == '/') return false;
  size_t depth = static_cast<size_t>(std::count(path.begin(), path.end(), '/'));  // of the directory of the link
  for (size_t at = 0; at <= target.size();) {
    const size_t slash = std::min(target.find('/', at), target.size());
    const std::string_view part = std::string_view(target).substr(at, slash - at);
    if (part == "..") {
      if (depth == 0) return false;
      --depth;
    } else if (!part.empty() && part != ".") {
      ++depth;
    }
    at = slash + 1;
  }
  return true;
}

bool is_shard_index_name(std::string_view name) { return name.ends_with(".safetensors.index.json"); }

Result<ShardIndex> parse_shard_index(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (const auto bad = find_invalid_utf8(text))
    return make_error(Errc::corrupt, "index is not UTF-8 (byte " + std::to_string(*bad) + ")");
  JsonScanner scan(text);
  JsonScanner::Oddities ignored;
  ShardIndex index;
  std::string wrong;
  bool have_map = false;
  bool good = scan.next() == JsonToken::begin_object;
  if (!good) wrong = "index is not a JSON object";
  while (good) {
    const JsonToken token = scan.next();
    if (token == JsonToken::end_object) {
      good = scan.next() == JsonToken::end;
      break;
    }
    if (token != JsonToken::key) {
      good = false;
      break;
    }
    const std::string key = scan.unescaped();
    if (key == "weight_map") {
      have_map = true;
      good = read_weight_map(scan, index, wrong);
    } else {
      good = key == "metadata" ? read_metadata(scan, index) : scan.skip_value(ignored);
    }
  }
  if (!good) {
    if (wrong.empty() || !scan.fault().empty()) wrong = "index is not JSON: expected " + std::string(scan.fault());
    return make_error(Errc::corrupt, wrong + " (byte " + std::to_string(scan.offset()) + ")");
  }
  if (!have_map) return make_error(Errc::corrupt, "index has no weight_map");
  index.repeated = repeated_tensors(index);
  return index;
}

Result<ShardIndex> read_shard_index(const std::string& path) {
  BREVIS_ASSIGN(const ByteVector bytes, read_whole_file(path, kMaxShardIndex));
  auto index = parse_shard_index({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!index) return std::move(index).error().within(path);
  return index;
}

}  // namespace brevis::model
