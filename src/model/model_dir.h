// SPDX-License-Identifier: Apache-2.0
//
// What holds a model directory together: the index of a sharded model (model.safetensors.index.json), which says where
// each tensor is. Holding it against the shards is for the checker to do.
//
// Errors:  io, permission, not_found with the path; corrupt for an index that cannot be read as one.
// Threads: pure. Owns: nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "brevis/error.h"

namespace brevis::model {

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
