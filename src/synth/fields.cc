// SPDX-License-Identifier: Apache-2.0
#include "synth/fields.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>

#include "dsl/encode.h"
#include "dsl/op.h"
#include "dsl/verify.h"

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

}  // namespace

bool is_incompressible(const Expr& expr) {
  return expr.op == OpId::literal && !expr.params.empty() &&
         (expr.params[0] == static_cast<uint64_t>(CodecId::packed) ||
          expr.params[0] == static_cast<uint64_t>(CodecId::raw));
}

Fields::Fields(const StreamStats& stats, uint64_t frame_words) : stats_(stats), frame_words_(frame_words) {}

// From the narrowest field known that holds all of it; that of all top bits is always there.
Histogram Fields::folded(Key key) const {
  const auto [from_top, bits] = key;
  Key wider{0, stats_.top_bits()};
  const Histogram* from = &stats_.top;
  for (const auto& [other, field] : fields_) {
    if (other.first > from_top || other.first + other.second < from_top + bits) continue;
    if (other.first + other.second > stats_.top_bits()) continue;
    if (other.second < wider.second) wider = other, from = field.histogram;
  }
  return fold(*from, from_top - wider.first, bits);
}

Fields::Field& Fields::field(unsigned from_top, unsigned bits) {
  const Key key{from_top, bits};
  if (const auto at = fields_.find(key); at != fields_.end()) return at->second;
  Histogram own;
  const bool all = bits == stats_.top_bits() && from_top == 0;
  if (from_top + bits > stats_.top_bits()) {
    own = stats_.low_byte((from_top - stats_.top_bits()) / 8);
  } else if (!all) {
    own = folded(key);
  }
  Field& made = fields_[key];  // nodes of a map stay where they are
  made.own = std::move(own);
  made.histogram = all ? &stats_.top : &made.own;
  return made;
}

const Histogram& Fields::histogram(unsigned from_top, unsigned bits) { return *field(from_top, bits).histogram; }

const Histogram* Fields::known(unsigned from_top, unsigned bits) {
  const unsigned top = stats_.top_bits();
  const bool low = from_top >= top && bits == 8 && (from_top - top) % 8 == 0 && from_top - top < 8 * stats_.low_bytes();
  if (!low && from_top + bits > top) return nullptr;
  return &histogram(from_top, bits);
}

uint64_t Fields::entropy(unsigned from_top, unsigned bits) {
  Field& at = field(from_top, bits);
  if (!at.entropy) at.entropy = entropy_cost(*at.histogram);
  return *at.entropy;
}

namespace {

// The `most` largest counts, or all of them where there are fewer; `sum` is that of all.
std::vector<uint64_t> largest(const Histogram& histogram, size_t most, uint64_t& sum) {
  // By size, four steps an octave, so that few have to be put in order.
  const auto step_of = [](uint64_t count) {
    const auto n = static_cast<unsigned>(std::bit_width(count));
    return n < 3 ? static_cast<size_t>(count) : size_t{4} * n + static_cast<size_t>(count >> (n - 3) & 3);
  };
  std::array<uint32_t, 4 * 65> steps{};
  sum = 0;
  for (const auto& [word, count] : histogram.counts) {
    ++steps[step_of(count)];
    sum += count;
  }
  size_t seen = 0, least = steps.size();
  while (least > 0 && seen < most) seen += steps[--least];
  std::vector<uint64_t> out;
  out.reserve(seen);
  for (const auto& [word, count] : histogram.counts)
    if (step_of(count) >= least) out.push_back(count);
  std::sort(out.begin(), out.end(), std::greater<>());
  if (out.size() > most) out.resize(most);
  return out;
}

}  // namespace

