// SPDX-License-Identifier: Apache-2.0
#include "synth/spine.h"

#include <algorithm>

#include "base/checksum.h"
#include "dsl/verify.h"
#include "synth/sample.h"

namespace brevis::synth {
namespace {

constexpr uint64_t kChunkWords = 1u << 17;
constexpr uint64_t kLookWords = 64;     // at each place of a first look
constexpr uint64_t kLookPlaces = 8;     // of each piece
constexpr size_t kMaxChildren = 16;     // of an operator that is proposed
constexpr uint64_t kNearOf = 1024;      // costs that samples do not tell apart
constexpr uint64_t kSplitGainOf = 256;  // what cutting a stream up must promise

// Regions of an expression in program order, also those below other skeleton nodes.
template <class F>
void visit_regions(dsl::Expr& expr, F&& f) {
  const dsl::OpSpec& spec = dsl::spec_of(expr.op);
  if (spec.place == dsl::Place::region) return f(expr);
  for (dsl::Expr& child : expr.children) visit_regions(child, f);
}

dsl::Expr plain() { return {dsl::OpId::literal, {0}, {}}; }

}  // namespace

std::optional<Regions> Regions::of(const dsl::Program& program, const Stream& whole) {
  const auto lengths = dsl::region_lengths(program, whole.words);
  if (!lengths) return std::nullopt;
  Regions out;
  out.whole_ = &whole;
  out.extents_.resize(lengths->size());
  std::vector<uint64_t> frames = *lengths;
  for (uint64_t& frame : frames) frame = std::max<uint64_t>(1, frame);  // one frame a region
  const uint64_t bytes = whole.width / 8;
  if (!dsl::plan(program, whole.words, frames, {0, whole.words * bytes}, out.pieces_)) return std::nullopt;
  for (dsl::Piece& piece : out.pieces_) {
    piece.at /= bytes;
    piece.length /= bytes;
    piece.source /= bytes;
    if (piece.kind == dsl::Piece::Kind::frame)
      out.extents_[piece.region].push_back({piece.source, piece.at, piece.length});
    else
      out.saved_ += piece.length;
    if (piece.kind == dsl::Piece::Kind::ref) return std::nullopt;
  }
  for (size_t r = 0; r < lengths->size(); ++r) {  // every region stands in the stream once, front to back
    uint64_t at = 0;
    for (const Extent& extent : out.extents_[r]) {
      if (extent.first != at) return std::nullopt;
      at += extent.words;
    }
    if (at != (*lengths)[r]) return std::nullopt;
  }
  return out;
}

Stream Regions::region(size_t index) const {
  Stream out;
  out.dtype = whole_->dtype;
  out.width = whole_->width;
  for (const Extent& extent : extents_[index]) out.words += extent.words;
  // Whole rows remain rows.
  uint64_t row = 1;
  for (size_t i = 1; i < whole_->shape.size(); ++i) row *= whole_->shape[i];
  if (whole_->shape.size() > 1 && row != 0 && out.words % row == 0) {
    out.shape = whole_->shape;
    out.shape[0] = out.words / row;
  }
  out.read = [whole = whole_, extents = &extents_[index]](uint64_t first, bits::Words words) -> Status {
    uint64_t done = 0;
    for (const Extent& extent : *extents) {
      if (done == words.count) break;
      if (first + done >= extent.first + extent.words) continue;
      const uint64_t skip = first + done - extent.first;
      const uint64_t n = std::min<uint64_t>(words.count - done, extent.words - skip);
      BREVIS_TRY(whole->read(extent.at + skip, words.part(done, n)));
      done += n;
    }
    return {};
  };
  return out;
}

// Words [first, first + words) of the stream, which lie in the piece, are what the piece says.
Result<bool> Regions::piece_holds(const dsl::Piece& piece, uint64_t first, uint64_t words) const {
  if (piece.kind == dsl::Piece::Kind::frame) return true;
  bits::OwnedWords have(whole_->width, words);
  BREVIS_TRY(whole_->read(first, have.words()));
  if (piece.kind == dsl::Piece::Kind::copy) {
    bits::OwnedWords want(whole_->width, words);
    BREVIS_TRY(whole_->read(first - piece.source, want.words()));
    const auto a = have.view().byte_span(), b = want.view().byte_span();
    return std::equal(a.begin(), a.end(), b.begin());
  }
  const uint64_t mask = bits::low_mask(whole_->width);
  const uint64_t start = piece.source + (first - piece.at);
  for (size_t i = 0; i < words; ++i)
    if (have.view().at(i) != ((piece.value + (start + i) * piece.step) & mask)) return false;
  return true;
}

Result<bool> Regions::looks_true() const {
  for (const dsl::Piece& piece : pieces_) {
    const uint64_t words = std::min(kLookWords, piece.length);
    const uint64_t places = std::min(kLookPlaces, piece.length / words);
    for (uint64_t i = 0; i < places; ++i) {
      const uint64_t first = piece.at + (places == 1 ? 0 : (piece.length - words) / (places - 1) * i);
      BREVIS_ASSIGN(const bool holds, piece_holds(piece, first, words));
      if (!holds) return false;
    }
  }
  return true;
}

Result<std::optional<Regions::Truth>> Regions::is_true() const {
  DigestHasher all;
  std::vector<DigestHasher> of_regions(extents_.size());
  bits::OwnedWords buffer(whole_->width, std::min(kChunkWords, whole_->words));
  for (const dsl::Piece& piece : pieces_) {
    for (uint64_t at = piece.at; at < piece.at + piece.length; at += kChunkWords) {
      const uint64_t n = std::min(kChunkWords, piece.at + piece.length - at);
      const bits::Words part = buffer.words().part(0, n);
      BREVIS_TRY(whole_->read(at, part));
      all.update(part.byte_span());
      if (piece.kind == dsl::Piece::Kind::frame) {
        of_regions[piece.region].update(part.byte_span());
        continue;
      }
      BREVIS_ASSIGN(const bool holds, piece_holds(piece, at, n));
      if (!holds) return std::optional<Truth>{};
    }
  }
  Truth out{all.digest(), {}};
  for (const DigestHasher& hasher : of_regions) out.regions.push_back(hasher.digest());
  return std::optional(std::move(out));
}

Result<std::optional<Choice>> over_skeleton(const Stream& stream, const dsl::Expr& expr, bool free, bool prove,
                                            const ChooseRegion& choose_region) {
  dsl::Expr outline = expr;
  std::vector<dsl::Expr> inner;
  visit_regions(outline, [&](dsl::Expr& region) {
    inner.push_back(std::move(region));
    region = plain();
  });
  const auto program = dsl::build(stream.width, outline);
  if (!program) return std::optional<Choice>{};
  const auto regions = Regions::of(*program, stream);
  if (!regions) return std::optional<Choice>{};
  BREVIS_ASSIGN(const bool likely, regions->looks_true());
  if (!likely) return std::optional<Choice>{};
  if (prove) {
    BREVIS_ASSIGN(const auto truth, regions->is_true());
    if (!truth) return std::optional<Choice>{};
  }
  std::vector<Choice> choices;
  for (size_t r = 0; r < regions->count(); ++r) {
    const Stream region = regions->region(r);
    if (region.words == 0) return std::optional<Choice>{};
    BREVIS_ASSIGN(Choice choice, choose_region(region, free ? nullptr : &inner[r]));
    choices.push_back(std::move(choice));
  }
  Choice out;
  size_t next = 0;
  visit_regions(outline, [&](dsl::Expr& region) {
    Choice& choice = choices[next++];
    region = choice.program->expr();
    std::move(choice.tables.begin(), choice.tables.end(), std::back_inserter(out.tables));
    out.frame_words.insert(out.frame_words.end(), choice.frame_words.begin(), choice.frame_words.end());
    out.estimated_bytes += choice.estimated_bytes;
  });
  auto whole = dsl::build(stream.width, outline);
  if (!whole || whole->slots().size() != out.tables.size() || whole->regions().size() != out.frame_words.size())
    return std::optional<Choice>{};
  out.program = std::make_shared<dsl::Program>(std::move(*whole));
  return std::optional(std::move(out));
}

namespace {

// The expression of a production with holes for children; nullopt when no number of children fits.
std::optional<dsl::Expr> outline_of(const Production& production, unsigned width) {
  const dsl::OpSpec& spec = dsl::spec_of(production.op);
  const dsl::Node node{production.op, static_cast<uint8_t>(width), production.params, {}};
  for (size_t arity = 1; arity <= kMaxChildren; ++arity)
    if (spec.child_widths(node, arity))
      return dsl::Expr{production.op, production.params, std::vector<dsl::Expr>(arity, plain())};
  return std::nullopt;
}

// What the regions cost as plain literals, from samples, and how many words cost nothing.
struct Rough {
  uint64_t cost, free;
  // As cheap as samples can tell, the more words are free the better.
  bool beats(const Rough& other) const {
    if (cost + cost / kNearOf < other.cost) return true;
    return cost <= other.cost + other.cost / kNearOf && (free != other.free ? free > other.free : cost < other.cost);
  }
};

// Saved words are free. nullopt where nothing is saved and no region looks constant: other cuts seldom win and are dear
// to price.
Result<std::optional<Rough>> literal_cost(const Regions& regions, uint64_t frame_words, const SearchOptions& options) {
  Rough sum{0, regions.saved()};
  bool promising = regions.saved() != 0;
  for (size_t r = 0; r < regions.count() && !promising; ++r) {
    const Stream region = regions.region(r);
    if (region.words == 0) continue;
    BREVIS_ASSIGN(const Drawn drawn, draw_sample(region, frame_words, *options.effort));
    const uint64_t first = drawn.windows.front().words.at(0);
    promising = std::all_of(drawn.windows.begin(), drawn.windows.end(), [&](const dsl::Window& window) {
      for (size_t i = 0; i < window.words.count; ++i)
        if (window.words.at(i) != first) return false;
      return true;
    });
  }
  if (!promising) return std::optional<Rough>{};
  for (size_t r = 0; r < regions.count(); ++r) {
    const Stream region = regions.region(r);
    if (region.words == 0) continue;
    BREVIS_ASSIGN(const Drawn drawn, draw_sample(region, frame_words, *options.effort));
    TargetPool pool = pool_for(region, frame_words, drawn, options);
    const bool constant = pool.histogram(TargetPool::kRoot).counts.size() == 1;
    sum.cost += constant ? kNodeCost : pool.leaf(TargetPool::kRoot).cost;
    if (constant) sum.free += region.words;
    options.budget->spend(pool.work());
  }
  return std::optional(sum);
}

}  // namespace

Result<std::optional<Choice>> best_skeleton(const Stream& stream, uint64_t frame_words, uint64_t known,
                                            const SearchOptions& options, const ChooseRegion& choose_region) {
  BREVIS_ASSIGN(const Drawn drawn, draw_sample(stream, frame_words, *options.effort));
  dsl::Target target{stream.width, stream.dtype, stream.words, stream.shape, drawn.windows, nullptr};
  // All that a skeleton needs to know of counts is whether there are several words.
  codec::Histogram histogram{stream.width, {{drawn.windows.front().words.at(0), 1}}};
  for (const dsl::Window& window : drawn.windows)
    for (size_t i = 0; i < window.words.count && histogram.counts.size() == 1; ++i)
      if (window.words.at(i) != histogram.counts[0].first) histogram.counts.emplace_back(window.words.at(i), 1);
  std::sort(histogram.counts.begin(), histogram.counts.end());
  target.histogram = &histogram;
  const auto productions = options.grammar->skeleton(target);
  std::optional<std::pair<Rough, dsl::Expr>> best;
  for (const Production& production : productions) {
    const auto outline = outline_of(production, stream.width);
    if (!outline) continue;
    const auto program = dsl::build(stream.width, *outline);
    if (!program) continue;
    const auto regions = Regions::of(*program, stream);
    if (!regions) continue;
    BREVIS_ASSIGN(const bool likely, regions->looks_true());
    if (!likely) continue;
    BREVIS_ASSIGN(const auto cost, literal_cost(*regions, frame_words, options));
    if (cost && (!best || cost->beats(best->first))) best = {*cost, *outline};
  }
  if (!best) return std::optional<Choice>{};

  TargetPool pool = pool_for(stream, frame_words, drawn, options);
  options.budget->spend(pool.work());
  const uint64_t plain_cost = std::min(known, pool.leaf(TargetPool::kRoot).cost);
  if (best->first.cost + plain_cost / kSplitGainOf >= pool.leaf(TargetPool::kRoot).cost) return std::optional<Choice>{};
  BREVIS_ASSIGN(auto choice, over_skeleton(stream, best->second, true, true, choose_region));
  if (!choice || choice->estimated_bytes * 8 * 256 >= known) return std::optional<Choice>{};
  return choice;
}

}  // namespace brevis::synth
