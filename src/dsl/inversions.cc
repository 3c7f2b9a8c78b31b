// SPDX-License-Identifier: Apache-2.0
#include "dsl/inversions.h"

#include <algorithm>

namespace brevis::dsl {

// Some operators without parameters have any number of children, which says what invert() gives each.
bool Inversions::is_root(const Node& node) const {
  return op_ == node.op && params_ == node.params && arity_ == node.children.size();
}

const std::vector<bits::OwnedWords>* Inversions::find(const Node& root, uint64_t position, uint64_t words) const {
  if (!is_root(root)) return nullptr;
  const auto frame = std::lower_bound(frames_.begin(), frames_.end(), position,
                                      [](const Frame& f, uint64_t at) { return f.position < at; });
  if (frame == frames_.end() || frame->position != position || frame->words != words) return nullptr;
  return &frame->children;
}

void Inversions::keep(const Node& root, uint64_t position, uint64_t words, std::vector<bits::OwnedWords>&& children) {
  if (!is_root(root)) {
    op_ = root.op;
    params_ = root.params;
    arity_ = root.children.size();
    frames_.clear();
    bytes_ = 0;
  }
  uint64_t size = 0;
  for (const bits::OwnedWords& child : children) size += child.view().bytes();
  // Frames come in order; what is left out once stays out.
  if (bytes_ + size > limit_ || (!frames_.empty() && frames_.back().position >= position)) return;
  bytes_ += size;
  frames_.push_back({position, words, std::move(children)});
}

}  // namespace brevis::dsl