void Fields::count_others(Field& field) const {
  uint64_t sum = 0;
  const std::vector<uint64_t> counts = largest(*field.histogram, kRankSizes.front(), sum);
  for (const uint64_t size : kRankSizes) {
    uint64_t listed = 0;
    for (size_t i = 0; i < std::min<size_t>(size, counts.size()); ++i) listed += counts[i];
    field.others.push_back(sum - listed);
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

// A bound below least() that a look at the commonest word gives.
bool Fields::reaches(unsigned from_top, unsigned bits, uint64_t limit) {
  Field& at = field(from_top, bits);
  if (!at.least && limit != UINT64_MAX && at.histogram->counts.size() > kRankSizes.front()) {
    constexpr uint64_t kLeastPositionBits = 2;
    const auto& counts = at.histogram->counts;
    uint64_t most = 0;
    for (const auto& [word, count] : counts) most = std::max(most, count);
    const uint64_t words = stats_.words, listed = std::min(words, kRankSizes.front() * most);
    const uint64_t plain = words * static_cast<unsigned>(std::bit_width(counts.back().first)) * kBit;
    const uint64_t beyond = std::min(counts.size() * kLeastFrequencyBits, (words - listed) * kLeastPositionBits) * kBit;
    if (most <= words / 2 && std::min(plain, entropy(from_top, bits) + beyond) >= limit) return true;
  }
  return least(from_top, bits) >= limit;
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
  // Noise is stored as it is, and that leaves nothing to be tried for.
  const uint64_t entropy = *field.entropy, plain = stats_.words * std::bit_width(histogram.counts.back().first) * kBit;
  const bool noise = plain <= entropy + distinct * kLeastFrequencyBits * kBit;
  if (noise) try_way(lit());
  const bool listable = distinct <= kMaxPalette && distinct <= uint64_t{1} << (histogram.width - 1);
  if (listable && entropy + distinct * kListWordBits * kBit < bound() && distinct <= kAliasWords)
    try_way(palette(distinct));
  for (size_t i = 0; i < kRankSizes.size(); ++i) {
    if (distinct <= kRankSizes[i] + 1) continue;
    const uint64_t least = entropy + position_cost(stats_.words, field.others[i]) +
                           kRankSizes[i] * (kListWordBits + kLeastFrequencyBits) * kBit;
    if (least < bound()) try_way(rank(kRankSizes[i]));
  }
  if (listable && distinct > kAliasWords && entropy + distinct * kListWordBits * kBit < bound())
    try_way(palette(distinct));
  if (!noise) try_way(lit());
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
    if (stats.low_bits() != 0) return std::nullopt;
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

std::optional<uint64_t> cost_under(const dsl::BoundProgram& bound, Fields& fields) {
  const dsl::Node& root = bound.program().nodes()[0];
  if (root.op != OpId::merge) return cost_under(bound, fields.histogram(0, fields.stats().top_bits()));
  uint64_t cost = 0;
  unsigned from_top = 0;
  for (size_t i = 0; i < root.children.size(); ++i) {
    const auto width = static_cast<unsigned>(root.params[i]);
    const Histogram* field = fields.known(from_top, width);
    if (field == nullptr) return std::nullopt;
    const auto part = cost_under(bound, *field, root.children[i]);
    if (!part) return std::nullopt;
    cost += *part;
    from_top += width;
  }
  return cost;
}

namespace {

// Adds the tables of a field coded by `expr`; false where its histogram does not tell them.
Result<bool> add_tables_of(const Expr& expr, unsigned width, const Histogram& histogram, std::vector<ByteVector>& out) {
  const auto program = dsl::build(width, expr);
  if (!program) return false;
  if (program->slots().empty()) return complete_order0(expr, histogram, 0).has_value();
  if (program->regions().size() != 1 || program->regions()[0].root != 0) return false;
  BREVIS_ASSIGN(auto estimated, dsl::estimate(*program, 0, histogram));
  if (!estimated) return false;
  std::move(estimated->tables.begin(), estimated->tables.end(), std::back_inserter(out));
  return true;
}

}  // namespace

Result<std::optional<std::vector<ByteVector>>> tables_by_stats(const Expr& expr, Fields& fields) {
  using Tables = std::optional<std::vector<ByteVector>>;
  const StreamStats& stats = fields.stats();
  std::vector<ByteVector> out;
  if (expr.op != OpId::merge) {
    if (stats.low_bits() != 0) return Tables();
    const unsigned width = stats.top_bits();
    BREVIS_ASSIGN(const bool known, add_tables_of(expr, width, fields.histogram(0, width), out));
    return known ? Tables(std::move(out)) : Tables();
  }
  unsigned from_top = 0;
  for (size_t i = 0; i < expr.children.size(); ++i) {
    const auto width = static_cast<unsigned>(expr.params[i]);
    bool known = false;
    if (const Histogram* field = fields.known(from_top, width)) {
      BREVIS_ASSIGN(known, add_tables_of(expr.children[i], width, *field, out));
    } else {
      known = is_incompressible(expr.children[i]);
    }
    if (!known) return Tables();
    from_top += width;
  }
  return Tables(std::move(out));
}

unsigned telling_bits(Dtype dtype, Fields& fields) {
  constexpr unsigned kJoint = 4;        // of the mantissa
  constexpr uint64_t kValueBias = 192;  // by how much a value makes a sample's entropy smaller
  const DtypeInfo& info = dtype_info(dtype);
  const StreamStats& stats = fields.stats();
  const unsigned head = info.sign_bits + info.exponent_bits + kJoint, top = stats.top_bits();
  if (!info.is_float() || stats.counted != 0 || info.word_bits() != stats.width || head >= top) return 0;
  const auto is_noise = [&](unsigned from_top, unsigned bits) {
    return fields.entropy(from_top, bits) + stats.words + (kValueBias << bits) >= stats.words * bits * kBit;
  };
  if (!is_noise(head, top - head)) return 0;
  for (unsigned byte = 0; byte < stats.low_bytes(); ++byte)
    if (!is_noise(top + 8 * byte, 8)) return 0;
  return head;
}

uint64_t entropy_by_stats(Fields& fields) {
  const unsigned top = fields.stats().top_bits();
  uint64_t sum = fields.entropy(0, top);
  for (unsigned byte = 0; byte < fields.stats().low_bytes(); ++byte) sum += fields.entropy(top + 8 * byte, 8);
  return sum;
}

}  // namespace brevis::synth
