// SPDX-License-Identifier: Apache-2.0
//
// The streams that holes of partial programs have to produce, as sample windows, and what an operator makes of them.
// Equal targets are one: whatever was found out about a target (its literal, its children under a production) is found
// out once for all partial programs that hold it.
//
// Costs are expected costs of the whole stream in 1/256 bits: payloads scaled from the sample, tables, what every frame
// pays anew, program bits, and decode time at the pool's lambda. The objective of every choice is made here and nowhere
// else; no prior enters. Threads: one caller. Owns: the windows, up to a cap. Determinism: integers only.
#pragma once

#include <map>
#include <optional>

#include "dsl/encode.h"
#include "synth/decode_cost.h"
#include "synth/grammar.h"

namespace brevis::synth {

// Program bits: a node with its parameters, as the archive's program pool holds them once.
constexpr uint64_t kNodeCost = 24 * 256;

struct Leaf {
  dsl::Expr expr;  // a literal with its codec
  uint64_t cost;
};

// What a production makes of a target.
struct Applied {
  uint64_t own = 0;   // of the node itself, its children not counted
  uint64_t time = 0;  // of that, what is decode time, at kLambdaOne
  std::vector<uint32_t> children;
};

struct PoolOptions {
  uint64_t lambda = kLambdaOne;              // price of decode time
  uint64_t memory = uint64_t{32} << 20;      // of windows, bytes
  std::span<const uint64_t> shape;           // of the tensor, for the root's proposals; must outlive the pool
  uint64_t frame_words = uint64_t{1} << 18;  // of the root's stream
  bool asks_all = false;                     // Effort::asks_all
};

class TargetPool {
 public:
  // `words` of the whole stream that the windows were drawn from.
  TargetPool(Dtype dtype, uint64_t words, std::vector<dsl::Window> windows, PoolOptions options);

  static constexpr uint32_t kRoot = 0;
  size_t size() const { return targets_.size(); }
  // Borrowed until the pool changes.
  dsl::Target target(uint32_t id);
  const codec::Histogram& histogram(uint32_t id) { return counted(targets_[id]); }
  uint64_t words(uint32_t id) const { return targets_[id].words; }
  uint64_t sampled(uint32_t id) const { return targets_[id].sampled; }

  // The cheapest literal; there is always one.
  const Leaf& leaf(uint32_t id);
  // What no literal costs less than, found without training a table: the cheapest one's own cost where it is known.
  uint64_t least_leaf(uint32_t id);
  // Cost as a literal of that codec; nullopt when it cannot.
  std::optional<uint64_t> literal_cost(uint32_t id, const dsl::Expr& literal);
  // nullptr: the operator cannot stand there, or memory is used up. The pointer stays valid.
  const Applied* apply(uint32_t id, const Production& production);
  // The places of a production's children, those that cost most as literals first. It must have been applied.
  const std::vector<uint8_t>& by_size(uint32_t id, const Production& production);
  // The whole of an expression's cost over the target; nullopt when it cannot express the sample. Literals may be
  // templates.
  std::optional<uint64_t> score(uint32_t id, const dsl::Expr& expr);
  // The expression with the cheapest codec for each of its literals; nullopt as for score().
  std::optional<dsl::Expr> completed(uint32_t id, const dsl::Expr& expr);
  // What an expression is about: codecs left open, and literals for what saves less than a thousandth part of `cost`.
  dsl::Expr outline(uint32_t id, const dsl::Expr& expr, uint64_t cost);
  // The part of it that is no bytes but decode time.
  uint64_t decode_price(uint32_t id, const dsl::Expr& expr);

  // From here on decode time counts so much; nothing else has to be found out again.
  void set_lambda(uint64_t lambda);

  // Words looked at so far: what planning has cost, the same on every machine.
  uint64_t work() const { return work_; }

 private:
  struct Entry {
    unsigned width;
    Dtype dtype;
    uint64_t words;              // of the whole stream, expected
    uint64_t sampled;            // in the windows
    bool placed;                 // word i belongs to place i of the tensor
    std::vector<uint64_t> rows;  // where it does not, but words still stand in rows of the tensor: how many, how long
    std::vector<bits::OwnedWords> store;
    std::vector<dsl::Window> windows;
    std::optional<codec::Histogram> histogram{};  // once it was asked for
    std::optional<Leaf> leaf{};
    std::optional<uint64_t> least{};
    std::optional<bool> repeats{};
  };
  struct Made {
    std::optional<Applied> applied;
    std::vector<uint8_t> by_size;  // once it was asked for
  };
  using Key = std::tuple<uint32_t, dsl::OpId, std::vector<uint64_t>, std::vector<Dtype>>;

  uint32_t intern(Entry entry);
  const codec::Histogram& counted(Entry& entry);
  dsl::Target uncounted(uint32_t id) const;
  std::optional<Applied> make(uint32_t id, const Production& production);
  bool repeats(Entry& entry);
  // The cheapest of some codecs by order-0 statistics; nullopt when none can serve them.
  std::optional<Leaf> by_statistics(Entry& entry, const dsl::Expr& literal);
  codec::Histogram scaled(Entry& entry);
  uint64_t frame_words_of(const Entry& entry) const;
  // The length of the rows that the words of an entry stand in, 0 for none.
  uint64_t row_of(const Entry& entry) const;
  void place(Entry& child, const Entry& parent) const;
  std::optional<uint64_t> whole_words(const dsl::Node& node, const Entry& parent, size_t child, size_t arity,
                                      uint64_t sampled) const;

  PoolOptions options_;
  uint64_t frames_;
  uint64_t held_ = 0, work_ = 0;
  std::vector<Entry> targets_;
  std::map<std::tuple<Digest, unsigned, Dtype, bool, uint64_t>, uint32_t> by_content_;
  std::map<Key, Made> applied_;
};

}  // namespace brevis::synth
