// SPDX-License-Identifier: Apache-2.0
//
// Tables are chosen from statistics of the streams they serve. The statistics of a node's stream often tell those of
// its children (push_down), so one pass over the frames that counts words near the root usually serves every slot.
// Where they do not (scans, runs, gaps of exceptions), frames are inverted down to the first node from which they do
// again, and counted there; a further pass starts once the word lists on that way are chosen.
#include <algorithm>

#include "dsl/encode.h"
#include "dsl/histogram.h"

namespace brevis::dsl {
namespace {

// Up to this width all words are counted in an array. Wider nodes are inverted first where that is possible, since
// their words are mostly distinct and their fields' are not.
constexpr unsigned kCheapWidth = 16;

class Trainer {
 public:
  Trainer(const Program& program, uint32_t region, Inversions* inversions = nullptr)
      : program_(program),
        inversions_(inversions),
        root_(program.regions()[region].root),
        stored_(program.slots().size()),
        loaded_(program.slots().size()),
        trained_(program.slots().size(), false),
        pushed_(program.nodes().size(), false) {}

  std::vector<ByteVector> take_tables() { return std::move(stored_); }
  uint32_t root() const { return root_; }

  // From frames: false when the program cannot express them.
  Result<bool> train(uint64_t frames, uint64_t frame_words, const FrameWords& source) {
    while (!all_trained(root_)) {
      std::vector<std::optional<Counter>> counters(program_.nodes().size());
      std::vector<std::unique_ptr<Fitter>> fitters(program_.nodes().size());
      for (uint64_t frame = 0; frame < frames; ++frame) {
        BREVIS_ASSIGN(const bits::ConstWords words, source(frame));
        BREVIS_ASSIGN(const bool fits, count(root_, words, frame * frame_words, counters, fitters));
        if (!fits) return false;
      }
      for (uint32_t at = root_; at < fitters.size(); ++at) {
        if (!fitters[at]) continue;
        BREVIS_ASSIGN(const bool fits, finish(program_.nodes()[at], *fitters[at]));
        if (!fits) return false;
        fitters[at].reset();
      }
      for (uint32_t at = root_; at < counters.size(); ++at) {
        if (!counters[at]) continue;
        BREVIS_ASSIGN(const bool fits, push(at, counters[at]->histogram()));
        if (!fits) return false;
        counters[at].reset();
      }
      // Without frames nothing is ever counted.
      if (frames == 0) return false;
    }
    return true;
  }

  // From the histogram of a node's stream: trains every slot that it reaches. False: not expressible or no table.
  Result<bool> push(uint32_t at, const codec::Histogram& histogram) {
    const Node& node = program_.nodes()[at];
    const OpSpec& spec = spec_of(node.op);
    if (spec.slot == SlotKind::blob && !trained_[node.slot]) return true;  // statistics of order 0 do not tell places
    pushed_[at] = true;
    if (node.op == OpId::literal) return train_literal(node, histogram);
    if (node.slot >= 0 && !trained_[node.slot]) {
      BREVIS_ASSIGN(const bool fits, train_list(spec, node, histogram));
      if (!fits) return false;
    }
    if (!spec.push_down) return true;
    std::vector<std::optional<codec::Histogram>> children;
    if (!spec.push_down(args(node, 0), histogram, children)) return false;
    for (size_t i = 0; i < node.children.size(); ++i) {
      if (!children[i] || all_trained(node.children[i])) continue;
      BREVIS_ASSIGN(const bool fits, push(node.children[i], *children[i]));
      if (!fits) return false;
    }
    return true;
  }

  // Expected bits of a node's payloads, all slots trained; nullopt where statistics do not tell.
  std::optional<uint64_t> estimate(uint32_t at, const codec::Histogram& histogram) const {
    const Node& node = program_.nodes()[at];
    const OpSpec& spec = spec_of(node.op);
    if (node.op == OpId::literal) return estimate_literal(node, histogram);
    if (!spec.push_down) return std::nullopt;
    std::vector<std::optional<codec::Histogram>> children;
    if (!spec.push_down(args(node, 0), histogram, children)) return std::nullopt;
    uint64_t sum = 0;
    for (size_t i = 0; i < node.children.size(); ++i) {
      std::optional<codec::Histogram> child = children[i];
      if (!child && spec.guess) child = spec.guess(args(node, 0), histogram, i, children);
      if (!child) return std::nullopt;
      const std::optional<uint64_t> bits = estimate(node.children[i], *child);
      if (!bits || __builtin_add_overflow(sum, *bits, &sum)) return std::nullopt;
    }
    return sum;
  }

  bool all_trained(uint32_t at) const {
    for (uint32_t node = at; node < program_.nodes()[at].end; ++node)
      if (program_.nodes()[node].slot >= 0 && !trained_[program_.nodes()[node].slot]) return false;
    return true;
  }

 private:
  NodeArgs args(const Node& node, uint64_t position) const {
    if (node.slot < 0) return {node, nullptr, position, {}};
    return {node, loaded_[node.slot].list.get(), position, {}, loaded_[node.slot].blob.get()};
  }

  bool needs_fit(uint32_t at) const {
    const Node& node = program_.nodes()[at];
    return spec_of(node.op).slot == SlotKind::blob && !trained_[node.slot];
  }

  Result<bool> finish(const Node& node, Fitter& fitter) { return keep(node, fitter.finish()); }

  // Whether this pass counts the node's words rather than inverts them. Each node is counted at most once, and what a
  // count does not reach is inverted in the next pass, so passes end.
  bool counted_here(uint32_t at) const {
    const Node& node = program_.nodes()[at];
    if (node.op == OpId::literal || (node.slot >= 0 && !trained_[node.slot])) return true;
    return !pushed_[at] && node.width <= kCheapWidth && spec_of(node.op).push_down;
  }

