// SPDX-License-Identifier: Apache-2.0
#include "synth/offsets.h"

#include <algorithm>

#include "bits/kernels.h"
#include "dsl/histogram.h"
#include "synth/complete.h"

namespace brevis::synth {
namespace {

constexpr uint64_t kLeastWords = 2048;
constexpr uint64_t kWindowWords = 8192, kWindows = 8;      // streams up to that are looked at whole
constexpr uint64_t kStepBits = 5;                          // what a step costs, roughly
constexpr uint64_t kGlanceWords = 512, kGlanceGainOf = 4;  // few words flatter
constexpr uint64_t kLeastGainOf = 64;                      // a sample has to promise one bit for so many words
constexpr unsigned kJointBits = 2;                         // of the mantissa, coded with the exponent

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
    sample.owned.emplace_back(stream.width, std::min(size, stream.words - first));
    BREVIS_TRY(stream.read(first, sample.owned.back().words()));
    sample.windows.push_back({first, sample.owned.back().view()});
    sample.words += sample.owned.back().count();
  }
  return sample;
}

// What the exponents with the bits below them cost at their entropy, 1/256 bits.
class FieldCost {
 public:
  explicit FieldCost(const DtypeInfo& info)
      : shift_(info.mantissa_bits - std::min<unsigned>(kJointBits, info.mantissa_bits)),
        counter_(info.exponent_bits + info.mantissa_bits - shift_) {}
  void add(bits::ConstWords words) {
    bits::OwnedWords field(counter_.width(), words.count);
    bits::kernels().take_field(words, shift_, field.words());
    counter_.add(field.view());
  }
  uint64_t cost() { return entropy_cost(counter_.histogram()); }

 private:
  unsigned shift_;
  dsl::Counter counter_;
};

// The entropy of the sample's fields after the offset that fits it best; nullopt where there is none.
std::optional<uint64_t> cost_after(const Stream& stream, const Sample& sample, const std::vector<uint64_t>& params) {
  const auto& spec = dsl::spec_of(dsl::OpId::offset);
  const dsl::Node node = node_of(stream, params);
  const auto fitter = spec.fit(node);
  for (const dsl::Window& window : sample.windows) fitter->add(window.position, window.words);
  const auto blob = spec.load(node, fitter->finish());
  if (!blob) return std::nullopt;
  FieldCost cost(dtype_info(stream.dtype));
  for (const dsl::Window& window : sample.windows) {
    std::vector<bits::OwnedWords> children;
    std::vector<uint64_t> counts;
    const auto fits = spec.invert({node, nullptr, window.position, {}, blob->get()}, window.words, children, counts);
    if (!fits || !*fits) return std::nullopt;
    cost.add(children[0].view());
  }
  return cost.cost();
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

bool offset_suits(const Stream& stream, const std::vector<uint64_t>& params) {
  const std::vector<dsl::Proposal> proposals = proposals_for(stream);
  return std::any_of(proposals.begin(), proposals.end(),
                     [&](const dsl::Proposal& proposal) { return proposal.params == params; });
}

Result<std::optional<std::vector<uint64_t>>> promising_offset(const Stream& stream, bool at_a_glance) {
  std::optional<std::vector<uint64_t>> best;
  const std::vector<dsl::Proposal> proposals = proposals_for(stream);
  if (proposals.empty()) return best;
  BREVIS_ASSIGN(const Sample sample, draw(stream, at_a_glance ? kGlanceWords : kWindowWords));
  FieldCost plain(dtype_info(stream.dtype));
  for (const dsl::Window& window : sample.windows) plain.add(window.words);
  // In 1/256 bits of the whole stream.
  const auto whole = [&](uint64_t cost) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(cost) * stream.words / sample.words);
  };
  uint64_t least = whole(plain.cost());
  least -= std::min(least, stream.words * 256 / (at_a_glance ? kGlanceGainOf : kLeastGainOf));
  for (size_t i = 0; i < proposals.size(); ++i) {
    const auto cost = cost_after(stream, sample, proposals[i].params);
    if (!cost) continue;
    // The first takes the most axes: where it wins nothing, fewer do not either.
    if (i == 0 && whole(*cost) >= least) return best;
    const uint64_t sum = whole(*cost) + steps_of(proposals[i].params) * kStepBits * 256;
    if (sum >= least) continue;
    least = sum;
    best = proposals[i].params;
  }
  return best;
}

Result<std::optional<Shifted>> shift_whole(const Stream& stream, const std::vector<uint64_t>& params,
                                           uint64_t frame_words) {
  const auto& spec = dsl::spec_of(dsl::OpId::offset);
  const dsl::Node node = node_of(stream, params);
  bits::OwnedWords buffer(stream.width, std::min(frame_words, stream.words));
  const auto each = [&](auto&& use) -> Status {
    for (uint64_t first = 0; first < stream.words; first += frame_words) {
      const auto part = buffer.words().part(0, std::min(frame_words, stream.words - first));
      BREVIS_TRY(stream.read(first, part));
      BREVIS_TRY(use(first, bits::ConstWords(part)));
    }
    return {};
  };
  const auto fitter = spec.fit(node);
  BREVIS_TRY(each([&](uint64_t first, bits::ConstWords words) -> Status {
    fitter->add(first, words);
    return {};
  }));
  ByteVector stored = fitter->finish();
  BREVIS_ASSIGN(const auto blob, spec.load(node, stored));
  Shifted out{params, std::move(stored), {}};
  BREVIS_TRY(each([&](uint64_t first, bits::ConstWords words) -> Status {
    std::vector<bits::OwnedWords> children;
    std::vector<uint64_t> counts;
    BREVIS_TRY(spec.invert({node, nullptr, first, {}, blob.get()}, words, children, counts));
    append(out.stats, gather(children[0].view()));
    return {};
  }));
  return std::optional(std::move(out));
}

}  // namespace brevis::synth
