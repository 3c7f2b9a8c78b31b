// SPDX-License-Identifier: Apache-2.0
//
// A model directory: its tree of files and links, and the index of a sharded model (model.safetensors.index.json).
// What is to be done with each file is for the packer and the checker to say.
//
// Errors:  io, permission, not_found with the path; corrupt for an index that cannot be read as one.
// Threads: pure. Owns: nothing.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/io.h"
#include "brevis/error.h"
#include "brevis/types.h"

namespace brevis::model {

enum class TreeKind : uint8_t {
  directory,
  file,        // regular; also what a link that leaves the tree points to, when links are followed
  link,        // symbolic, staying inside the tree
  stray_link,  // symbolic, leaving the tree (or absolute) and not followed
  special,     // socket, device, pipe
};

struct TreeEntry {
  std::string path;  // relative to the root, "a/b"; never empty
  TreeKind kind = TreeKind::file;
  FileStat stat;            // of the file itself; of its target when followed
  std::string link_target;  // of links, as stored
  bool followed = false;    // a link that left the tree
};

struct TreeWalk {
  std::vector<TreeEntry> entries;                     // each directory before what it holds, siblings by name
  std::vector<std::pair<std::string, Error>> failed;  // what could not be looked at: path and why
};

// The tree below `root` (a directory, or a link to one). `follow`: links that leave the tree are taken as the files and
// directories they point to; links inside stay links. A directory that contains itself by way of links is an error
// of that entry. Errors: the root cannot be read.
Result<TreeWalk> walk_tree(const std::string& root, bool follow);

// Does a link at `path` (relative to the root) with this target stay inside the tree, as text: relative, and never
// above the root?
bool link_stays_inside(const std::string& path, const std::string& target);

// Which shard holds which tensor, in the index's order.
struct ShardIndex {
  struct Entry {
    std::string tensor, shard;
  };
  std::vector<Entry> weight_map;
  std::vector<std::string> repeated;  // tensors named more than once, each once, sorted
  uint64_t total_size = 0;            // of metadata.total_size; 0 when not given
};

// "model.safetensors.index.json", also of a variant ("model.fp16.safetensors.index.json").
bool is_shard_index_name(std::string_view name);
// Errors: corrupt, naming the byte.
Result<ShardIndex> parse_shard_index(std::string_view text);
// Bytes an index file may have; larger ones are refused unread.
constexpr uint64_t kMaxShardIndex = uint64_t{256} << 20;
Result<ShardIndex> read_shard_index(const std::string& path);

}  // namespace brevis::model
