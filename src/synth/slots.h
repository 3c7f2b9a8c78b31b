// SPDX-License-Identifier: Apache-2.0
//
// What a node's own slot holds (a word list or a blob, not a codec's table), fitted to a sample of its target.
//
// Errors: none; nullopt where nothing suits. Threads: pure. Determinism: integers only.
#pragma once

#include <memory>
#include <optional>

#include "dsl/op.h"

namespace brevis::synth {

struct FittedSlot {
  dsl::WordList list;
  std::shared_ptr<const dsl::Blob> blob;
  uint64_t bytes = 0;  // as stored
};

std::optional<FittedSlot> fit_slot(const dsl::OpSpec& spec, const dsl::Node& node, const dsl::Target& target);

}  // namespace brevis::synth
