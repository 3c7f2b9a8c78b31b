// SPDX-License-Identifier: Apache-2.0
#include "synth/candidates.h"

#include <algorithm>

#include "dsl/op.h"
#include "synth/complete.h"
#include "synth/kin.h"
#include "synth/known_good.h"
#include "synth/table_sets.h"

namespace brevis::synth {
namespace {

using dsl::Expr;

constexpr uint64_t kSampleWords = 131072;  // in all, without a search; streams up to twice that are looked at whole
constexpr uint64_t kSampleWindows = 8;
constexpr size_t kProbeWords = 4096;  // of each of two windows: a first look at structures that need samples
constexpr size_t kProbeWindows = 2;
constexpr size_t kAfterProbe = 3;     // of them that are looked at closely
constexpr uint64_t kProbeMargin = 8;  // those within an eighth of the best: short windows exaggerate tables
constexpr uint64_t kQualityOne = 65536;

uint64_t scale(uint64_t cost, uint64_t to, uint64_t from) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(cost) * to / from);
}

}  // namespace

Expr bare_literal() { return {dsl::OpId::literal, {static_cast<uint64_t>(codec::CodecId::raw)}, {}}; }

Result<Look> draw(const Stream& stream, uint64_t frame_words, const ChooseOptions& options) {
  const uint64_t all = options.search ? options.search->effort->structure_words : kSampleWords;
  Look sample;
  uint64_t windows = kSampleWindows, size = all / kSampleWindows;
  if (stream.words <= 2 * all) {
    size = std::min(frame_words, stream.words);
    windows = (stream.words + size - 1) / size;
  }
  for (uint64_t w = 0; w < windows; ++w) {
    const bool whole = stream.words <= 2 * all;
    const uint64_t first = whole ? w * size : (stream.words - size) / (windows - 1) * w;
    BREVIS_ASSIGN(const bits::ConstWords words,
                  stream.at(first, std::min(size, stream.words - first), sample.windows.emplace_back()));
    sample.placed.push_back({first, words});
    sample.views.push_back(words);
  }
  return sample;
}

std::optional<Candidate> price(const Expr& structure, std::span<const dsl::Window> windows, uint64_t words,
                               uint64_t limit, bool quick) {
  uint64_t sampled = 0;
  for (const auto& window : windows) sampled += window.words.count;
  auto done =
      complete_sampled(structure, windows, limit == UINT64_MAX ? limit : scale(limit, sampled, words) + 1, quick);
  if (!done) return std::nullopt;
  return Candidate{std::move(done->expr), scale(done->cost, words, sampled), true};
}

