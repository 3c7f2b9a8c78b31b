// SPDX-License-Identifier: Apache-2.0
//
// What the language asks of an operator: data and plain functions, registered in ops.def. An operator's file holds its
// documentation, its OpSpec and nothing public; laws, fuzzers, text form and gate follow from the table.
//
// Threads: specs are constants; every function is pure.
#pragma once

#include <memory>
#include <span>

#include "bits/words.h"
#include "dsl/program.h"
#include "dsl/propose.h"

namespace brevis::dsl {

class PlanSink;  // plan.h

enum class Place : uint8_t {
  skeleton,  // on the spine only
  region,    // below (or as) a region's root only
  both,      // stores nothing, so it may stand anywhere
};

enum class SlotKind : uint8_t { none, word_list, codec_table, blob };

// A word list past its gate: strictly ascending words.
struct WordList {
  std::vector<uint64_t> words;
};

// Parameters too many for a program (one for every row of a matrix, say): what a blob slot's operator made of their
// stored bytes. Immutable.
class Blob {
 public:
  virtual ~Blob() = default;
  virtual uint64_t bytes() const = 0;  // of memory
};

// Packing: finds a blob from words of the node's stream, the whole of it or windows of a sample, in stream order.
class Fitter {
 public:
  virtual ~Fitter() = default;
  // Consecutive words; `position` as in NodeArgs.
  virtual void add(uint64_t position, bits::ConstWords words) = 0;
  // The stored bytes, also where there is nothing to be won.
  virtual ByteVector finish() = 0;
};

// A node as one frame of one tensor sees it.
struct NodeArgs {
  const Node& node;
  const WordList* list;  // word_list slots only
  uint64_t position;     // of the frame's first word in the region's stream; the same at every node of the region
  std::span<const uint64_t> counts;  // the data-dependent counts of this node in this frame
  const Blob* blob = nullptr;        // blob slots only
  bits::ConstWords base{};           // packing: the words of the node's child `base`, where the packer has them
};

struct OpSpec {
  OpId id;
  std::string_view name;
  uint16_t since;
  Place place;
  SlotKind slot = SlotKind::none;
  unsigned counts = 0;                           // data-dependent word counts stored in each frame
  std::span<const std::string_view> keywords{};  // when not empty, params[0] is written as keywords[params[0]]

  // Gate: checks params and arity of `node` (its width and params; the number of children is `arity`) and gives the
  // width of each child. Errors: invalid_argument.
  Result<std::vector<uint8_t>> (*child_widths)(const Node& node, size_t arity);

  // Words of each child's stream when this node's has n. In a frame `counts` are what the frame says; in the skeleton
  // they are empty. `lengths` has one entry a child. Errors: corrupt when n or counts are impossible.
  Status (*child_lengths)(const Node& node, uint64_t n, std::span<const uint64_t> counts, std::span<uint64_t> lengths);

  // Region nodes: the first so many children produce word i of their streams for word i of the node's.
  unsigned in_step = 0;

  // Region nodes: words of this node's period (1: none of its own); frames are a multiple of the lcm over the region.
  uint64_t (*period)(const Node& node) = nullptr;

  // Region nodes: computes out.count words from the children's streams. Children that cannot be right (a run sum that
  // differs, a rank above T, an exception position outside) give corrupt. Literals are decoded by exec, not here.
  Status (*run)(const NodeArgs& args, std::span<const bits::ConstWords> in, bits::Words out) = nullptr;

  // Region nodes, packing: the children's targets that make run() give exactly `target`, and the counts; false when
  // the node cannot express it. Always exact: run(invert(x)) == x.
  Result<bool> (*invert)(const NodeArgs& args, bits::ConstWords target, std::vector<bits::OwnedWords>& children,
                         std::vector<uint64_t>& counts) = nullptr;

  // Region nodes, packing, optional: what invert() does, on order-0 statistics. Gives a histogram for each child of
  // which order-0 statistics can be told from the target's (an empty optional for others); false when the node
  // cannot express some word of it.
  bool (*push_down)(const NodeArgs& args, const codec::Histogram& target,
                    std::vector<std::optional<codec::Histogram>>& children) = nullptr;

  // word_list slots, packing: the list that suits a target, nullopt when none does (too many distinct words).
  std::optional<std::vector<uint64_t>> (*choose_words)(const Node& node, const codec::Histogram& target) = nullptr;

  // blob slots: entries of a loaded blob, by the node alone.
  uint64_t (*blob_entries)(const Node& node) = nullptr;
  // blob slots: the gate of the stored bytes. Errors: corrupt.
  Result<std::shared_ptr<const Blob>> (*load)(const Node& node, ByteSpan stored) = nullptr;
  // blob slots, packing: a fitter for one stream. Memory is bounded by the node's parameters.
  std::unique_ptr<Fitter> (*fit)(const Node& node) = nullptr;

  // The required-feature bit of archives that use the operator (docs/format.md), 0 for those of the first version.
  uint32_t feature = 0;

  // run() may be given `out` in the very memory of its only child's stream (of equal width and length).
  bool in_place = false;

  // Skeleton nodes: tells the sink what the words [first, first + count) of this node's n are made of (plan.h).
  Status (*plan)(const Node& node, uint64_t n, uint64_t first, uint64_t count, PlanSink& sink) = nullptr;

  // Region nodes, packing, optional: a guess of a histogram that push_down could not give, good enough to tell sizes by
  // but not to train a table on. `known` is what push_down gave.
  std::optional<codec::Histogram> (*guess)(const NodeArgs& args, const codec::Histogram& target, size_t child,
                                           std::span<const std::optional<codec::Histogram>> known) = nullptr;

  // Packing, optional: nodes of this operator that may be worth trying for a target, appended to `out` (propose.h).
  void (*propose)(const Target& target, std::vector<Proposal>& out) = nullptr;

  // invert() never refuses, whatever the words, once the node's slot was fitted to them. Programs of other operators
  // are proved frame by frame before anything relies on them.
  bool total = false;

  // Region nodes, packing, optional: whether run() has to wait for each word before it finds the next, which is slow.
  bool (*one_by_one)(const Node& node) = nullptr;
};

// Every operator, by ascending id.
std::span<const OpSpec* const> all_ops();
// nullptr for ids and names that this build does not know.
const OpSpec* find_op(uint64_t id);
const OpSpec* find_op(std::string_view name);
// For ids that passed the gate.
const OpSpec& spec_of(OpId id);

#define OP(id, name, since) extern const OpSpec name##_op;
#include "dsl/ops.def"
#undef OP

}  // namespace brevis::dsl
