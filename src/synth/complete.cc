// SPDX-License-Identifier: Apache-2.0
#include "synth/complete.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "bits/log2.h"
#include "codec/zstd_frame.h"
#include "dsl/encode.h"
#include "dsl/op.h"
#include "synth/decode_cost.h"
#include "synth/slots.h"
#include "synth/stats.h"
#include "synth/table_price.h"

namespace brevis::synth {
namespace {

using codec::CodecId;
using codec::Histogram;
using dsl::Expr;

constexpr uint64_t kBit = 256;  // cost units of one bit
constexpr uint64_t kNever = UINT64_MAX;

// sparse decodes word by word where it is not the usual one: half a bit for each of those.
constexpr uint64_t kSparsePrice = 128;

// Bytes that every frame of a stream pays beside its payload's bits: lane states, payload length, end padding.
uint64_t frame_bytes(CodecId codec, uint64_t words) {
  const bool states = codec == CodecId::alias || codec == CodecId::rans;
  const uint64_t lanes = words >= 16384 ? 64 : words >= 2048 ? 16 : words >= 256 ? 4 : 1;
  return 4 + (states ? 4 * lanes : 0);
}

// No codec says a word and its probability in fewer bits than this, which rules large alphabets out early.
constexpr uint64_t kLeastTableBits = 3;

uint64_t frames_for(uint64_t words, uint64_t frame_words) {
  return frame_words == 0 ? 1 : (words + frame_words - 1) / frame_words;
}

// What it costs beside payload and table.
uint64_t upkeep_cost(const codec::CodecSpec& spec, const Histogram& histogram, uint64_t frames) {
  const uint64_t words = histogram.total();
  uint64_t cost = frames * frame_bytes(spec.id, words / std::max<uint64_t>(frames, 1)) * 8 * kBit +
                  words * codec_decode_cost(spec.id);
  if (spec.id == CodecId::sparse) {
    uint64_t usual = 0;
    for (const auto& [word, count] : histogram.counts) usual = std::max(usual, count);
    cost += (words - usual) * kSparsePrice;
  }
  return cost;
}

// Cost of a histogram's words under one codec; kNever when it cannot serve them or would reach `limit`. Tables are only
// priced where the entropy leaves room below the limit.
uint64_t order0_cost(const codec::CodecSpec& spec, const Histogram& histogram, uint64_t entropy, uint64_t frames,
                     uint64_t limit) {
  if (spec.by_order || !spec.accepts(histogram.width)) return kNever;
  uint64_t cost = upkeep_cost(spec, histogram, frames), payload = 0;
  if (spec.needs_table) {
    if (cost + entropy + histogram.counts.size() * kLeastTableBits * kBit >= limit) return kNever;
    const auto price = price_table(spec, histogram);
    if (!price) return kNever;
    cost += price->table;
    payload = price->payload;
  } else {
    payload = spec.estimate(nullptr, histogram);
  }
  return payload == kNever || cost + payload >= limit ? kNever : cost + payload;
}

struct Pick {
  CodecId codec = CodecId::raw;
  uint64_t cost = kNever;
};

Pick pick_order0(const Histogram& histogram, uint64_t frames, uint64_t limit) {
  Pick best{CodecId::raw, limit};
  const uint64_t entropy = entropy_cost(histogram);
  for (const codec::CodecSpec* spec : codec::all_codecs()) {
    const uint64_t cost = order0_cost(*spec, histogram, entropy, frames, best.cost);
    if (cost < best.cost) best = {spec->id, cost};
  }
  if (best.cost == limit) best.cost = kNever;
  return best;
}

Expr literal(CodecId codec) { return {dsl::OpId::literal, {static_cast<uint64_t>(codec)}, {}}; }

// The node that an expression is, once its width is known.
std::optional<std::vector<uint8_t>> node_of(const Expr& expr, unsigned width, dsl::Node& node) {
  node = dsl::Node{expr.op, static_cast<uint8_t>(width), expr.params, {}};
  auto widths = dsl::spec_of(expr.op).child_widths(node, expr.children.size());
  if (!widths) return std::nullopt;
  return std::move(*widths);
}

std::optional<Completed> order0(const Expr& expr, const Histogram& histogram, uint64_t frames, uint64_t limit) {
  const auto& spec = dsl::spec_of(expr.op);
  if (expr.op == dsl::OpId::literal) {
    if (expr.params.empty()) {
      const Pick pick = pick_order0(histogram, frames, limit);
      if (pick.cost == kNever) return std::nullopt;
      return Completed{literal(pick.codec), pick.cost};
    }
    const uint64_t cost =
        order0_cost(*codec::find_codec(expr.params[0]), histogram, entropy_cost(histogram), frames, limit);
    if (cost == kNever) return std::nullopt;
    return Completed{expr, cost};
  }
  dsl::Node node;
  const auto widths = node_of(expr, histogram.width, node);
  if (!widths) return std::nullopt;
  if (expr.children.empty()) {  // constant: stores nothing, fits one word only
    if (histogram.counts.size() == 1 && expr.params.size() == 1 && histogram.counts[0].first == expr.params[0])
      return Completed{expr, 0};
    return std::nullopt;
  }
  Completed out{{expr.op, expr.params, {}}, 0};
  dsl::WordList list;
  if (spec.slot == dsl::SlotKind::word_list) {
    auto words = spec.choose_words(node, histogram);
    if (!words) return std::nullopt;
    list.words = std::move(*words);
    out.cost += dsl::store_word_list(list.words).size() * 8 * kBit;
  }
  std::vector<std::optional<Histogram>> below;
  const dsl::NodeArgs args{node, &list, 0, {}};
  if (spec.push_down == nullptr || !spec.push_down(args, histogram, below)) return std::nullopt;
  for (size_t i = 0; i < expr.children.size(); ++i) {
    const Expr& child = expr.children[i];
    if (below[i]) {
      if (out.cost >= limit) return std::nullopt;
      auto done = order0(child, *below[i], frames, limit - out.cost);
      if (!done) return std::nullopt;
      out.cost += done->cost;
      out.expr.children.push_back(std::move(done->expr));
    } else {
      if (child.op != dsl::OpId::literal) return std::nullopt;
      const uint64_t others = i + 1 < below.size() && below[i + 1] ? below[i + 1]->total() : 0;
      out.cost += position_cost(histogram.total(), others) + frames * 4 * 8 * kBit;
      out.expr.children.push_back(child.params.empty() ? literal(CodecId::packed) : child);
    }
  }
  return out;
}

std::optional<uint64_t> node_cost_under(const dsl::BoundProgram& bound, uint32_t at, const Histogram& histogram) {
  const dsl::Node& node = bound.program().nodes()[at];
  const auto& spec = dsl::spec_of(node.op);
  const dsl::SlotTable* table = node.slot < 0 ? nullptr : &bound.tables(node.slot).front();
  if (node.op == dsl::OpId::literal) {
    const auto& codec = *codec::find_codec(node.params[0]);
    if (codec.by_order) return std::nullopt;
    const uint64_t payload = codec.estimate(table == nullptr ? nullptr : table->codec.get(), histogram);
    if (payload == kNever) return std::nullopt;
    return payload + histogram.total() * codec_decode_cost(codec.id);
  }
  if (node.children.empty())
    return histogram.counts.size() == 1 && node.params.size() == 1 && histogram.counts[0].first == node.params[0]
               ? std::optional<uint64_t>(0)
               : std::nullopt;
  std::vector<std::optional<Histogram>> below;
  const dsl::NodeArgs args{node, table == nullptr ? nullptr : table->list.get(), 0, {}};
  if (spec.push_down == nullptr || !spec.push_down(args, histogram, below)) return std::nullopt;
  uint64_t cost = 0;
  for (size_t i = 0; i < node.children.size(); ++i) {
    if (!below[i]) {
      cost += position_cost(histogram.total(), i + 1 < below.size() && below[i + 1] ? below[i + 1]->total() : 0);
      continue;
    }
    if (below[i]->counts.empty()) continue;
    const auto part = node_cost_under(bound, node.children[i], *below[i]);
    if (!part) return std::nullopt;
    cost += *part;
  }
  return cost;
}

// Size of the sample windows under one codec, encoded for real.
std::optional<uint64_t> encoded_cost(const codec::CodecSpec& spec, std::span<const bits::ConstWords> frames,
                                     const codec::Table* table) {
  ByteVector payload;
  uint64_t words = 0;
  for (const auto& frame : frames) {
    if (!spec.encode(table, frame, payload)) return std::nullopt;
    words += frame.count;
  }
  return (payload.size() + 4 * frames.size()) * 8 * kBit + words * codec_decode_cost(spec.id);
}

// Bytes of a run over the first `each` words of every frame.
uint64_t run_bytes(size_t (*run)(bits::ConstWords), std::span<const bits::ConstWords> frames, size_t each) {
  uint64_t bytes = 0;
  for (const auto& frame : frames) bytes += run(frame.part(0, std::min(each, frame.count)));
  return std::max<uint64_t>(1, bytes);
}

constexpr uint64_t kNearBytes = 8192;  // that nearer runs see

// What zstd makes of words whose cheapest other codec costs `limit`; kNever where that is no less. A fast run tells
// what none can reach, since others save an eighth more at most on weights; a part tells how much a run saves over it
// that comes within a hundredth or two of what is stored.
enum class Zstd { fast, either, near };  // the fast run is enough; where it wins by far; never
uint64_t zstd_cost(std::span<const bits::ConstWords> frames, uint64_t limit, Zstd how) {
  uint64_t words = 0;
  for (const auto& frame : frames) words += frame.count;
  const uint64_t all = run_bytes(codec::zstd_fast_size, frames, SIZE_MAX), upkeep = 4 * frames.size() * 8 * kBit;
  const auto cost = [&](uint64_t size) { return size * 8 * kBit + upkeep + words * codec_decode_cost(CodecId::zstd); };
  const uint64_t fast = cost(all);
  if (how != Zstd::near && limit != kNever && fast < limit / 2) return fast;
  if (cost(all / 8 * 7) >= limit) return kNever;
  if (how == Zstd::fast) return fast;
  const size_t each = std::max<size_t>(1, kNearBytes / frames.size() / frames.front().lane());
  const uint64_t part = run_bytes(codec::zstd_fast_size, frames, each);
  uint64_t plain = 0;
  for (const auto& frame : frames) plain += frame.part(0, std::min(each, frame.count)).bytes();
  const uint64_t near_part = run_bytes(codec::zstd_near_size, frames, each);
  if (limit != kNever && near_part >= plain) return kNever;  // what is stored would find nothing, either
  const uint64_t near = cost(static_cast<uint64_t>(static_cast<unsigned __int128>(all) * near_part / part));
  return near < limit ? near : kNever;
}

std::optional<Completed> sampled_literal(const Expr& expr, std::span<const bits::ConstWords> frames, uint64_t limit,
                                         bool quick) {
  const Zstd how = quick ? Zstd::fast : Zstd::either;
  if (!expr.params.empty()) {
    const auto& spec = *codec::find_codec(expr.params[0]);
    if (!spec.accepts(frames.front().width)) return std::nullopt;
    uint64_t cost = kNever;
    if (!spec.by_order) {
      const Histogram histogram = count_all(frames);
      cost = order0_cost(spec, histogram, entropy_cost(histogram), frames.size(), limit);
    } else if (spec.id == CodecId::zstd && limit != kNever && !repeats_itself(frames)) {
      return std::nullopt;
    } else if (spec.id == CodecId::zstd) {
      cost = zstd_cost(frames, limit, how);
    } else if (const auto encoded = encoded_cost(spec, frames, nullptr)) {
      cost = *encoded;
    }
    if (cost == kNever) return std::nullopt;
    return Completed{expr, cost};
  }
  Pick pick = pick_order0(count_all(frames), frames.size(), limit);
  const auto& zstd = *codec::find_codec(static_cast<uint64_t>(CodecId::zstd));
  if (zstd.accepts(frames.front().width) && repeats_itself(frames)) {
    const uint64_t cost = zstd_cost(frames, std::min(pick.cost, limit), how);
    if (cost != kNever) pick = {CodecId::zstd, cost};
  }
  if (pick.cost == kNever) return std::nullopt;
  return Completed{literal(pick.codec), pick.cost};
}

}  // namespace

std::optional<uint64_t> zstd_sampled(std::span<const bits::ConstWords> frames, uint64_t limit) {
  const uint64_t cost = zstd_cost(frames, limit, Zstd::near);
  return cost == kNever ? std::nullopt : std::optional(cost);
}

uint64_t slow_decode_price() { return std::min(codec_decode_cost(CodecId::rans), codec_decode_cost(CodecId::huffman)); }

bool words_recur(std::span<const bits::ConstWords> frames) {
  constexpr size_t kFrames = 2, kWords = 1024;
  constexpr unsigned kWider = 20;  // positions recur, too
  uint64_t words = 0, different = 0;
  for (size_t i = 0; i < frames.size(); i += std::max<size_t>(1, frames.size() / kFrames)) {
    const bits::ConstWords part = frames[i].part(0, std::min(kWords, frames[i].count));
    if (part.width <= kWider) return false;
    std::vector<uint64_t> sorted(part.count);
    for (size_t at = 0; at < part.count; ++at) sorted[at] = part.at(at);
    std::sort(sorted.begin(), sorted.end());
    words += part.count;
    different += static_cast<uint64_t>(std::unique(sorted.begin(), sorted.end()) - sorted.begin());
  }
  return words != 0 && different * 2 < words;
}

// The share of words from which on 16 bytes stood before, by a hash table of one entry a bucket.
bool repeats_itself(std::span<const bits::ConstWords> frames) {
  if (words_recur(frames)) return true;
  constexpr size_t kShort = 4096, kReach = 16;
  constexpr size_t kLooked = 65536;  // words; more would only push out what the table has
  constexpr unsigned kLogTable = 15;
  constexpr uint64_t kShareOf = 64;  // one place in 64
  uint64_t places = 0, repeats = 0;
  const size_t each = std::max<size_t>(1, kLooked / std::max<size_t>(1, frames.size()));
  for (const auto& frame : frames) places += std::min(each, frame.count);
  // Cleared for every call, so that few places get few entries.
  const unsigned log_table = std::min(kLogTable, static_cast<unsigned>(std::bit_width(places)));
  thread_local std::vector<uint32_t> seen;
  seen.assign(size_t{1} << log_table, 0);
  places = 0;
  for (const auto& frame : frames) {
    const ByteSpan bytes = frame.part(0, std::min(each, frame.count)).byte_span();
    for (size_t i = 0; i + kReach <= bytes.size(); i += frame.lane()) {
      uint64_t a, b;
      std::memcpy(&a, bytes.data() + i, 8);
      std::memcpy(&b, bytes.data() + i + 8, 8);
      const uint64_t hash = (a ^ (b << 23 | b >> 41)) * 0x9e3779b97f4a7c15u;
      uint32_t& entry = seen[hash >> (64 - log_table)];
      const auto low = static_cast<uint32_t>(hash >> 16);
      repeats += entry == low;
      entry = low;
      ++places;
    }
  }
  return places < kShort || repeats * kShareOf >= places;
}

uint64_t position_cost(uint64_t words, uint64_t others) {
  if (others == 0) return 0;
  unsigned bits = 2;
  for (uint64_t gap = words / others; gap > 1; gap >>= 1) ++bits;
  return others * bits * kBit;
}

uint64_t entropy_cost(const Histogram& histogram) {
  if (histogram.counts.size() < 2) return 0;
  uint64_t total = 0;
  unsigned __int128 weighed = 0;
  for (const auto& [word, count] : histogram.counts) {
    total += count;
    weighed += bits::weighed_log2(count);
  }
  return static_cast<uint64_t>((static_cast<unsigned __int128>(total) * bits::log2_near(total) - weighed) >>
                               (bits::kLog2Bits - 8));
}

uint64_t least_literal_cost(const Histogram& histogram, uint64_t frame_words) {
  const uint64_t words = histogram.total(), frames = frames_for(words, frame_words);
  // Logarithms are near to a few units of 2^-16 a word.
  const uint64_t entropy = entropy_cost(histogram);
  const uint64_t least = entropy - std::min(entropy, words / 64 + 1) + histogram.counts.size() * kLeastTableBits * kBit;
  uint64_t best = kNever;
  for (const codec::CodecSpec* spec : codec::all_codecs()) {
    if (spec->by_order || !spec->accepts(histogram.width)) continue;
    if (spec->needs_table)
      best = std::min(best, upkeep_cost(*spec, histogram, frames) + least);
    else
      best = std::min(best, order0_cost(*spec, histogram, entropy, frames, kNever));
  }
  return best;
}

std::optional<uint64_t> cost_under(const dsl::BoundProgram& bound, const Histogram& histogram, uint32_t node) {
  return node_cost_under(bound, node, histogram);
}

std::optional<Completed> complete_order0(const Expr& structure, const Histogram& histogram, uint64_t frame_words,
                                         uint64_t limit) {
  return order0(structure, histogram, frames_for(histogram.total(), frame_words), limit);
}

std::optional<Completed> complete_sampled(const Expr& structure, std::span<const bits::ConstWords> frames,
                                          uint64_t limit, bool quick) {
  std::vector<dsl::Window> windows;
  uint64_t position = 0;
  for (const auto& frame : frames) {
    windows.push_back({position, frame});
    position += frame.count;
  }
  return complete_sampled(structure, windows, limit, quick);
}

std::optional<Completed> complete_sampled(const Expr& structure, std::span<const dsl::Window> frames, uint64_t limit,
                                          bool quick) {
  if (frames.empty()) return std::nullopt;
  std::vector<bits::ConstWords> views;
  for (const auto& frame : frames) views.push_back(frame.words);
  if (structure.op == dsl::OpId::literal) return sampled_literal(structure, views, limit, quick);
  const unsigned width = views.front().width;
  const auto& spec = dsl::spec_of(structure.op);
  dsl::Node node;
  if (!node_of(structure, width, node)) return std::nullopt;
  Completed out{{structure.op, structure.params, {}}, 0};
  if (spec.invert == nullptr) return std::nullopt;
  Histogram counted;
  if (spec.slot == dsl::SlotKind::word_list) counted = count_all(views);
  dsl::Target target;
  target.width = width;
  target.windows = frames;
  target.histogram = &counted;
  const auto slot = fit_slot(spec, node, target);
  if (!slot) return std::nullopt;
  node.children.resize(structure.children.size());  // for operators of any number of children
  out.cost += slot->bytes * 8 * kBit;
  std::vector<std::vector<bits::OwnedWords>> below(frames.size());
  for (size_t f = 0; f < frames.size(); ++f) {
    std::vector<uint64_t> counts;
    const dsl::NodeArgs args{node, &slot->list, frames[f].position, {}, slot->blob.get()};
    const auto fits = spec.invert(args, views[f], below[f], counts);
    if (!fits || !*fits || below[f].size() != structure.children.size()) return std::nullopt;
  }
  for (size_t i = 0; i < structure.children.size(); ++i) {
    std::vector<dsl::Window> streams;
    for (size_t f = 0; f < frames.size(); ++f) streams.push_back({frames[f].position, below[f][i].view()});
    if (out.cost >= limit) return std::nullopt;
    auto done = complete_sampled(structure.children[i], streams, limit == kNever ? limit : limit - out.cost, quick);
    if (!done) return std::nullopt;
    out.cost += done->cost;
    out.expr.children.push_back(std::move(done->expr));
  }
  return out;
}

}  // namespace brevis::synth
