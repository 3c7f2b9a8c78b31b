// SPDX-License-Identifier: Apache-2.0
#include "synth/fields.h"

#include <algorithm>
#include <array>
#include <bit>

#include "dsl/op.h"

namespace brevis::synth {
namespace {

using codec::CodecId;
using codec::Histogram;
using dsl::Expr;
using dsl::OpId;

constexpr uint64_t kBit = 256;        // cost units of one bit
constexpr size_t kMaxPalette = 4096;  // beyond, the list outweighs what the index saves on streams of usual length
constexpr std::array<uint64_t, 3> kRankSizes = {63, 31, 15};
constexpr size_t kAliasWords = 64;  // that the codec in registers serves

// What tables cost at least: a word of a list a byte, a frequency a bit and its digits.
constexpr uint64_t kListWordBits = 8, kLeastFrequencyBits = 3;

Expr lit() { return {OpId::literal, {}, {}}; }
Expr constant(uint64_t value) { return {OpId::constant, {value}, {}}; }
Expr rank(uint64_t size) { return {OpId::rank, {size}, {lit(), lit(), lit()}}; }
Expr palette(uint64_t size) { return {OpId::palette, {size}, {lit()}}; }

Histogram sparse(unsigned bits, std::span<const uint64_t> dense) {
  Histogram histogram{bits, {}};
  histogram.counts.reserve(dense.size() - static_cast<size_t>(std::count(dense.begin(), dense.end(), 0u)));
  for (size_t v = 0; v < dense.size(); ++v)
    if (dense[v] != 0) histogram.counts.emplace_back(v, dense[v]);
  return histogram;
}

}  // namespace

bool is_incompressible(const Expr& expr) {
  return expr.op == OpId::literal && !expr.params.empty() &&
         (expr.params[0] == static_cast<uint64_t>(CodecId::packed) ||
          expr.params[0] == static_cast<uint64_t>(CodecId::raw));
}

Fields::Fields(const StreamStats& stats, uint64_t frame_words) : stats_(stats), frame_words_(frame_words) {}

// From the narrowest field known that holds all of it; the dense counts of the top bits are always there.
void Fields::fold(Key key, Field& into) const {
  const auto [from_top, bits] = key;
  Key wider{0, stats_.top_bits()};
  std::span<const uint64_t> from = stats_.top;
  for (const auto& [other, field] : fields_) {
    if (field.dense.empty() || other.first > from_top || other.first + other.second < from_top + bits) continue;
    if (other.second < wider.second) wider = other, from = field.dense;
  }
  const size_t size = size_t{1} << bits, group = size_t{1} << (wider.first + wider.second - from_top - bits);
  into.dense.assign(size, 0);
  for (const uint64_t* at = from.data(); at != from.data() + from.size();) {
    if (group == 1) {
      for (size_t v = 0; v < size; ++v) into.dense[v] += at[v];
      at += size;
      continue;
    }
    for (size_t v = 0; v < size; ++v, at += group) {
      uint64_t sum = 0;
      for (size_t i = 0; i < group; ++i) sum += at[i];
      into.dense[v] += sum;
    }
  }
}

Fields::Field& Fields::field(unsigned from_top, unsigned bits) {
  const Key key{from_top, bits};
  if (const auto at = fields_.find(key); at != fields_.end()) return at->second;
  Field made;
  if (from_top + bits > stats_.top_bits()) {
    made.histogram = stats_.low_byte((from_top - stats_.top_bits()) / 8);
  } else if (bits == stats_.top_bits()) {
    made.histogram = sparse(bits, stats_.top);
  } else {
    fold(key, made);
    made.histogram = sparse(bits, made.dense);
  }
  return fields_.emplace(key, std::move(made)).first->second;
}

const Histogram& Fields::histogram(unsigned from_top, unsigned bits) { return *field(from_top, bits).histogram; }

const Histogram* Fields::known(unsigned from_top, unsigned bits) {
  const unsigned top = stats_.top_bits();
  const bool low = from_top >= top && bits == 8 && (from_top - top) % 8 == 0 && from_top + bits <= stats_.width;
  if (!low && from_top + bits > top) return nullptr;
  return &histogram(from_top, bits);
}

uint64_t Fields::entropy(unsigned from_top, unsigned bits) {
  Field& at = field(from_top, bits);
  if (!at.entropy) at.entropy = entropy_cost(*at.histogram);
  return *at.entropy;
}

void Fields::count_others(Field& field) const {
  std::vector<uint64_t> counts;
  for (const auto& [word, count] : field.histogram->counts) counts.push_back(count);
  uint64_t others = 0;
  for (const uint64_t size : kRankSizes) {
    if (counts.size() > size) {
      const auto end = counts.begin() + static_cast<ptrdiff_t>(size);
      std::nth_element(counts.begin(), end, counts.end(), std::greater<>());
      for (auto at = end; at != counts.end(); ++at) others += *at;
      counts.erase(end, counts.end());
    }
    field.others.push_back(others);
  }
}

// Every way codes order-0, so that the entropy is in all of them; what comes on top differs.
uint64_t Fields::least_of(const Field& field) const {
  const auto& counts = field.histogram->counts;
  if (counts.size() < 2) return 0;
  const uint64_t words = stats_.words, entropy = *field.entropy;
  uint64_t most = 0;
  for (const auto& [word, count] : counts) most = std::max(most, count);
  if (most > words / 2) return entropy;  // sparse may serve, whose cost is an estimate
  const uint64_t table = counts.size() * kLeastFrequencyBits * kBit;
  uint64_t least = std::min(words * static_cast<unsigned>(std::bit_width(counts.back().first)) * kBit,
                            entropy + table + (counts.size() <= kAliasWords ? 0 : words * slow_decode_price()));
  for (size_t i = 0; i < kRankSizes.size(); ++i)
    if (counts.size() > kRankSizes[i] + 1)
      least = std::min(least, entropy + position_cost(words, field.others[i]) +
                                  kRankSizes[i] * (kListWordBits + kLeastFrequencyBits) * kBit);
  return least;
}

uint64_t Fields::least(unsigned from_top, unsigned bits) {
  Field& at = field(from_top, bits);
  if (!at.least) {
    entropy(from_top, bits);
    count_others(at);
    at.least = least_of(at);
  }
  return *at.least;
}

// Small alphabets come first: they are cheap to try, and what they reach leaves little for the rest to be tried for.
std::optional<Completed> Fields::search(const Field& field, uint64_t limit) const {
  const Histogram& histogram = *field.histogram;
  const size_t distinct = histogram.counts.size();
  if (distinct == 1) return complete_order0(constant(histogram.counts[0].first), histogram, frame_words_);
  std::optional<Completed> best;
  const auto bound = [&] { return best ? best->cost : limit; };
  const auto try_way = [&](const Expr& way) {
    if (auto done = complete_order0(way, histogram, frame_words_, bound())) best = std::move(done);
  };
  const bool listable = distinct <= kMaxPalette && distinct <= uint64_t{1} << (histogram.width - 1);
  if (listable && distinct <= kAliasWords) try_way(palette(distinct));
  for (size_t i = 0; i < kRankSizes.size(); ++i) {
    if (distinct <= kRankSizes[i] + 1) continue;
    const uint64_t least = *field.entropy + position_cost(stats_.words, field.others[i]) +
                           kRankSizes[i] * (kListWordBits + kLeastFrequencyBits) * kBit;
    if (least < bound()) try_way(rank(kRankSizes[i]));
  }
  if (listable && distinct > kAliasWords && *field.entropy + distinct * kListWordBits * kBit < bound())
    try_way(palette(distinct));
  try_way(lit());
  return best;
}

std::optional<Completed> Fields::best(unsigned from_top, unsigned bits, uint64_t limit) {
  least(from_top, bits);
  Field& at = field(from_top, bits);
  if (!at.best) {
    if (limit <= at.none_below || limit <= *at.least) return std::nullopt;
    at.best = search(at, limit);
    if (!at.best) at.none_below = limit;
  }
  if (!at.best || at.best->cost >= limit) return std::nullopt;
  return at.best;
}

std::optional<uint64_t> cost_by_stats(const Expr& expr, Fields& fields) {
  const StreamStats& stats = fields.stats();
  if (expr.op != OpId::merge) {
    if (stats.low_bytes() != 0) return std::nullopt;
    const auto done = complete_order0(expr, fields.histogram(0, stats.top_bits()), fields.frame_words());
    return done ? std::optional<uint64_t>(done->cost) : std::nullopt;
  }
  uint64_t cost = 0;
  unsigned from_top = 0;
  for (size_t i = 0; i < expr.children.size(); ++i) {
    const auto width = static_cast<unsigned>(expr.params[i]);
    std::optional<Completed> done;
    if (const Histogram* field = fields.known(from_top, width)) {
      done = complete_order0(expr.children[i], *field, fields.frame_words());
    } else if (is_incompressible(expr.children[i])) {
      done = Completed{{}, kBit * width * stats.words};
    }
    if (!done) return std::nullopt;
    cost += done->cost;
    from_top += width;
  }
  return cost;
}

uint64_t entropy_by_stats(Fields& fields) {
  const unsigned top = fields.stats().top_bits();
  uint64_t sum = fields.entropy(0, top);
  for (unsigned byte = 0; byte < fields.stats().low_bytes(); ++byte) sum += fields.entropy(top + 8 * byte, 8);
  return sum;
}

}  // namespace brevis::synth
