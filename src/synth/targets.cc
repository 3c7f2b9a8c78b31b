// SPDX-License-Identifier: Apache-2.0
#include "synth/targets.h"

#include <algorithm>
#include <bit>

#include "base/checksum.h"
#include "synth/complete.h"
#include "synth/slots.h"
#include "synth/stats.h"

namespace brevis::synth {
namespace {

constexpr uint64_t kByte = 8 * 256;    // cost of one
constexpr uint64_t kCountBytes = 3;    // a data-dependent length, a frame each
constexpr uint64_t kLeafWork = 65536;  // tables of every codec, tried
constexpr uint64_t kCodecsTried = 4;   // that have tables, about
constexpr uint64_t kWordWork = 16;     // in them, a word each
constexpr unsigned kNarrow = 16;
constexpr uint64_t kMostTableWords = 1u << 16;  // different ones that a codec's table can hold
constexpr size_t kMostChildren = 255;           // of a node that is searched below
constexpr uint64_t kStepWork = 4096;            // what a production costs besides its words
constexpr uint64_t kOutlineOf = 1024;           // of the whole: what saves less is no part of an outline
constexpr uint64_t kParamCost = 8 * 256;        // of a node beyond kNodeCost

uint64_t scale(uint64_t value, uint64_t to, uint64_t from) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(value) * to / from);
}

// For streams that the sample shows no word of.
dsl::Expr plain_literal(unsigned width) {
  for (const codec::CodecSpec* spec : codec::all_codecs())
    if (!spec->needs_table && spec->accepts(width)) return {dsl::OpId::literal, {static_cast<uint64_t>(spec->id)}, {}};
  return {dsl::OpId::literal, {0}, {}};
}

std::vector<bits::ConstWords> views_of(std::span<const dsl::Window> windows) {
  std::vector<bits::ConstWords> out;
  for (const dsl::Window& window : windows) out.push_back(window.words);
  return out;
}

// Words seen once in a sample stand for as many different ones as the whole stream has more of. Narrow words are few
// whatever the sample.
uint64_t unseen_words(const codec::Histogram& sample, uint64_t words, uint64_t sampled) {
  if (sample.width <= kNarrow || sampled == 0) return 0;
  uint64_t once = 0;
  for (const auto& [word, count] : sample.counts) once += count == 1;
  return scale(once, words, sampled) - once;
}

// Whether no table would hold all words.
bool outgrows_tables(const codec::Histogram& sample, uint64_t words, uint64_t sampled) {
  return sample.width > kNarrow && sample.counts.size() + unseen_words(sample, words, sampled) > kMostTableWords;
}

// What a table takes for words that the sample does not show: gaps between sorted words, and frequencies.
uint64_t unseen_cost(const codec::Histogram& sample, uint64_t words, uint64_t sampled) {
  constexpr uint64_t kFrequencyBits = 3;
  const uint64_t unseen = unseen_words(sample, words, sampled);
  const auto log_all = static_cast<unsigned>(std::bit_width(sample.counts.size() + unseen));
  return unseen * (kFrequencyBits + sample.width - std::min<unsigned>(sample.width, log_all)) * 256;
}

// The entropy of a sample is lower than that of what it was drawn from, by about half a nat for each word it shows.
uint64_t bias_of(const codec::Histogram& sample, uint64_t words, uint64_t sampled) {
  constexpr uint64_t kHalfNat = 185;  // in 1/256 bits
  if (sampled == 0 || words <= sampled) return 0;
  return scale(sample.counts.size() * kHalfNat, words - sampled, sampled);
}

}  // namespace

TargetPool::TargetPool(Dtype dtype, uint64_t words, std::vector<dsl::Window> windows, PoolOptions options)
    : options_(options), frames_(std::max<uint64_t>(1, (words + options.frame_words - 1) / options.frame_words)) {
  Entry root{windows.front().words.width, dtype, words, 0, !options.shape.empty(), {}, {}, std::move(windows), {}};
  intern(std::move(root));
}

uint32_t TargetPool::intern(Entry entry) {
  DigestHasher hasher;
  uint64_t bytes = 0;
  for (const dsl::Window& window : entry.windows) {
    const uint64_t count = window.words.count;
    hasher.update({reinterpret_cast<const uint8_t*>(&count), sizeof count});
    hasher.update(window.words.byte_span());
    entry.sampled += window.words.count;
    bytes += window.words.bytes();
  }
  work_ += entry.sampled;
  const std::tuple key{hasher.digest(), entry.width, entry.dtype, entry.placed, row_of(entry)};
  const auto found = by_content_.find(key);
  if (found != by_content_.end()) return found->second;
  held_ += bytes;
  const auto id = static_cast<uint32_t>(targets_.size());
  targets_.push_back(std::move(entry));
  by_content_.emplace(key, id);
  return id;
}