  Result<bool> count(uint32_t at, bits::ConstWords words, uint64_t position,
                     std::vector<std::optional<Counter>>& counters,
                     std::vector<std::unique_ptr<Fitter>>& fitters) const {
    if (all_trained(at)) return true;
    if (needs_fit(at)) {
      if (!fitters[at]) fitters[at] = spec_of(program_.nodes()[at].op).fit(program_.nodes()[at]);
      fitters[at]->add(position, words);
      return true;
    }
    if (counted_here(at)) {
      if (!counters[at]) counters[at].emplace(words.width);
      counters[at]->add(words);
      return true;
    }
    const Node& node = program_.nodes()[at];
    // Of nodes without a slot the words alone decide.
    Inversions* const inversions = at == root_ && node.slot < 0 ? inversions_ : nullptr;
    std::vector<bits::OwnedWords> inverted;
    const std::vector<bits::OwnedWords>* children =
        inversions == nullptr ? nullptr : inversions->find(node, position, words.count);
    if (children == nullptr) {
      std::vector<uint64_t> counts;
      BREVIS_ASSIGN(const bool fits, spec_of(node.op).invert(args(node, position), words, inverted, counts));
      if (!fits) return false;
      children = &inverted;
    }
    for (size_t i = 0; i < node.children.size(); ++i) {
      BREVIS_ASSIGN(const bool below, count(node.children[i], (*children)[i].view(), position, counters, fitters));
      if (!below) return false;
    }
    if (inversions != nullptr && children == &inverted)
      inversions->keep(node, position, words.count, std::move(inverted));
    return true;
  }

  Result<bool> train_literal(const Node& node, const codec::Histogram& histogram) {
    if (node.slot < 0 || trained_[node.slot]) return true;
    const codec::CodecSpec& codec = *codec::find_codec(node.params[0]);
    Result<ByteVector> table = codec.train(histogram);
    if (!table) {
      if (table.error().kind() == Errc::not_found) return false;
      return std::move(table).error();
    }
    return keep(node, std::move(*table));
  }

  Result<bool> train_list(const OpSpec& spec, const Node& node, const codec::Histogram& histogram) {
    const std::optional<std::vector<uint64_t>> words = spec.choose_words(node, histogram);
    if (!words) return false;
    return keep(node, store_word_list(*words));
  }

  Result<bool> keep(const Node& node, ByteVector stored) {
    BREVIS_ASSIGN(loaded_[node.slot], load_slot(program_, program_.slots()[static_cast<size_t>(node.slot)], stored));
    stored_[node.slot] = std::move(stored);
    trained_[node.slot] = true;
    return true;
  }

  std::optional<uint64_t> estimate_literal(const Node& node, const codec::Histogram& histogram) const {
    // What the order of words is worth, counts of words do not tell.
    if (codec::find_codec(node.params[0])->by_order) return std::nullopt;
    const codec::CodecSpec& codec = *codec::find_codec(node.params[0]);
    const codec::Table* table = node.slot < 0 ? nullptr : loaded_[node.slot].codec.get();
    const uint64_t size = codec.estimate(table, histogram);  // in 1/256 bits
    if (size == UINT64_MAX) return std::nullopt;
    return size / 256 + (size % 256 != 0);
  }

  const Program& program_;
  Inversions* const inversions_;
  const uint32_t root_;
  std::vector<ByteVector> stored_;
  std::vector<SlotTable> loaded_;
  std::vector<bool> trained_;  // by slot
  std::vector<bool> pushed_;   // by node
};

bool is_template(const Program& program) {
  return std::any_of(program.nodes().begin(), program.nodes().end(),
                     [](const Node& node) { return node.op == OpId::literal && node.params.empty(); });
}

Error template_error() {
  return make_error(Errc::invalid_argument, "a template's literals need codecs before it can be trained");
}

}  // namespace

std::optional<ByteVector> suit_slot(const Node& node, const Target& target) {
  const OpSpec& spec = spec_of(node.op);
  if (spec.slot == SlotKind::word_list) {
    const auto words = spec.choose_words(node, *target.histogram);
    return words ? std::optional(store_word_list(*words)) : std::nullopt;
  }
  const std::unique_ptr<Fitter> fitter = spec.fit(node);
  for (const Window& window : target.windows) fitter->add(window.position, window.words);
  return fitter->finish();
}

Result<std::optional<std::vector<ByteVector>>> train(const Program& program, uint32_t region, uint64_t frames,
                                                     uint64_t frame_words, const FrameWords& source,
                                                     Inversions* inversions) {
  if (is_template(program)) return template_error();
  Trainer trainer(program, region, inversions);
  BREVIS_ASSIGN(const bool fits, trainer.train(frames, frame_words, source));
  if (!fits) return std::optional<std::vector<ByteVector>>();
  return std::optional(trainer.take_tables());
}

Result<std::optional<Estimate>> estimate(const Program& program, uint32_t region, const codec::Histogram& words) {
  if (is_template(program)) return template_error();
  Trainer trainer(program, region);
  BREVIS_ASSIGN(const bool fits, trainer.push(trainer.root(), words));
  if (!fits || !trainer.all_trained(trainer.root())) return std::optional<Estimate>();
  const std::optional<uint64_t> bits = trainer.estimate(trainer.root(), words);
  if (!bits) return std::optional<Estimate>();
  return std::optional(Estimate{trainer.take_tables(), *bits});
}

}  // namespace brevis::dsl
