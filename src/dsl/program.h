// SPDX-License-Identifier: Apache-2.0
//
// A program: the tree of operator nodes that produces one stream. It holds structure and small parameters only; what
// belongs to a tensor (length, tables) is bound to its numbered slots by the tensor's record, so that thousands of
// tensors share one program.
//
// Two levels (docs/dsl.md): the *skeleton* (concat, repeat, ref, constant, ramp) is a spine from the root that answers
// ranges by arithmetic; each topmost other node roots a *region*, whose stream is cut into frames. Nodes stand in
// pre-order, so a subtree is a contiguous run of nodes and "program order" is index order.
//
// Requires: a Program comes out of build() in verify.h, the gate; everything past it may assume its rules.
// Threads:  immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brevis/error.h"
#include "codec/codec.h"

namespace brevis::dsl {

enum class OpId : uint8_t {
#define OP(id, name, since) name = id,
#include "dsl/ops.def"
#undef OP
};

// As written by hand, parsed or decoded, before the gate.
struct Expr {
  OpId op = OpId::literal;
  std::vector<uint64_t> params;  // meaning: the operator's file under ops/
  std::vector<Expr> children;
  friend bool operator==(const Expr&, const Expr&) = default;
};

struct Node {
  OpId op;
  uint8_t width;  // bits of a word of the stream this node produces, 1..64
  std::vector<uint64_t> params;
  std::vector<uint32_t> children;  // node indices, each greater than this node's own
  uint32_t end = 0;                // one past the last node of this subtree
  int32_t slot = -1;               // its slot, -1 for none
  int32_t region = -1;             // the region this node belongs to, -1 in the skeleton
  int32_t base = -1;               // its number among the program's `base` nodes, -1 for others
};

// What a tensor's record must bind: the word list or blob of an operator, or the table of a literal's codec.
struct Slot {
  uint32_t node;
  std::optional<codec::CodecId> codec;  // nullopt: a word list or blob, as the operator says
};

struct Region {
  uint32_t root;    // node index
  uint64_t period;  // frames hold a multiple of this many words where possible (verify.h caps it)
  // `base` nodes inside it: bases of them from number first_base on.
  uint32_t first_base = 0, bases = 0;
};

class Program {
 public:
  unsigned width() const { return nodes_.front().width; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& root() const { return nodes_.front(); }
  const std::vector<Slot>& slots() const { return slots_; }        // in program order
  const std::vector<Region>& regions() const { return regions_; }  // in program order
  bool uses_ref() const { return uses_ref_; }
  uint32_t features() const { return features_; }                // required-feature bits of its operators
  const std::vector<uint32_t>& bases() const { return bases_; }  // `base` nodes in program order

  // The program as an expression again (for text, wire and comparison).
  Expr expr() const;

 private:
  friend class ProgramBuilder;  // verify.cc
  std::vector<Node> nodes_;
  std::vector<Slot> slots_;
  std::vector<Region> regions_;
  std::vector<uint32_t> bases_;
  bool uses_ref_ = false;
  uint32_t features_ = 0;
};

// Words of every region of a stream of `words` words, by region number; the gate of a record's length. Regions under a
// `repeat` hold one period. Errors: corrupt when the program cannot produce that many words.
Result<std::vector<uint64_t>> region_lengths(const Program& program, uint64_t words);
// The same for the stream of every `base` node; those inside a region are as long as its stream.
Result<std::vector<uint64_t>> base_lengths(const Program& program, uint64_t words);

}  // namespace brevis::dsl