// Not all words are counted: what is taken apart again seldom is.
const codec::Histogram& TargetPool::counted(Entry& entry) {
  if (entry.histogram) return *entry.histogram;
  work_ += entry.sampled;
  if (entry.width <= 16) work_ += uint64_t{1} << entry.width;  // counters of every word there may be
  return entry.histogram.emplace(count_all(views_of(entry.windows)));
}

dsl::Target TargetPool::target(uint32_t id) {
  counted(targets_[id]);
  dsl::Target out = uncounted(id);
  out.histogram = &*targets_[id].histogram;
  return out;
}

dsl::Target TargetPool::uncounted(uint32_t id) const {
  const Entry& entry = targets_[id];
  dsl::Target out;
  out.width = entry.width;
  out.dtype = entry.dtype;
  out.words = entry.words;
  out.shape = entry.placed ? options_.shape : std::span<const uint64_t>(entry.rows);
  out.windows = entry.windows;
  out.below = id != kRoot && !options_.asks_all;
  return out;
}

codec::Histogram TargetPool::scaled(Entry& entry) {
  codec::Histogram out = counted(entry);
  if (entry.words == entry.sampled) return out;
  uint64_t seen = 0, given = 0;  // so that what rounding takes from one word another gets
  for (auto& [word, count] : out.counts) {
    seen += count;
    const uint64_t upto = scale(seen, entry.words, entry.sampled);
    count = upto - given;
    given = upto;
  }
  return out;
}

uint64_t TargetPool::frame_words_of(const Entry& entry) const {
  return std::max<uint64_t>(1, (entry.words + frames_ - 1) / frames_);
}

std::optional<Leaf> TargetPool::by_statistics(Entry& entry, const dsl::Expr& literal) {
  const codec::Histogram histogram = scaled(entry);
  const uint64_t bias = bias_of(counted(entry), entry.words, entry.sampled);
  const bool tables = !outgrows_tables(counted(entry), entry.words, entry.sampled);
  const uint64_t unseen = tables ? unseen_cost(counted(entry), entry.words, entry.sampled) : 0;
  std::optional<Leaf> best;
  for (const codec::CodecSpec* spec : codec::all_codecs()) {
    dsl::Expr expr{dsl::OpId::literal, {static_cast<uint64_t>(spec->id)}, {}};
    if (!spec->accepts(entry.width) || (!literal.params.empty() && literal != expr)) continue;
    if (spec->needs_table && !tables) continue;
    const uint64_t extra = kNodeCost + (spec->needs_table ? bias + unseen : 0);
    if (best && best->cost <= extra) continue;
    const auto done = complete_order0(expr, histogram, frame_words_of(entry), best ? best->cost - extra : UINT64_MAX);
    if (done) best = Leaf{std::move(expr), done->cost + extra};
  }
  return best;
}

// Whether a codec that sees the order of words may have something to find.
bool TargetPool::repeats(Entry& entry) {
  if (!entry.repeats) {
    const auto& zstd = *codec::find_codec(static_cast<uint64_t>(codec::CodecId::zstd));
    work_ += entry.sampled;
    entry.repeats = zstd.accepts(entry.width) && repeats_itself(views_of(entry.windows));
  }
  return *entry.repeats;
}

uint64_t TargetPool::least_leaf(uint32_t id) {
  Entry& entry = targets_[id];
  if (entry.leaf || entry.sampled == 0 || repeats(entry)) return leaf(id).cost;
  if (!entry.least) {
    work_ += counted(entry).counts.size();
    const bool wide = outgrows_tables(counted(entry), entry.words, entry.sampled);
    entry.least = wide ? leaf(id).cost : kNodeCost + least_literal_cost(scaled(entry), frame_words_of(entry));
  }
  return *entry.least;
}

const Leaf& TargetPool::leaf(uint32_t id) {
  Entry& entry = targets_[id];
  if (entry.leaf) return *entry.leaf;
  work_ += kLeafWork + kWordWork * counted(entry).counts.size() + entry.sampled;
  if (entry.sampled == 0) return entry.leaf.emplace(Leaf{plain_literal(entry.width), kNodeCost + frames_ * kByte});
  const dsl::Expr open{dsl::OpId::literal, {}, {}};
  std::optional<Leaf> best;
  best = by_statistics(entry, open);
  // What repeats shows in the words' order alone.
  if (repeats(entry)) {
    const dsl::Expr zstd{dsl::OpId::literal, {static_cast<uint64_t>(codec::CodecId::zstd)}, {}};
    const uint64_t limit = best ? scale(best->cost, entry.sampled, entry.words) + 1 : UINT64_MAX;
    if (const auto done = zstd_sampled(views_of(entry.windows), limit)) {
      const uint64_t cost = scale(*done, entry.words, entry.sampled) + kNodeCost;
      if (!best || cost < best->cost) best = Leaf{zstd, cost};
    }
  }
  if (!best) best = Leaf{plain_literal(entry.width), kNodeCost + entry.words * entry.width * 256};
  return entry.leaf.emplace(std::move(*best));
}

