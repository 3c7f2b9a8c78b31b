// SPDX-License-Identifier: Apache-2.0
#include "synth/known_good.h"

#include <algorithm>
#include <iterator>

#include "dsl/op.h"

namespace brevis::synth {
namespace {

using codec::CodecId;
using dsl::Expr;
using dsl::OpId;

Expr lit() { return {OpId::literal, {}, {}}; }
Expr lit(CodecId codec) { return {OpId::literal, {static_cast<uint64_t>(codec)}, {}}; }
Expr rank(uint64_t size) { return {OpId::rank, {size}, {lit(), lit(), lit()}}; }

// How a dtype's word is cut: sign, exponent, mantissa bits from the top; integers are (0, 0, width).
struct Layout {
  unsigned sign, exponent, mantissa;
};

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
void extend(Fields& known, const Ranked& fields, std::vector<Ranked>& out) {
  const StreamStats& stats = known.stats();
  const unsigned low = stats.low_bits();
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
  if (stats.low_bytes() == 0) return;
  Ranked bytes = fields;
  for (unsigned byte = 0; byte < stats.low_bytes(); ++byte) {
    auto field = known.best(stats.top_bits() + 8 * byte, 8);
    if (!field) return;
    add_field(bytes, 8, std::move(*field));
  }
  out.push_back(std::move(bytes));
}

// A cut into fields of these widths, most significant first; nullopt when its top bits cost `limit` or more.
std::optional<Cut> split(Fields& known, const std::vector<unsigned>& widths, uint64_t limit) {
  uint64_t least = 0, entropy = 0;
  unsigned from_top = 0;
  for (const unsigned width : widths) {
    entropy += known.entropy(from_top, width);
    from_top += width;
    if (entropy >= limit) return std::nullopt;
  }
  from_top = 0;
  for (const unsigned width : widths) {
    if (known.reaches(from_top, width, limit - least)) return std::nullopt;
    least += known.least(from_top, width);
    from_top += width;
  }
  Ranked fields{{OpId::merge, {}, {}}, 0};
  from_top = 0;
  for (const unsigned width : widths) {
    if (fields.cost >= limit) return std::nullopt;
    auto field = known.best(from_top, width, limit - fields.cost);
    if (!field) return std::nullopt;
    add_field(fields, width, std::move(*field));
    from_top += width;
  }
  Cut out{fields, {}};
  if (fields.expr.children.size() == 1) out.top.expr = Expr(fields.expr.children.front());
  if (known.stats().low_bits() == 0) {
    out.whole.push_back(out.top);
  } else {
    extend(known, fields, out.whole);
  }
  return out;
}

// Cuts much dearer than the best so far are not worth finishing. Where one is wanted no dearer one is: what the bits
// below cost is the same for all.
constexpr uint64_t kSlackOf = 32;

class Cuts {
 public:
  // `below`: what the whole word may cost.
  Cuts(Fields& fields, bool only_best, uint64_t below)
      : fields_(fields),
        exact_(only_best),
        best_(fields.stats().low_bytes() != 0 || below == UINT64_MAX ? UINT64_MAX
                                                                     : below - std::min(below, low_cost())) {}

  void add(const std::vector<unsigned>& widths) {
    const uint64_t limit = best_ == UINT64_MAX || exact_ ? best_ : best_ + best_ / kSlackOf;
    auto cut = split(fields_, widths, limit);
    if (!cut) return;
    best_ = std::min(best_, cut->top.cost);
    cuts_.push_back(std::move(*cut));
  }

  // Joint coding of two top mantissa bits is the likeliest winner, so it comes first and prunes the others.
  void add_float(const Layout& layout) {
    const unsigned top = fields_.stats().top_bits(), head = layout.sign + layout.exponent;
    // The widest field first: all others are folded from it.
    fields_.histogram(0, std::min(top, head + std::min(4u, layout.mantissa)));
    if (head < top) fields_.histogram(head, top - head);
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
    add({fields_.stats().top_bits()});
    if (fields_.stats().top_bits() == 16) add({8, 8});
  }

  std::vector<Cut> take() { return std::move(cuts_); }