namespace {

// Structures that need samples and that a short probe likes; `known`: what the stream costs without them.
std::vector<const Expr*> probe(const std::vector<const Expr*>& structures, const Look& sample, uint64_t words,
                               uint64_t known) {
  if (words <= 2 * kProbeWindows * kProbeWords) return structures;
  std::vector<dsl::Window> windows;
  for (size_t i = 0; i < std::min(kProbeWindows, sample.placed.size()); ++i)
    windows.push_back(
        {sample.placed[i].position, sample.views[i].part(0, std::min(kProbeWords, sample.views[i].count))});
  std::vector<std::pair<uint64_t, size_t>> costs;
  uint64_t best = known;
  const auto limit = [&] { return best == UINT64_MAX ? best : best + best / kProbeMargin; };
  for (size_t i = 0; i < structures.size(); ++i)
    if (const auto candidate = price(*structures[i], windows, words, limit(), true)) {
      costs.emplace_back(candidate->cost, i);
      best = std::min(best, candidate->cost);
    }
  std::sort(costs.begin(), costs.end());
  std::vector<const Expr*> out;
  for (const auto& [cost, i] : costs)
    if (cost <= limit() && out.size() < kAfterProbe) out.push_back(structures[i]);
  return out;
}

// What is best for a part of the stream on its own may be best for all parts with tables of their own.
std::vector<Candidate> parts_candidates(const Stream& stream, const StreamStats& stats, uint64_t frame_words,
                                        std::span<const StreamStats> parts) {
  std::vector<Candidate> out;
  for (const StreamStats& part : parts) {
    const auto structures = known_good(stream.dtype, part, frame_words, 1);
    if (!structures.front().cost) continue;
    const Expr& expr = structures.front().expr;
    const auto whole = complete_order0(expr, stats.field(0, stats.width), frame_words);
    const auto apart = cost_by_parts(expr, parts, frame_words);
    if (whole && apart) out.push_back({expr, std::min(whole->cost, *apart)});
  }
  return out;
}

// Differences to an earlier row or word, where the operator itself finds a stride that promises something.
std::vector<Expr> scans(const Stream& stream, Fields& fields, const Look& sample) {
  dsl::Target target{stream.width, stream.dtype, stream.words, stream.shape, sample.placed, nullptr};
  target.histogram = &fields.histogram(0, fields.stats().top_bits());
  std::vector<dsl::Proposal> proposals;
  dsl::spec_of(dsl::OpId::scan).propose(target, proposals);
  const Expr open{dsl::OpId::literal, {}, {}};
  std::vector<Expr> out;
  for (const dsl::Proposal& proposal : proposals) {
    out.push_back({dsl::OpId::scan, proposal.params, {bare_literal(), open}});
    if (stream.width == 8) continue;
    const std::vector<uint64_t> bytes(stream.width / 8, 8);
    out.push_back({dsl::OpId::scan,
                   proposal.params,
                   {bare_literal(), {dsl::OpId::merge, bytes, std::vector<Expr>(bytes.size(), open)}}});
  }
  return out;
}

// Scales and lists of the few words of each block, where the operators themselves find blocks that promise something.
// They are seen in whole frames only, since blocks may be of many rows.
Status add_blocks(const Stream& stream, Fields& fields, uint64_t known, std::vector<Candidate>& out) {
  constexpr uint64_t kFrames = 2;
  if (stream.shape.size() < 2 || stream.width < 16) return {};
  Look sample;
  const uint64_t frame = std::min(fields.frame_words(), stream.words);
  const uint64_t frames = std::min(kFrames, (stream.words + frame - 1) / frame);
  for (uint64_t f = 0; f < frames; ++f) {
    const uint64_t first = (stream.words - 1) / frame * (f + 1) / (frames + 1) * frame;
    BREVIS_ASSIGN(const bits::ConstWords words,
                  stream.at(first, std::min(frame, stream.words - first), sample.windows.emplace_back()));
    sample.placed.push_back({first, words});
  }
  dsl::Target target{stream.width, stream.dtype, stream.words, stream.shape, sample.placed, nullptr};
  target.histogram = &fields.histogram(0, fields.stats().top_bits());
  const Expr open{dsl::OpId::literal, {}, {}};
  // Most scales have few digits behind the leading one.
  const Expr scales{dsl::OpId::merge, {12, 11, 9}, {open, open, open}};
  const std::pair<dsl::OpId, std::vector<Expr>> ways[] = {{dsl::OpId::dequantise, {scales, open, open}},
                                                          {dsl::OpId::levels, {open, open, open, open}}};
  for (const auto& [op, children] : ways) {
    std::vector<dsl::Proposal> proposals;
    dsl::spec_of(op).propose(target, proposals);
    for (dsl::Proposal& proposal : proposals) {
      auto candidate = price({op, std::move(proposal.params), children}, sample.placed, stream.words, known);
      if (!candidate) continue;
      known = candidate->cost;
      out.push_back(std::move(*candidate));
    }
  }
  return {};
}

}  // namespace

uint64_t quality_of(uint64_t cost, uint64_t entropy) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(cost) * kQualityOne / entropy);
}

bool moves_fields(dsl::OpId op) { return op == dsl::OpId::offset || op == dsl::OpId::select; }

bool follows_mate(const ChooseOptions& options, uint64_t entropy, uint64_t words) {
  return options.mate && (!options.search || options.search->effort->follows_mates) &&
         resembles(entropy / words, options.mate->entropy);
}

bool follows_offset(const ChooseOptions& options, uint64_t entropy, const Stream& stream) {
  return stream.width <= 16 && follows_mate(options, entropy, stream.words) && moves_fields(options.mate->expr.op);
}

const Expr& cut_of(const Expr& program) {
  const Expr* inner = &program;
  while (moves_fields(inner->op) || inner->op == dsl::OpId::context) {
    const auto& hands = inner->children;
    const auto tells =
        std::find_if(hands.begin(), hands.end(), [](const Expr& hand) { return hand.op != dsl::OpId::constant; });
    inner = tells == hands.end() ? &hands.front() : &*tells;
  }
  return *inner;
}

std::optional<Candidate> mate_candidate(Fields& fields, const ChooseOptions& options) {
  if (!options.mate) return std::nullopt;
  auto cut = cut_like(cut_of(options.mate->expr), fields);
  return cut ? std::optional(Candidate{std::move(cut->expr), *cut->cost}) : std::nullopt;
}

