// SPDX-License-Identifier: Apache-2.0
#include "synth/known_good.h"

#include <algorithm>
#include <iterator>

#include "dsl/op.h"

namespace brevis::synth {
namespace {

using codec::CodecId;
using codec::Histogram;
using dsl::Expr;
using dsl::OpId;

constexpr size_t kMaxPalette = 4096;  // beyond, the list outweighs what the index saves on streams of usual length

Expr lit() { return {OpId::literal, {}, {}}; }
Expr lit(CodecId codec) { return {OpId::literal, {static_cast<uint64_t>(codec)}, {}}; }
Expr constant(uint64_t value) { return {OpId::constant, {value}, {}}; }
Expr rank(uint64_t size) { return {OpId::rank, {size}, {lit(), lit(), lit()}}; }
Expr palette(uint64_t size) { return {OpId::palette, {size}, {lit()}}; }

// How a dtype's word is cut: sign, exponent, mantissa bits from the top; integers are (0, 0, width).
struct Layout {
  unsigned sign, exponent, mantissa;
};

// The cheapest way to code one field by itself, if any stays below `limit`. Small alphabets come first: they are cheap
// to try, and what they reach leaves little for the rest to be tried for.
std::optional<Completed> best_field(const Histogram& histogram, uint64_t frame_words, uint64_t limit) {
  const size_t distinct = histogram.counts.size();
  if (distinct == 1) return complete_order0(constant(histogram.counts[0].first), histogram, frame_words);
  std::vector<Expr> ways;
  if (distinct <= kMaxPalette && distinct <= uint64_t{1} << (histogram.width - 1)) ways.push_back(palette(distinct));
  for (const uint64_t size : {uint64_t{63}, uint64_t{31}, uint64_t{15}})
    if (distinct > size + 1) ways.push_back(rank(size));
  ways.push_back(lit());
  std::optional<Completed> best;
  for (const Expr& way : ways)
    if (auto done = complete_order0(way, histogram, frame_words, best ? best->cost : limit)) best = std::move(done);
  return best;
}

bool is_incompressible(const Expr& expr) {
  return expr.op == OpId::literal && !expr.params.empty() &&
         (expr.params[0] == static_cast<uint64_t>(CodecId::packed) ||
          expr.params[0] == static_cast<uint64_t>(CodecId::raw));
}

// The marginal of `bits` bits that start `from_top` bits below the top of the words.
Histogram part_of(const Histogram& words, unsigned from_top, unsigned bits) {
  std::vector<uint64_t> dense(size_t{1} << bits);
  const unsigned shift = words.width - from_top - bits;
  for (const auto& [word, count] : words.counts) dense[(word >> shift) & (dense.size() - 1)] += count;
  Histogram part{bits, {}};
  for (size_t v = 0; v < dense.size(); ++v)
    if (dense[v] != 0) part.counts.emplace_back(v, dense[v]);
  return part;
}

struct Ranked {
  Expr expr;
  uint64_t cost;
};

void add_field(Ranked& out, unsigned width, Completed field) {
  out.cost += field.cost;
  out.expr.params.push_back(width);
  out.expr.children.push_back(std::move(field.expr));
}

// Narrow and wide forms of a cut of the top bits into fields of these widths, most significant first.
struct Cut {
  Ranked top;                 // the top min(16, width) bits alone, as a stream of that width
  std::vector<Ranked> whole;  // of the whole word
};

// The low bits below a cut: joined to an incompressible last field, or by bytes of their own (quantised or truncated
// weights repeat there).
void extend(const StreamStats& stats, const Ranked& fields, uint64_t frame_words, std::vector<Ranked>& out) {
  const unsigned low = stats.width - stats.top_bits();
  Ranked joined = fields;
  joined.cost += uint64_t{256} * low * stats.words;
  if (fields.expr.children.size() > 1 && is_incompressible(fields.expr.children.back())) {
    joined.expr.params.back() += low;
    joined.expr.children.back() = lit(CodecId::packed);
  } else {
    joined.expr.params.push_back(low);
    joined.expr.children.push_back(lit(CodecId::packed));
  }
  out.push_back(std::move(joined));
  Ranked bytes = fields;
  for (unsigned byte = 0; byte < stats.low_bytes(); ++byte) {
    auto field = best_field(stats.low_byte(byte), frame_words, UINT64_MAX);
    if (!field) return;
    add_field(bytes, 8, std::move(*field));
  }
  out.push_back(std::move(bytes));
}

// A cut into fields of these widths, most significant first; nullopt when its top bits cost `limit` or more.
std::optional<Cut> split(const StreamStats& stats, const Histogram& top, const std::vector<unsigned>& widths,
                         uint64_t frame_words, uint64_t limit) {
  Ranked fields{{OpId::merge, {}, {}}, 0};
  unsigned from_top = 0;
  for (const unsigned width : widths) {
    if (fields.cost >= limit) return std::nullopt;
    auto field = best_field(part_of(top, from_top, width), frame_words, limit - fields.cost);
    if (!field) return std::nullopt;
    add_field(fields, width, std::move(*field));
    from_top += width;
  }
  Cut out{fields, {}};
  if (fields.expr.children.size() == 1) out.top.expr = Expr(fields.expr.children.front());
  if (stats.low_bytes() == 0) {
    out.whole.push_back(out.top);
  } else {
    extend(stats, fields, frame_words, out.whole);
  }
  return out;
}

// Cuts much dearer than the best so far are not worth finishing.
constexpr uint64_t kSlackOf = 32;

class Cuts {
 public:
  Cuts(const StreamStats& stats, uint64_t frame_words)
      : stats_(stats), top_(stats.field(0, stats.top_bits())), frame_words_(frame_words) {}

