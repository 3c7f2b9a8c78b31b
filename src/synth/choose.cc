// SPDX-License-Identifier: Apache-2.0
#include "synth/choose.h"

#include <algorithm>

#include "dsl/encode.h"
#include "dsl/verify.h"
#include "synth/complete.h"
#include "synth/known_good.h"

namespace brevis::synth {
namespace {

using dsl::Expr;

constexpr uint64_t kSampleWords = 131072;  // in all; streams up to twice that are looked at whole
constexpr uint64_t kSampleWindows = 8;
constexpr size_t kPricedByStatistics = 3;  // known-good splits that get as far as the samples

struct Sample {
  std::vector<bits::OwnedWords> windows;
  std::vector<bits::ConstWords> views;
};

// Contiguous windows (neighbours matter to scans and zstd), spread evenly over the stream.
Result<Sample> draw(const Stream& stream, uint64_t frame_words) {
  Sample sample;
  uint64_t windows = kSampleWindows, size = kSampleWords / kSampleWindows;
  if (stream.words <= 2 * kSampleWords) {
    size = std::min(frame_words, stream.words);
    windows = (stream.words + size - 1) / size;
  }
  for (uint64_t w = 0; w < windows; ++w) {
    const bool whole = stream.words <= 2 * kSampleWords;
    const uint64_t first = whole ? w * size : (stream.words - size) / (windows - 1) * w;
    sample.windows.emplace_back(stream.width, std::min(size, stream.words - first));
    BREVIS_TRY(stream.read(first, sample.windows.back().words()));
  }
  for (auto& window : sample.windows) sample.views.push_back(window.view());
  return sample;
}

struct Candidate {
  Expr expr;
  uint64_t cost;
};

// The literal that expresses any stream.
Expr bare_literal() { return {dsl::OpId::literal, {static_cast<uint64_t>(codec::CodecId::raw)}, {}}; }

// Programs on the spine alone, for streams that need no data at all.
std::optional<Expr> computed(const StreamStats& stats) {
  if (stats.constant()) return Expr{dsl::OpId::constant, {stats.first}, {}};
  if (stats.ramp && stats.words >= 2) return Expr{dsl::OpId::ramp, {stats.first, stats.step}, {}};
  return std::nullopt;
}

Choice without_tables(dsl::Program program, uint64_t frame_bytes, uint64_t estimated) {
  Choice choice;
  for (const auto& region : program.regions())
    choice.frame_words.push_back(dsl::default_frame_words(program, region, frame_bytes));
  choice.tables.resize(program.slots().size());
  choice.program = std::make_shared<dsl::Program>(std::move(program));
  choice.estimated_bytes = estimated;
  return choice;
}

// Trains every region of a candidate over the whole stream. Known-good structures are one region; programs that a
// person gave may cut the stream by a skeleton, whose regions are contiguous parts.
Result<std::optional<Choice>> train_whole(const Stream& stream, const Expr& expr, const ChooseOptions& options) {
  auto program = dsl::build(stream.width, expr);
  if (!program) return std::optional<Choice>{};
  if (program->regions().size() != 1 || program->regions()[0].root != 0) return std::optional<Choice>{};
  Choice choice = without_tables(std::move(*program), options.frame_bytes, 0);
  const uint64_t frame_words = choice.frame_words[0];
  const uint64_t frames = (stream.words + frame_words - 1) / frame_words;
  bits::OwnedWords buffer(stream.width, std::min(frame_words, stream.words));
  BREVIS_ASSIGN(auto tables,
                dsl::train(*choice.program, 0, frames, frame_words, [&](uint64_t frame) -> Result<bits::ConstWords> {
                  const uint64_t first = frame * frame_words;
                  const auto part = buffer.words().part(0, std::min(frame_words, stream.words - first));
                  BREVIS_TRY(stream.read(first, part));
                  return bits::ConstWords(part);
                }));
  if (!tables) return std::optional<Choice>{};
  choice.tables = std::move(*tables);
  return std::optional<Choice>(std::move(choice));
}

}  // namespace

Result<Choice> choose(const Stream& stream, const StreamStats& stats, const ChooseOptions& options) {
  if (!options.wanted) {
    if (const auto expr = computed(stats)) {
      BREVIS_ASSIGN(auto program, dsl::build(stream.width, *expr));
      return without_tables(std::move(program), options.frame_bytes, 0);
    }
  }
  const uint64_t frame_words = std::max<uint64_t>(1, options.frame_bytes / (stream.width / 8));
  BREVIS_ASSIGN(const Sample sample, draw(stream, frame_words));
  std::vector<Candidate> candidates;
  auto consider = [&](const Expr& structure) {
    if (auto done = complete_sampled(structure, sample.views))
      candidates.push_back({std::move(done->expr), done->cost});
  };
  if (options.wanted) consider(options.wanted->expr());
  if (candidates.empty()) {
    for (const auto& structure : known_good(stream.dtype, stats, frame_words, kPricedByStatistics)) consider(structure);
    for (const auto& program : options.recent) consider(program->expr());
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.cost < b.cost; });
  uint64_t sampled = 0;
  for (const auto& view : sample.views) sampled += view.count;
  for (const auto& candidate : candidates) {
    BREVIS_ASSIGN(auto choice, train_whole(stream, candidate.expr, options));
    if (!choice) continue;
    const unsigned __int128 scaled = static_cast<unsigned __int128>(candidate.cost) * stream.words;
    choice->estimated_bytes = static_cast<uint64_t>(scaled / sampled / (256 * 8));
    return std::move(*choice);
  }
  BREVIS_ASSIGN(auto program, dsl::build(stream.width, bare_literal()));
  return without_tables(std::move(program), options.frame_bytes, stream.words * (stream.width / 8));
}

}  // namespace brevis::synth
