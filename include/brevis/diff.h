// SPDX-License-Identifier: Apache-2.0
//
// What differs between two models, tensor by tensor. Either side may be an archive or a plain safetensors file.
//
// Errors:  not_found, corrupt, io, invalid_argument (a side that is neither). Threads: pure.
#pragma once

#include <string>
#include <vector>

#include "brevis/error.h"
#include "brevis/model.h"

namespace brevis {

enum class ChangeKind : uint8_t { added, removed, changed, retyped };

struct TensorChange {
  ChangeKind kind;
  std::string name;
  std::string before, after;     // "BF16 [4,8]" each, empty where absent
  uint64_t differing_bytes = 0;  // changed: bytes that differ
  uint64_t bytes = 0;
};

struct DiffReport {
  std::vector<TensorChange> changes;  // by name
  uint64_t same_tensors = 0;
  bool metadata_differs = false;
  bool identical_files = false;  // every byte of the original files equal
  bool same() const { return identical_files; }
  // How the two archives stand to each other: "B stands on A" or the other way round; empty where neither does.
  std::string relation;
};

Result<DiffReport> diff(const std::string& a, const std::string& b, const std::vector<std::string>& base_paths = {});

}  // namespace brevis