  void add(const std::vector<unsigned>& widths) {
    const uint64_t limit = best_ == UINT64_MAX ? best_ : best_ + best_ / kSlackOf;
    auto cut = split(stats_, top_, widths, frame_words_, limit);
    if (!cut) return;
    best_ = std::min(best_, cut->top.cost);
    cuts_.push_back(std::move(*cut));
  }

  // Joint coding of two top mantissa bits is the likeliest winner, so it comes first and prunes the others.
  void add_float(const Layout& layout) {
    const unsigned top = stats_.top_bits(), head = layout.sign + layout.exponent;
    for (const unsigned joint : {2, 1, 3, 0, 4}) {
      if (joint > layout.mantissa || head + joint > top) continue;
      for (const bool sign_apart : {true, false}) {
        if (sign_apart && layout.sign == 0) continue;
        std::vector<unsigned> widths;
        if (sign_apart) widths.push_back(layout.sign);
        widths.push_back(sign_apart ? layout.exponent + joint : head + joint);
        if (head + joint < top) widths.push_back(top - head - joint);
        add(widths);
      }
    }
  }

  // Integers and anything else.
  void add_plain() {
    add({stats_.top_bits()});
    if (stats_.top_bits() == 16) add({8, 8});
  }

  std::vector<Cut> take() { return std::move(cuts_); }

