// SPDX-License-Identifier: Apache-2.0
#include "synth/offsets.h"

#include <algorithm>

#include "bits/log2.h"
#include "dsl/offset_trial.h"

namespace brevis::synth {
namespace {

constexpr uint64_t kLeastWords = 2048;
constexpr uint64_t kWindowWords = 4096, kMostWindowWords = 8192, kWindows = 8;
constexpr uint64_t kWordsAStep = 16;                         // of a sample: fewer flatter
constexpr uint64_t kFitWords = 1u << 18, kMoveWords = 8192;  // of a stream that are read at a time
constexpr uint64_t kStepBits = 5;                            // what a step costs, roughly
constexpr uint64_t kGlanceWords = 512, kGlanceGainOf = 4;    // few words flatter
constexpr uint64_t kLeastGainOf = 64;                        // a sample has to promise one bit for so many words
constexpr unsigned kJointBits = 2;                           // of the mantissa, coded with the exponent

dsl::Node node_of(const Stream& stream, std::vector<uint64_t> params) {
  return {dsl::OpId::offset, static_cast<uint8_t>(stream.width), std::move(params), {1}};
}

struct Sample {
  std::vector<bits::OwnedWords> owned;
  std::vector<dsl::Window> windows;
  uint64_t words = 0;
};

Result<Sample> draw(const Stream& stream, uint64_t size) {
  const bool whole = stream.words <= kWindows * size;
  const uint64_t windows = whole ? (stream.words + size - 1) / size : kWindows;
  Sample sample;
  for (uint64_t w = 0; w < windows; ++w) {
    const uint64_t first = whole ? w * size : (stream.words - size) / (windows - 1) * w;
    BREVIS_ASSIGN(const bits::ConstWords words,
                  stream.at(first, std::min(size, stream.words - first), sample.owned.emplace_back()));
    sample.windows.push_back({first, words});
    sample.words += words.count;
  }
  return sample;
}

// 1/256 bits.
uint64_t entropy_of(const dsl::OffsetTrial::Counts& counts) {
  return bits::entropy_of(counts) >> (bits::kLog2Bits - 8);
}

using Axes = std::vector<std::pair<uint64_t, uint64_t>>;

Axes axes_of(const std::vector<uint64_t>& params) {
  Axes out;
  for (size_t i = 2; i + 1 < params.size(); i += 2) out.emplace_back(params[i], params[i + 1]);
  return out;
}

uint64_t steps_of(const std::vector<uint64_t>& params) {
  uint64_t steps = 0;
  for (size_t i = 3; i < params.size(); i += 2) steps += params[i];
  return steps;
}

// What the operator proposes for the shape; nothing where words are no floats, or few.
std::vector<dsl::Proposal> proposals_for(const Stream& stream) {
  std::vector<dsl::Proposal> proposals;
  const DtypeInfo& info = dtype_info(stream.dtype);
  const unsigned field = info.exponent_bits + std::min<unsigned>(kJointBits, info.mantissa_bits);
  if (!info.is_float() || stream.words < kLeastWords || stream.shape.empty() || info.word_bits() != stream.width ||
      field > 16)
    return proposals;
  dsl::Target target{stream.width, stream.dtype, stream.words, stream.shape, {}, nullptr};
  dsl::spec_of(dsl::OpId::offset).propose(target, proposals);
  return proposals;
}

}  // namespace

Result<std::optional<OffsetPromise>> promising_offset(const Stream& stream, bool at_a_glance) {
  std::optional<OffsetPromise> best;
  std::vector<dsl::Proposal> proposals = proposals_for(stream);
  if (proposals.empty()) return best;
  const uint64_t wanted = steps_of(proposals.front().params) * kWordsAStep / kWindows;
  BREVIS_ASSIGN(const Sample sample,
                draw(stream, at_a_glance ? kGlanceWords : std::clamp(wanted, kWindowWords, kMostWindowWords)));
  Axes axes;
  for (const dsl::Proposal& proposal : proposals)
    for (const auto& axis : axes_of(proposal.params))
      if (std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
  const auto& field = proposals.front().params;
  dsl::OffsetTrial trial(static_cast<unsigned>(field[0]), static_cast<unsigned>(field[1]), sample.windows, axes);
  const auto whole = [&](uint64_t cost) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(cost) * stream.words / sample.words);
  };
  const uint64_t plain = whole(entropy_of(trial.plain()));
  uint64_t least = plain - std::min(plain, stream.words * 256 / (at_a_glance ? kGlanceGainOf : kLeastGainOf));
  for (size_t i = 0; i < proposals.size(); ++i) {
    const uint64_t moved = whole(entropy_of(trial.moved(axes_of(proposals[i].params))));
    // The first takes the most axes: where it wins nothing, fewer do not either.
    if (i == 0 && moved >= least) return best;
    const uint64_t sum = moved + steps_of(proposals[i].params) * kStepBits * 256;
    if (sum >= least) continue;
    least = sum;
    best = OffsetPromise{std::move(proposals[i].params), plain, moved, 0};
  }
  if (best && !at_a_glance && stream.words >= kLeastDealt)
    for (const auto& counts : trial.dealt(axes_of(best->params))) best->dealt += whole(entropy_of(counts));
  return best;
}

Result<Shifted> shift_whole(const Stream& stream, const std::vector<uint64_t>& params, unsigned counted) {
  const auto& spec = dsl::spec_of(dsl::OpId::offset);
  const dsl::Node node = node_of(stream, params);
  bits::OwnedWords buffer;
  const auto each = [&](uint64_t step, auto&& use) -> Status {
    for (uint64_t first = 0; first < stream.words; first += step) {
      BREVIS_ASSIGN(const bits::ConstWords words, stream.at(first, std::min(step, stream.words - first), buffer));
      BREVIS_TRY(use(first, words));
    }
    return {};
  };
  const auto fitter = spec.fit(node);
  BREVIS_TRY(each(kFitWords, [&](uint64_t first, bits::ConstWords words) -> Status {
    fitter->add(first, words);
    return {};
  }));
  ByteVector stored = fitter->finish();
  BREVIS_ASSIGN(const auto blob, spec.load(node, stored));
  Gathering left(stream.width, counted);
  std::vector<bits::OwnedWords> children;
  std::vector<uint64_t> counts;
  BREVIS_TRY(each(kMoveWords, [&](uint64_t first, bits::ConstWords words) -> Status {
    BREVIS_TRY(spec.invert({node, nullptr, first, {}, blob.get()}, words, children, counts));
    left.add(children[0].view());
    return {};
  }));
  return Shifted{params, std::move(stored), left.take()};
}

}  // namespace brevis::synth
