// SPDX-License-Identifier: Apache-2.0
#include "dsl/ahead.h"

#include "codec/lanes.h"

namespace brevis::dsl {

void Ahead::add(const FrameView& frame, std::span<NodeFrame> nodes) {
  const std::vector<Node>& all = frame.bound.program().nodes();
  for (uint32_t at = frame.root; at < frame.root + nodes.size() && !full(); ++at) {
    NodeFrame& node = nodes[at - frame.root];
    if (!is_literal(all[at], codec::CodecId::alias) || codec::alias_side_by_side(node.words) < 2) continue;
    tasks_[count_] = {frame.table(at).codec.get(), node.payload, {nullptr, node.words, all[at].width}};
    nodes_[count_++] = &node;
    words_ += node.words;
  }
}

void Ahead::decode() {
  const auto lanes = [&](size_t i) { return codec::lanes_for(tasks_[i].out.count); };
  size_t of_sixteen = 0, some = 0;
  for (size_t i = 0; i < count_; ++i) of_sixteen += lanes(i) == 16;
  for (size_t i = 0; i < count_; ++i) {
    // One by itself is decoded best on its way to words.
    if ((lanes(i) == 16 ? of_sixteen : count_ - of_sixteen) < 2) continue;
    tasks_[some] = std::move(tasks_[i]);
    tasks_[some].out.data = arena_.take(tasks_[some].out.count);
    nodes_[some++] = nodes_[i];
  }
  codec::decode_alias(std::span(tasks_).first(some));
  // What is refused here will be refused again by whoever wants its words, in words that name the node.
  for (size_t i = 0; i < some; ++i)
    if (tasks_[i].status) nodes_[i]->ready = tasks_[i].out.data;
}

}  // namespace brevis::dsl