 private:
  const StreamStats& stats_;
  const Histogram top_;
  const uint64_t frame_words_;
  uint64_t best_ = UINT64_MAX;
  std::vector<Cut> cuts_;
};

Expr byte_split(unsigned width, const Expr& leaf) {
  Expr out{OpId::merge, {}, {}};
  for (unsigned done = 0; done < width; done += 8) {
    out.params.push_back(8);
    out.children.push_back(leaf);
  }
  return out;
}

// Structures that statistics do not price: sizes come from samples.
void add_structured(unsigned width, std::vector<Expr>& out) {
  const Expr plain = width == 8 ? lit() : byte_split(width, lit());
  out.push_back(lit(CodecId::zstd));
  if (width == 8) {
    out.push_back(lit());
  } else {
    out.push_back(plain);
    out.push_back(byte_split(width, lit(CodecId::zstd)));
    out.push_back({OpId::scan, {1, 1}, {lit(CodecId::raw), plain}});
  }
  out.push_back({OpId::zeros, {}, {lit(), plain}});
}

// A pair of equal halves, such as the two floats of a complex word.
void add_pair(unsigned width, std::vector<Expr>& out) {
  const uint64_t half = width / 2;
  const Expr part{OpId::merge, {9, 23}, {lit(), lit()}};
  out.push_back({OpId::merge, {half, half}, {half == 32 ? part : lit(), half == 32 ? part : lit()}});
}

Layout layout_of(Dtype dtype) {
  const DtypeInfo& info = dtype_info(dtype);
  if (!info.is_float()) return {0, 0, info.word_bits()};
  return {info.sign_bits, info.exponent_bits, info.mantissa_bits};
}

// What words were before they were widened. BF16 in F32 is priced: its words are the top bits.
void add_casts(const StreamStats& stats, const std::vector<Cut>& cuts, std::vector<Structure>& out) {
  const auto& spec = dsl::spec_of(OpId::cast);
  for (size_t kind = 0; kind < stats.cast_image.size(); ++kind) {
    if (!stats.cast_image[kind]) continue;
    const dsl::Node node{OpId::cast, static_cast<uint8_t>(stats.width), {kind}, {}};
    const auto narrow = spec.child_widths(node, 1);
    if (!narrow) continue;
    auto add = [&](Expr inner, std::optional<uint64_t> cost = {}) {
      out.push_back({{OpId::cast, {kind}, {std::move(inner)}}, cost});
    };
    if (spec.keywords[kind] == "bf16_f32") {
      for (const Cut& cut : cuts) add(cut.top.expr, cut.top.cost);
    } else if (narrow->front() == 16) {
      for (const uint64_t joint : {0, 1, 2, 3}) {
        const std::vector<uint64_t> widths{1, 5 + joint, 10 - joint};
        add({OpId::merge, widths, {lit(), lit(), lit()}});
        if (joint > 1) add({OpId::merge, widths, {lit(), rank(63), lit()}});
      }
    } else if (narrow->front() == 32) {
      add({OpId::merge, {1, 8, 23}, {lit(), lit(), lit()}});
      add({OpId::merge, {1, 10, 21}, {lit(), rank(63), lit()}});
    } else {
      add(lit());
    }
  }
}

}  // namespace

std::vector<Structure> known_good(Dtype dtype, const StreamStats& stats, uint64_t frame_words, size_t limit) {
  const Layout layout = layout_of(dtype);
  Cuts gathered(stats, frame_words);
  if (layout.exponent != 0) gathered.add_float(layout);
  gathered.add_plain();
  std::vector<Cut> cuts = gathered.take();
  std::vector<Structure> priced, sampled;
  add_casts(stats, cuts, sampled);
  for (auto& cut : cuts)
    for (auto& way : cut.whole) priced.push_back({std::move(way.expr), way.cost});
  const auto first_sampled =
      std::stable_partition(sampled.begin(), sampled.end(), [](const Structure& s) { return s.cost.has_value(); });
  std::move(sampled.begin(), first_sampled, std::back_inserter(priced));
  sampled.erase(sampled.begin(), first_sampled);
  std::stable_sort(priced.begin(), priced.end(),
                   [](const Structure& a, const Structure& b) { return *a.cost < *b.cost; });
  if (priced.size() > limit) priced.resize(limit);
  std::vector<Expr> structured;
  if (dtype == Dtype::C64) add_pair(stats.width, structured);
  add_structured(stats.width, structured);
  for (auto& expr : structured) sampled.push_back({std::move(expr), std::nullopt});
  std::move(sampled.begin(), sampled.end(), std::back_inserter(priced));
  return priced;
}

std::optional<uint64_t> cost_by_stats(const Expr& expr, const StreamStats& stats, uint64_t frame_words) {
  const unsigned top_bits = stats.top_bits();
  const Histogram top = stats.field(0, top_bits);
  if (expr.op != OpId::merge || stats.low_bytes() == 0) {
    if (stats.low_bytes() != 0) return std::nullopt;
    const auto done = complete_order0(expr, top, frame_words);
    return done ? std::optional<uint64_t>(done->cost) : std::nullopt;
  }
  uint64_t cost = 0;
  unsigned from_top = 0;
  for (size_t i = 0; i < expr.children.size(); ++i) {
    const auto width = static_cast<unsigned>(expr.params[i]);
    std::optional<Completed> done;
    if (from_top + width <= top_bits) {
      done = complete_order0(expr.children[i], part_of(top, from_top, width), frame_words);
    } else if (from_top >= top_bits && width == 8 && (from_top - top_bits) % 8 == 0) {
      done = complete_order0(expr.children[i], stats.low_byte((from_top - top_bits) / 8), frame_words);
    } else if (is_incompressible(expr.children[i])) {
      done = Completed{{}, uint64_t{256} * width * stats.words};
    }
    if (!done) return std::nullopt;
    cost += done->cost;
    from_top += width;
  }
  return cost;
}

uint64_t entropy_by_stats(const StreamStats& stats) {
  uint64_t sum = entropy_cost(stats.field(0, stats.top_bits()));
  for (unsigned byte = 0; byte < stats.low_bytes(); ++byte) sum += entropy_cost(stats.low_byte(byte));
  return sum;
}

}  // namespace brevis::synth