std::optional<uint64_t> TargetPool::literal_cost(uint32_t id, const dsl::Expr& literal) {
  Entry& entry = targets_[id];
  if (literal.params.empty() || entry.sampled == 0 || (entry.leaf && entry.leaf->expr == literal)) return leaf(id).cost;
  work_ += kLeafWork / kCodecsTried + kWordWork * counted(entry).counts.size();
  if (const auto done = by_statistics(entry, literal)) return done->cost;
  const codec::CodecSpec& spec = *codec::find_codec(literal.params[0]);
  if (spec.needs_table || (spec.id == codec::CodecId::zstd && !repeats(targets_[id]))) return std::nullopt;
  if (const auto done = complete_sampled(literal, views_of(entry.windows)))
    return scale(done->cost, entry.words, entry.sampled) + kNodeCost;
  return std::nullopt;
}

// Words of a child's whole stream. Where they do not depend on the data the operator says exactly how many there are in
// a frame, which a short window would tell badly (the head of a scan).
std::optional<uint64_t> TargetPool::whole_words(const dsl::Node& node, const Entry& parent, size_t child, size_t arity,
                                                uint64_t sampled) const {
  const dsl::OpSpec& spec = dsl::spec_of(node.op);
  if (spec.counts != 0)
    return parent.sampled == 0 ? 0
                               : std::max(sampled != 0 ? uint64_t{1} : 0, scale(sampled, parent.words, parent.sampled));
  const uint64_t frame = frame_words_of(parent), full = parent.words / frame, rest = parent.words % frame;
  std::vector<uint64_t> lengths(arity);
  if (!spec.child_lengths(node, frame, {}, lengths)) return std::nullopt;
  uint64_t words = full * lengths[child];
  if (rest != 0) {
    if (!spec.child_lengths(node, rest, {}, lengths)) return std::nullopt;
    words += lengths[child];
  }
  return words;
}

uint64_t TargetPool::row_of(const Entry& entry) const {
  const auto& shape = entry.placed ? options_.shape : std::span<const uint64_t>(entry.rows);
  return shape.size() < 2 ? 0 : shape.back();
}

// A child as long as its parent keeps places; one that lacks whole rows keeps rows.
void TargetPool::place(Entry& child, const Entry& parent) const {
  child.placed = parent.placed;
  const uint64_t row = row_of(parent);
  bool rows = row > 1;
  for (size_t w = 0; w < child.windows.size(); ++w) {
    const uint64_t count = child.windows[w].words.count;
    child.placed = child.placed && count == parent.windows[w].words.count;
    rows = rows && count % row == 0 && count != 0 && parent.windows[w].position % row == 0;
  }
  if (!child.placed && rows && child.words / row > 1) child.rows = {child.words / row, row};
}

std::optional<Applied> TargetPool::make(uint32_t id, const Production& production) {
  const dsl::OpSpec& spec = dsl::spec_of(production.op);
  dsl::Node node{production.op, static_cast<uint8_t>(targets_[id].width), production.params, {}};
  node.children.resize(production.child_dtypes.size());  // for operators of any number of children
  if (spec.invert == nullptr || held_ >= options_.memory) return std::nullopt;
  const auto inverted_work = [&](size_t arity) { return kStepWork + targets_[id].sampled * (1 + arity); };
  Applied out;
  const auto slot = fit_slot(spec, node, spec.slot == dsl::SlotKind::word_list ? target(id) : uncounted(id));
  if (!slot) return std::nullopt;
  std::vector<std::vector<bits::OwnedWords>> below;
  for (const dsl::Window& window : targets_[id].windows) {
    std::vector<uint64_t> counts;
    below.emplace_back();
    const auto fits =
        spec.invert({node, &slot->list, window.position, {}, slot->blob.get()}, window.words, below.back(), counts);
    if (!fits || !*fits) {
      work_ += inverted_work(0);
      return std::nullopt;
    }
  }
  const size_t arity = below.front().size();
  work_ += inverted_work(arity);
  const auto widths = spec.child_widths(node, arity);
  if (!widths || arity > kMostChildren) return std::nullopt;
  out.time = targets_[id].words * decode_cost(production.op, production.params);
  out.own = kNodeCost + production.params.size() * kParamCost + slot->bytes * kByte +
            spec.counts * kCountBytes * kByte * frames_ + out.time * options_.lambda / kLambdaOne;
  for (size_t i = 0; i < arity; ++i) {
    const Dtype dtype = i < production.child_dtypes.size() ? production.child_dtypes[i] : Dtype::unknown;
    Entry child{(*widths)[i], dtype, 0, 0, false, {}, {}, {}, {}};
    uint64_t sampled = 0;
    for (auto& children : below) {
      sampled += children[i].count();
      child.store.push_back(std::move(children[i]));
    }
    for (size_t w = 0; w < below.size(); ++w)
      child.windows.push_back({targets_[id].windows[w].position, child.store[w].view()});
    const auto words = whole_words(node, targets_[id], i, arity, sampled);
    if (!words || (*words != 0 && sampled == 0)) return std::nullopt;  // the sample does not tell
    child.words = std::max(*words, sampled);
    place(child, targets_[id]);
    out.children.push_back(intern(std::move(child)));
  }
  return out;
}