namespace {

constexpr uint64_t kCountBytes = 3;        // a data-dependent length, a frame each
constexpr uint64_t kReadWords = 1u << 16;  // of a stream at a time

// The best known structure for the words that are not zero, by statistics of their own, beside a sampled mask.
Result<std::optional<Candidate>> without_zeros(const Stream& stream, Fields& fields, const Look& sample) {
  const dsl::OpSpec& spec = dsl::spec_of(dsl::OpId::zeros);
  const dsl::Node node{dsl::OpId::zeros, static_cast<uint8_t>(stream.width), {}, {0, 0}};
  const dsl::NodeArgs args{node, nullptr, 0, {}, nullptr};
  std::vector<bits::OwnedWords> children;
  std::vector<uint64_t> counts;
  Gathering gathering(stream.width, telling_bits(stream.dtype, fields));
  bits::OwnedWords buffer;
  for (uint64_t first = 0; first < stream.words; first += kReadWords) {
    BREVIS_ASSIGN(const bits::ConstWords words, stream.at(first, std::min(kReadWords, stream.words - first), buffer));
    BREVIS_TRY(spec.invert(args, words, children, counts));
    gathering.add(children[1].view());
  }
  const StreamStats stats = gathering.take();
  if (stats.words == 0 || stats.constant()) return std::optional<Candidate>{};
  const uint64_t frames = (stream.words + fields.frame_words() - 1) / fields.frame_words();
  Fields rest(stats, std::max<uint64_t>(1, (stats.words + frames - 1) / frames));
  std::vector<Structure> structures = known_good(stream.dtype, rest, 1, kNoHints);
  if (structures.empty() || !structures.front().cost) return std::optional<Candidate>{};
  std::vector<bits::OwnedWords> masks;
  std::vector<bits::ConstWords> views;
  uint64_t sampled = 0;
  for (const auto& words : sample.views) {
    BREVIS_TRY(spec.invert(args, words, children, counts));
    sampled += words.count;
    masks.push_back(std::move(children[0]));
  }
  for (const auto& mask : masks) views.push_back(mask.view());
  auto mask = complete_sampled({dsl::OpId::literal, {}, {}}, views);
  if (!mask) return std::optional<Candidate>{};
  const uint64_t cost =
      scale(mask->cost, stream.words, sampled) + *structures.front().cost + frames * kCountBytes * 8 * 256;
  return std::optional(
      Candidate{{dsl::OpId::zeros, {}, {std::move(mask->expr), std::move(structures.front().expr)}}, cost, true});
}

// Those of known_good() and of scans, priced on samples, that cost less than what is known already.
Status add_sampled(const Stream& stream, Fields& fields, const Look& seen, std::vector<const Expr*> unpriced,
                   bool zeros, const ChooseOptions& options, std::vector<Candidate>& out) {
  const std::vector<Expr> differences = scans(stream, fields, seen);
  for (const Expr& structure : differences) unpriced.push_back(&structure);
  if (unpriced.empty()) return {};
  uint64_t known = UINT64_MAX;
  for (const Candidate& candidate : out) known = std::min(known, candidate.cost);
  BREVIS_ASSIGN(const Look sample, draw(stream, fields.frame_words(), options));
  for (const Expr* structure : probe(unpriced, sample, stream.words, known)) {
    auto candidate = price(*structure, sample.placed, stream.words, known);
    if (!candidate) continue;
    known = std::min(known, candidate->cost);
    out.push_back(std::move(*candidate));
  }
  if (!zeros || stream.width < 8) return {};
  BREVIS_ASSIGN(auto apart, without_zeros(stream, fields, sample));
  if (apart && apart->cost < known) out.push_back(std::move(*apart));
  return {};
}

}  // namespace

Result<std::vector<Candidate>> known_candidates(const Stream& stream, Fields& fields, bool plain,
                                                const ChooseOptions& options) {
  const auto& parts = options.parts;
  Look seen;
  Hints hints = kNoHints;
  if (!plain) {
    BREVIS_ASSIGN(seen, look(stream));
    hints = take_hints(seen, fields.stats());
  }
  const uint64_t frame_words = fields.frame_words();
  const size_t limit = parts.empty() ? 1 : kPricedByStatistics;
  std::vector<Candidate> out = parts_candidates(stream, fields.stats(), frame_words, parts);
  uint64_t below = UINT64_MAX;
  if (auto like = parts.empty() ? mate_candidate(fields, options) : std::nullopt) {
    below = like->cost;
    out.push_back(std::move(*like));
  }
  const std::vector<Structure> structures = known_good(stream.dtype, fields, limit, hints, below);
  std::vector<const Expr*> unpriced;
  for (const Structure& structure : structures) {
    if (structure.cost) {
      const uint64_t apart =
          parts.empty() ? UINT64_MAX : cost_by_parts(structure.expr, parts, frame_words).value_or(UINT64_MAX);
      out.push_back({structure.expr, std::min(apart, *structure.cost)});
    } else {
      unpriced.push_back(&structure.expr);
    }
  }
  if (!plain) {
    BREVIS_TRY(add_sampled(stream, fields, seen, std::move(unpriced), hints.zeros, options, out));
    uint64_t known = UINT64_MAX;
    for (const Candidate& candidate : out) known = std::min(known, candidate.cost);
    BREVIS_TRY(add_blocks(stream, fields, known, out));
  }
  std::stable_sort(out.begin(), out.end(), [](const Candidate& a, const Candidate& b) { return a.cost < b.cost; });
  return out;
}

}  // namespace brevis::synth