 private:
  // Of the bits below that are stored as they are, whatever the cut.
  uint64_t low_cost() const { return uint64_t{256} * fields_.stats().low_bits() * fields_.stats().words; }

  Fields& fields_;
  const bool exact_;
  uint64_t best_;
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

// Structures that statistics do not price: sizes come from samples. Bytes apart, each in whatever codec suits it.
void add_structured(unsigned width, const Hints& hints, std::vector<Expr>& out) {
  const Expr plain = width == 8 ? lit() : byte_split(width, lit());
  if (hints.repeats) {
    if (width != 8) out.push_back(lit(CodecId::zstd));  // the open literal has it
    out.push_back(plain);
  }
  if (hints.deltas && width != 8) out.push_back({OpId::scan, {1, 1}, {lit(CodecId::raw), plain}});
  if (hints.words) {
    out.push_back(lit());
    out.push_back(rank(63));
  }
  if (hints.zeros) out.push_back({OpId::zeros, {}, {lit(), plain}});
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

// Whether a histogram tells all that a field coded so costs.
bool counts_tell(const Expr& field) {
  if (field.op == OpId::literal) return !field.params.empty() && !codec::find_codec(field.params.front())->by_order;
  if (field.children.empty()) return field.op == OpId::constant;
  return dsl::spec_of(field.op).push_down != nullptr &&
         std::all_of(field.children.begin(), field.children.end(), counts_tell);
}

}  // namespace

std::vector<Structure> known_good(Dtype dtype, Fields& fields, size_t limit, const Hints& hints, uint64_t below) {
  const StreamStats& stats = fields.stats();
  const Layout layout = layout_of(dtype);
  Cuts gathered(fields, limit == 1, below);
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
  add_structured(stats.width, hints, structured);
  for (auto& expr : structured) sampled.push_back({std::move(expr), std::nullopt});
  std::move(sampled.begin(), sampled.end(), std::back_inserter(priced));
  return priced;
}

std::optional<Structure> cut_like(const Expr& like, Fields& fields, uint64_t below) {
  const bool is_cut =
      like.op == OpId::merge ? std::all_of(like.children.begin(), like.children.end(), counts_tell) : counts_tell(like);
  if (!is_cut) return std::nullopt;
  const unsigned top = fields.stats().top_bits();
  std::vector<unsigned> widths;
  unsigned left = top;
  for (const uint64_t width : like.op == OpId::merge ? like.params : std::vector<uint64_t>{top}) {
    if (left == 0) break;  // the low bits may be cut in other ways here
    widths.push_back(std::min(static_cast<unsigned>(width), left));
    left -= widths.back();
  }
  if (left != 0) return std::nullopt;
  auto cut = split(fields, widths, below);
  if (!cut) return std::nullopt;
  Ranked& best = *std::min_element(cut->whole.begin(), cut->whole.end(),
                                   [](const Ranked& a, const Ranked& b) { return a.cost < b.cost; });
  if (best.cost >= below) return std::nullopt;
  return Structure{std::move(best.expr), best.cost};
}

Expr turned_for_repeats(Dtype dtype, unsigned width, uint64_t rows, uint64_t columns) {
  const Layout layout = layout_of(dtype);
  const Expr zstd = lit(CodecId::zstd);
  const bool cut = layout.sign != 0 && layout.sign + layout.exponent + layout.mantissa == width;
  Expr words = cut ? Expr{OpId::merge, {layout.sign, layout.exponent, layout.mantissa}, {zstd, zstd, zstd}} : zstd;
  return {OpId::transpose, {rows, columns}, {std::move(words)}};
}

std::vector<Structure> known_good(Dtype dtype, const StreamStats& stats, uint64_t frame_words, size_t limit) {
  Fields fields(stats, frame_words);
  return known_good(dtype, fields, limit);
}

std::optional<uint64_t> cost_by_stats(const Expr& expr, const StreamStats& stats, uint64_t frame_words) {
  Fields fields(stats, frame_words);
  return cost_by_stats(expr, fields);
}

uint64_t entropy_by_stats(const StreamStats& stats) {
  Fields fields(stats, 0);
  return entropy_by_stats(fields);
}

}  // namespace brevis::synth