const Applied* TargetPool::apply(uint32_t id, const Production& production) {
  auto [at, fresh] = applied_.try_emplace({id, production.op, production.params, production.child_dtypes});
  if (fresh) at->second.applied = make(id, production);
  return at->second.applied ? &*at->second.applied : nullptr;
}

const std::vector<uint8_t>& TargetPool::by_size(uint32_t id, const Production& production) {
  Made& made = applied_.at({id, production.op, production.params, production.child_dtypes});
  const std::vector<uint32_t>& children = made.applied->children;
  for (size_t i = made.by_size.size(); i < children.size(); ++i) {
    const uint64_t size = least_leaf(children[i]);
    auto place = made.by_size.end();
    while (place != made.by_size.begin() && least_leaf(children[*(place - 1)]) < size) --place;
    made.by_size.insert(place, static_cast<uint8_t>(i));
  }
  return made.by_size;
}

void TargetPool::set_lambda(uint64_t lambda) {
  for (auto& [key, made] : applied_)
    if (auto& applied = made.applied)
      applied->own += applied->time * lambda / kLambdaOne - applied->time * options_.lambda / kLambdaOne;
  options_.lambda = lambda;
}

std::optional<uint64_t> TargetPool::score(uint32_t id, const dsl::Expr& expr) {
  if (expr.op == dsl::OpId::literal) return literal_cost(id, expr);
  const Applied* applied = apply(id, production_of(expr));
  if (applied == nullptr || applied->children.size() != expr.children.size()) return std::nullopt;
  uint64_t sum = applied->own;
  for (size_t i = 0; i < expr.children.size(); ++i) {
    const auto below = score(applied->children[i], expr.children[i]);
    if (!below) return std::nullopt;
    sum += *below;
  }
  return sum;
}

std::optional<dsl::Expr> TargetPool::completed(uint32_t id, const dsl::Expr& expr) {
  if (expr.op == dsl::OpId::literal) return leaf(id).expr;
  const Applied* applied = apply(id, production_of(expr));
  if (applied == nullptr || applied->children.size() != expr.children.size()) return std::nullopt;
  dsl::Expr out{expr.op, expr.params, {}};
  for (size_t i = 0; i < expr.children.size(); ++i) {
    auto child = completed(applied->children[i], expr.children[i]);
    if (!child) return std::nullopt;
    out.children.push_back(std::move(*child));
  }
  return out;
}

dsl::Expr TargetPool::outline(uint32_t id, const dsl::Expr& expr, uint64_t cost) {
  const dsl::Expr open{dsl::OpId::literal, {}, {}};
  if (expr.op == dsl::OpId::literal) return open;
  const Applied* applied = apply(id, production_of(expr));
  const auto own = score(id, expr);
  if (applied == nullptr || !own || leaf(id).cost <= *own + cost / kOutlineOf) return open;
  dsl::Expr out{expr.op, expr.params, {}};
  for (size_t i = 0; i < expr.children.size(); ++i)
    out.children.push_back(outline(applied->children[i], expr.children[i], cost));
  return out;
}

uint64_t TargetPool::decode_price(uint32_t id, const dsl::Expr& expr) {
  const uint64_t words = targets_[id].words;
  if (expr.op == dsl::OpId::literal) {
    const auto codec = static_cast<codec::CodecId>((expr.params.empty() ? leaf(id).expr : expr).params[0]);
    return words * codec_decode_cost(codec) * options_.lambda / kLambdaOne;
  }
  uint64_t sum = words * decode_cost(expr.op, expr.params) * options_.lambda / kLambdaOne;
  const Applied* applied = apply(id, production_of(expr));
  if (applied == nullptr) return sum;
  for (size_t i = 0; i < std::min(expr.children.size(), applied->children.size()); ++i)
    sum += decode_price(applied->children[i], expr.children[i]);
  return sum;
}

}  // namespace brevis::synth
