// SPDX-License-Identifier: Apache-2.0
#include "synth/known_good.h"

#include <algorithm>
#include <bit>

#include "dsl/op.h"

namespace brevis::synth {
namespace {

using codec::CodecId;
using codec::Histogram;
using dsl::Expr;
using dsl::OpId;

constexpr unsigned kMaxJointMantissa = 4;
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

// The cheapest way to code one field by itself.
std::optional<Completed> best_field(const Histogram& histogram, uint64_t frame_words) {
  const size_t distinct = histogram.counts.size();
  if (distinct == 1) return complete_order0(constant(histogram.counts[0].first), histogram, frame_words);
  std::vector<Expr> ways{lit()};
  if (distinct <= kMaxPalette && distinct <= uint64_t{1} << (histogram.width - 1))
    ways.push_back(palette(distinct));
  for (const uint64_t size : {uint64_t{63}, uint64_t{31}, uint64_t{15}})
    if (distinct > size + 1) ways.push_back(rank(size));
  std::optional<Completed> best;
  for (const Expr& way : ways) {
    auto done = complete_order0(way, histogram, frame_words);
    if (done && (!best || done->cost < best->cost)) best = std::move(done);
  }
  return best;
}

struct Ranked {
  Expr expr;
  uint64_t cost;
};

// One way to cut the top bits: fields of these widths, most significant first.
std::optional<Ranked> split(const StreamStats& stats, const std::vector<unsigned>& widths, uint64_t frame_words) {
  Ranked out{{OpId::merge, {}, {}}, 0};
  unsigned from_top = 0;
  for (const unsigned width : widths) {
    auto field = best_field(stats.field(from_top, width), frame_words);
    if (!field) return std::nullopt;
    out.cost += field->cost;
    out.expr.params.push_back(width);
    out.expr.children.push_back(std::move(field->expr));
    from_top += width;
  }
  if (out.expr.children.size() == 1) out.expr = Expr(out.expr.children.front());
  return out;
}

// Ways to cut the top min(16, width) bits of a float.
std::vector<Ranked> float_splits(const StreamStats& stats, const Layout& layout, uint64_t frame_words) {
  std::vector<Ranked> out;
  const unsigned top = stats.top_bits();
  const unsigned head = layout.sign + layout.exponent;
  for (unsigned joint = 0; joint <= std::min(kMaxJointMantissa, layout.mantissa) && head + joint <= top; ++joint) {
    for (const bool sign_apart : {true, false}) {
      if (sign_apart && layout.sign == 0) continue;
      std::vector<unsigned> widths;
      if (sign_apart) widths.push_back(layout.sign);
      widths.push_back(sign_apart ? layout.exponent + joint : head + joint);
      if (head + joint < top) widths.push_back(top - head - joint);
      if (auto way = split(stats, widths, frame_words)) out.push_back(std::move(*way));
    }
  }
  return out;
}

// Ways to cut small integers and anything else of up to 16 bits.
std::vector<Ranked> integer_splits(const StreamStats& stats, uint64_t frame_words) {
  std::vector<Ranked> out;
  if (auto whole = split(stats, {stats.top_bits()}, frame_words)) out.push_back(std::move(*whole));
  if (stats.top_bits() == 16)
    if (auto bytes = split(stats, {8, 8}, frame_words)) out.push_back(std::move(*bytes));
  return out;
}

bool is_incompressible(const Expr& expr) {
  return expr.op == OpId::literal && !expr.params.empty() &&
         (expr.params[0] == static_cast<uint64_t>(CodecId::packed) ||
          expr.params[0] == static_cast<uint64_t>(CodecId::raw));
}

// A cut of the top 16 bits, carried on below them: the low bits join an incompressible last field, and, as a second
// way, are cut into bytes of their own (quantised or truncated weights repeat there).
void extend(const Expr& top, unsigned width, std::vector<Expr>& out) {
  const unsigned low = width - 16;
  Expr bytes = top.op == OpId::merge ? top : Expr{OpId::merge, {16}, {top}};
  Expr joined = bytes;
  if (joined.children.size() > 1 && is_incompressible(joined.children.back())) {
    joined.params.back() += low;
    joined.children.back() = lit(CodecId::packed);
  } else {
    joined.params.push_back(low);
    joined.children.push_back(lit(CodecId::packed));
  }
  out.push_back(std::move(joined));
  for (unsigned done = 0; done < low; done += 8) {
    bytes.params.push_back(8);
    bytes.children.push_back(lit());
  }
  out.push_back(std::move(bytes));
}

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

// What words were before they were widened, and the operator's kind: the narrow width tells the layout.
void add_casts(const StreamStats& stats, uint64_t frame_words, std::vector<Expr>& out) {
  (void)frame_words;
  const auto& spec = dsl::spec_of(OpId::cast);
  for (size_t kind = 0; kind < stats.cast_image.size(); ++kind) {
    if (!stats.cast_image[kind]) continue;
    const dsl::Node node{OpId::cast, static_cast<uint8_t>(stats.width), {kind}, {}};
    const auto narrow = spec.child_widths(node, 1);
    if (!narrow) continue;
    const std::string_view name = spec.keywords[kind];
    const bool bf16 = name.substr(0, 4) == "bf16";
    const unsigned width = narrow->front();
    std::vector<Expr> inner;
    if (width == 32) {
      inner = {{OpId::merge, {1, 8, 23}, {lit(), lit(), lit()}}, {OpId::merge, {1, 10, 21}, {lit(), rank(63), lit()}}};
    } else if (width == 16) {
      const uint64_t exponent = bf16 ? 8 : 5, mantissa = bf16 ? 7 : 10;
      for (const uint64_t joint : {0, 1, 2, 3}) {
        const std::vector<uint64_t> widths{1, exponent + joint, mantissa - joint};
        inner.push_back({OpId::merge, widths, {lit(), lit(), lit()}});
        if (exponent + joint > 6) inner.push_back({OpId::merge, widths, {lit(), rank(63), lit()}});
        inner.push_back({OpId::merge, widths, {lit(), rank(31), lit()}});
      }
    } else {
      inner = {lit()};
    }
    for (auto& expr : inner) out.push_back({OpId::cast, {kind}, {std::move(expr)}});
  }
}

}  // namespace

std::vector<Expr> known_good(Dtype dtype, const StreamStats& stats, uint64_t frame_words, size_t limit) {
  std::vector<Expr> out;
  const Layout layout = layout_of(dtype);
  std::vector<Ranked> ranked = layout.exponent != 0 ? float_splits(stats, layout, frame_words) : std::vector<Ranked>{};
  for (auto& way : integer_splits(stats, frame_words)) ranked.push_back(std::move(way));
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) { return a.cost < b.cost; });
  if (ranked.size() > limit) ranked.resize(limit);
  add_casts(stats, frame_words, out);
  if (stats.width <= 16) {
    for (auto& way : ranked) out.push_back(std::move(way.expr));
  } else if (layout.exponent != 0) {
    for (auto& way : ranked) extend(way.expr, stats.width, out);
  }
  if (dtype == Dtype::C64) add_pair(stats.width, out);
  add_structured(stats.width, out);
  return out;
}

}  // namespace brevis::synth
