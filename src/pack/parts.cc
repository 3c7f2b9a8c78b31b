// SPDX-License-Identifier: Apache-2.0
#include "pack/parts.h"

#include <algorithm>
#include <bit>

#include "dsl/verify.h"
#include "synth/known_good.h"

namespace brevis::pack {
namespace {

using dsl::Expr;
using dsl::OpId;

constexpr uint64_t kStreamCost = 2 * kByteCost;  // of a frame, beside payload

const Expr& packed() {
  static const Expr expr{OpId::literal, {static_cast<uint64_t>(codec::CodecId::packed)}, {}};
  return expr;
}

// Cut where it is cheapest: the top by an alphabet, the rest as it is. Steps have no fixed exponent to cut at.
void cut_anywhere(synth::Fields& fields, uint64_t frames, Part& best) {
  const synth::StreamStats& stats = fields.stats();
  for (unsigned top = 4; top < stats.width && top <= stats.top_bits(); ++top) {
    const uint64_t rest = stats.words * (stats.width - top) * 256 + frames * kStreamCost;
    if (rest >= best.cost) continue;
    auto done = fields.best(0, top, best.cost - rest);
    if (!done || done->cost + rest >= best.cost) continue;
    best = {{OpId::merge, {top, stats.width - top}, {std::move(done->expr), packed()}}, {}, done->cost + rest};
  }
}

}  // namespace

Result<std::optional<Part>> code_words(Dtype dtype, bool is_step, const synth::StreamStats& stats, uint64_t frames,
                                       uint64_t frame_words, const dsl::FrameWords& read) {
  if (stats.words == 0) return std::optional(Part{{OpId::constant, {0}, {}}, {}, 0});
  if (stats.constant()) return std::optional(Part{{OpId::constant, {stats.first}, {}}, {}, 0});
  // A stream of its own in every frame is what few words pay for first.
  Part part{packed(), {}, 0};
  part.cost = stats.words * static_cast<uint64_t>(std::bit_width(stats.or_mask)) * 256 + frames * kStreamCost;
  synth::Fields fields(stats, std::max<uint64_t>(1, stats.words / frames));
  auto structures = synth::known_good(dtype, fields, 1, {}, part.cost);
  if (!structures.empty() && structures.front().cost && *structures.front().cost < part.cost)
    part = {std::move(structures.front().expr), {}, *structures.front().cost};
  if (is_step) cut_anywhere(fields, frames, part);
  BREVIS_ASSIGN(const auto program, dsl::build(stats.width, part.expr));
  if (stats.width <= 16) {
    BREVIS_ASSIGN(auto estimated, dsl::estimate(program, 0, stats.field(0, stats.width)));
    if (!estimated) return std::optional<Part>{};
    part.tables = std::move(estimated->tables);
    return std::optional(std::move(part));
  }
  BREVIS_ASSIGN(auto tables, dsl::train(program, 0, frames, frame_words, read));
  if (!tables) return std::optional<Part>{};
  part.tables = std::move(*tables);
  return std::optional(std::move(part));
}

}  // namespace brevis::pack
