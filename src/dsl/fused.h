// SPDX-License-Identifier: Apache-2.0
//
// A frame with its streams found, and the seam for kernels that run a common shape of subtree at once (for instance a
// merge of a ranked alias field with packed and raw ones) instead of node by node. Which nodes get one is decided when
// a program is bound; a kernel gives exactly the words, and refuses exactly the frames, that the nodes one by one
// would.
//
// Threads: constants and pure functions; a FrameView borrows everything it names for one call.
#pragma once

#include "dsl/exec.h"

namespace brevis::dsl {

// More than any operator has.
constexpr size_t kMaxCounts = 3;

// One node of one frame, as its stored header says.
struct NodeFrame {
  uint64_t words;                  // of the node's stream
  uint64_t counts[kMaxCounts];     // the first spec.counts of them
  uint32_t choice;                 // of the tables bound to its slot
  uint64_t payload_bytes;          // literals only
  ByteSpan payload;                // literals only
  const uint8_t* ready = nullptr;  // words that are there already (ahead.h), followed by spare bytes as in an Arena
};

struct FrameView {
  const BoundProgram& bound;
  uint32_t root;        // node index of the region's root
  uint64_t first_word;  // the frame's place in the region's stream
  std::span<const NodeFrame> nodes;
  std::span<const ByteSpan> bases;  // bytes for each `base` node of the region

  const NodeFrame& at(uint32_t node) const { return nodes[node - root]; }
  // The bytes of a `base` node's words.
  ByteSpan base_bytes(const Node& node) const {
    return bases[static_cast<size_t>(node.base) -
                 bound.program().regions()[static_cast<size_t>(node.region)].first_base];
  }
  // The table that this frame uses at a node with a slot.
  const SlotTable& table(uint32_t node) const {
    return bound.tables(bound.program().nodes()[node].slot)[at(node).choice];
  }
};

// Finds the streams of a frame of `words` words: the gate of its header. `nodes` has one entry for each node of the
// region. Errors: corrupt.
Status parse_frame(const BoundProgram& bound, uint32_t region, uint64_t words, ByteSpan stored,
                   std::span<NodeFrame> nodes, Arena& arena);

// Computes the words of a node and all below it, by its kernel where it has one: for streams that a kernel leaves to
// the nodes. `out` is aligned.
Status run_subtree(const FrameView& frame, uint32_t node, bits::Words out, Arena& arena);
// The same, the node itself without its kernel; `out` may be unaligned.
Status run_nodes(const FrameView& frame, uint32_t node, bits::Words out, Arena& arena);

bool is_literal(const Node& node, codec::CodecId codec);
// Whether a node is an alias-coded literal or has one right below a rank or palette.
bool stands_on_alias(const std::vector<Node>& nodes, uint32_t at);

// The kernel for a node of a region and all below it, or nullptr. Its `out` may be unaligned when the node is the
// region's root; kernels read and write through unaligned loads and stores.
FusedRun choose_fused(const BoundProgram& bound, uint32_t node);

}  // namespace brevis::dsl
