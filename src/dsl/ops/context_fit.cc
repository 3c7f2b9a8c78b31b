// SPDX-License-Identifier: Apache-2.0
//
// The packing side of the operator `context`: which neighbours to ask, and where classes begin so that each has about
// as many words.
#include <algorithm>

#include "base/coding.h"
#include "bits/log2.h"
#include "dsl/ops/context.h"
#include "dsl/ops/sample.h"

namespace brevis::dsl {
namespace {

constexpr unsigned kMostFieldBits = 16;  // of fields whose values are counted; wider ones begin at 0
constexpr unsigned kShortFieldBits = 12;
constexpr uint8_t kMiddle = 32;  // the level of the median field

constexpr size_t kMiddleWords = 16384;  // tell where it is
constexpr size_t kTile = 2048;

// The level before it is cut that half of some words are below.
uint64_t middle_of(const ContextParams& params, std::span<const bits::ConstWords> windows) {
  const uint64_t mask = bits::low_mask(params.bits);
  size_t words = 0, next = 0;
  for (const bits::ConstWords& window : windows) words += window.count;
  const size_t step = std::max<size_t>(1, words / kMiddleWords);
  if (words == 0) return 0;
  if (params.level == LevelOf::field && params.bits <= kShortFieldBits) {
    std::vector<uint32_t> counts(size_t{1} << params.bits);
    uint64_t total = 0, seen = 0;
    for (const bits::ConstWords& window : windows) {
      bits::visit_lane(window.width, [&]<class T>(T) {
        const T* const in = window.as<T>().data();
        for (; next < window.count; next += step, ++total) ++counts[uint64_t{in[next]} >> params.shift & mask];
      });
      next -= window.count;
    }
    for (uint64_t level = 0;; ++level)
      if ((seen += counts[level]) > total / 2) return level;
  }
  std::vector<uint64_t> raw;
  raw.reserve(words / step + windows.size());
  for (const bits::ConstWords& window : windows) {
    bits::visit_lane(window.width, [&]<class T>(T) {
      const T* const in = window.as<T>().data();
      for (; next < window.count; next += step)
        raw.push_back(raw_level(params.level, uint64_t{in[next]} >> params.shift & mask, params.bits));
    });
    next -= window.count;
  }
  const auto [least, most] = std::minmax_element(raw.begin(), raw.end());
  const uint64_t first = *least;
  if (*most - first >= uint64_t{1} << kMostFieldBits) {
    const auto middle = raw.begin() + static_cast<ptrdiff_t>(raw.size() / 2);
    std::nth_element(raw.begin(), middle, raw.end());
    return *middle;
  }
  std::vector<uint32_t> counts(*most - first + 1);
  for (const uint64_t level : raw) ++counts[level - first];
  uint64_t seen = 0;
  for (size_t level = 0;; ++level) {
    seen += counts[level];
    if (seen > raw.size() / 2) return first + level;
  }
}

uint64_t lowest_level(uint64_t middle) { return middle > kMiddle ? middle - kMiddle : 0; }

// Two tables in turn, since equal neighbours would wait for each other's store.
template <size_t kValues>
class Counts {
 public:
  void add(size_t value, size_t turn) { ++counts_[turn & 1][value]; }
  uint64_t of(size_t value) const { return uint64_t{counts_[0][value]} + counts_[1][value]; }

 private:
  std::array<std::array<uint32_t, kValues>, 2> counts_{};
};

// Sums of levels of the words before `count` consecutive ones, the first of which has level `at`.
void sum_levels(const std::vector<ContextTerm>& terms, const uint8_t* at, uint16_t always, std::span<uint16_t> out) {
  std::fill(out.begin(), out.end(), always);
  for (const ContextTerm& term : terms)
    bits::kernels().add_levels(out.data(), at - term.stride, static_cast<uint16_t>(term.weight), out.size());
}

class ContextFitter final : public Fitter {
 public:
  explicit ContextFitter(const Node& node) : params_(ContextParams::of(node)) {}

  void add(uint64_t, bits::ConstWords words) override {
    if (words.count == 0) return;
    if (!begun_) begin(words);
    // Terms that reach beyond the frame see nothing but the start.
    std::vector<ContextTerm> terms;
    size_t before = 0;
    uint16_t always = 0;
    for (const ContextTerm& term : params_.terms) {
      if (term.stride < words.count) {
        terms.push_back(term);
        before = std::max<size_t>(before, term.stride);
      } else {
        always = static_cast<uint16_t>(always + term.weight * start_);
      }
    }
    levels_.resize(before + words.count);
    std::fill_n(levels_.begin(), before, start_);
    context_levels(params_, low_, words, levels_.data() + before);
    uint16_t sums[kTile];
    Counts<kContextSums> counts;
    for (size_t at = 0; at < words.count; at += kTile) {
      const std::span<uint16_t> tile(sums, std::min(kTile, words.count - at));
      sum_levels(terms, levels_.data() + before + at, always, tile);
      for (size_t i = 0; i < tile.size(); ++i) counts.add(tile[i], i);
    }
    for (size_t sum = 0; sum < sums_.size(); ++sum) sums_[sum] += counts.of(sum);
  }

  ByteVector finish() override {
    ByteVector out;
    ByteWriter writer(out);
    writer.varint(low_);
    writer.varint(start_);
    uint64_t total = 0, seen = 0, next = 0, most = 0;
    for (const uint64_t count : sums_) total += count;
    for (const ContextTerm& term : params_.terms) most += term.weight * kTopLevel;
    uint64_t sum = 0;  // words whose sum is below it are `seen`
    for (size_t c = 1; c < kHands; ++c) {
      while (sum < most && seen * kHands < total * c) seen += sums_[sum++];
      const uint64_t threshold = std::clamp(sum, next, most - (kHands - 1 - c));
      writer.varint(threshold - next);
      next = threshold + 1;
    }
    return out;
  }

 private:
  void begin(bits::ConstWords words) {
    begun_ = true;
    const uint64_t middle = middle_of(params_, {&words, 1});
    low_ = lowest_level(middle);
    start_ = level_of(middle, low_);
  }

  const ContextParams params_;
  bool begun_ = false;
  uint64_t low_ = 0;
  uint8_t start_ = 0;
  std::array<uint64_t, kContextSums> sums_{};
  std::vector<uint8_t> levels_;
};

// How much the levels of neighbours tell of a word's own, on a sample of levels.
class Neighbours {
 public:
  Neighbours(const Target& target, const ContextParams& field) {
    std::vector<bits::ConstWords> windows;
    for (const Window& window : target.windows)
      windows.push_back(window.words.part(0, std::min<size_t>(window.words.count, kMostOfWindow)));
    const uint64_t low = lowest_level(middle_of(field, windows));
    for (const bits::ConstWords& words : windows) {
      levels_.emplace_back(words.count);
      context_levels(field, low, words, levels_.back().data());
    }
  }

  // Bits a word, 1/256, that four classes of the sum take off; 0 where too few words have all terms. `quick`: told by
  // the beginnings of the windows.
  uint64_t gain(const std::vector<ContextTerm>& terms, bool quick = false) const {
    uint64_t total = 0;
    size_t most = 0;
    for (const ContextTerm& term : terms) most += term.weight * kTopLevel;
    thread_local std::vector<uint32_t> counts;  // by sum and level
    counts.assign((most + 1) * kLevels, 0);
    each(
        terms, quick, [&](uint16_t sum, uint8_t level) { ++counts[sum * kLevels + level]; }, total);
    if (total < kLeastPairs) return 0;
    std::array<std::array<uint32_t, kLevels>, kHands> classes{};
    std::array<uint32_t, kLevels> all{};
    uint64_t seen = 0, apart = 0;
    for (size_t sum = 0; sum <= most && seen < total; ++sum) {
      const uint32_t* const row = counts.data() + sum * kLevels;
      auto& one = classes[std::min<uint64_t>(kHands - 1, seen * kHands / total)];
      uint32_t words = 0;
      for (size_t v = 0; v < kLevels; ++v) one[v] += row[v], words += row[v];
      seen += words;
    }
    for (const auto& one : classes) {
      for (size_t v = 0; v < kLevels; ++v) all[v] += one[v];
      apart += bits::entropy_of(one);
    }
    const uint64_t plain = bits::entropy_of(all);
    return plain > apart ? ((plain - apart) >> (bits::kLog2Bits - 8)) / total : 0;
  }

 private:
  static constexpr size_t kLevels = kTopLevel + 1;
  static constexpr size_t kMostOfWindow = 8192, kQuick = 8192;
  static constexpr uint64_t kLeastPairs = 2048;

  template <class F>
  void each(const std::vector<ContextTerm>& terms, bool quick, F&& f, uint64_t& words) const {
    uint64_t reach = 0;
    for (const ContextTerm& term : terms) reach = std::max(reach, term.stride);
    uint16_t sums[kTile];
    const size_t most = quick ? kQuick / std::max<size_t>(1, levels_.size()) : kMostOfWindow;
    for (const auto& levels : levels_) {
      const size_t end = std::min<size_t>(levels.size(), reach + most);
      for (size_t at = reach; at < end; at += kTile) {
        const std::span<uint16_t> tile(sums, std::min(kTile, end - at));
        sum_levels(terms, levels.data() + at, 0, tile);
        for (size_t i = 0; i < tile.size(); ++i) f(tile[i], levels[at + i]);
        words += tile.size();
      }
    }
  }

  std::vector<std::vector<uint8_t>> levels_;
};

constexpr uint64_t kLeastGain = 12;  // 1/256 bits a word: four sets of tables and slower decoding cost something

Proposal proposal_of(const ContextParams& field, const std::vector<ContextTerm>& terms, Dtype dtype, uint64_t gain) {
  Proposal out{{static_cast<uint64_t>(field.level), field.shift, field.bits}, std::vector<Dtype>(kHands, dtype)};
  out.gain = gain;
  for (const ContextTerm& term : terms) {
    out.params.push_back(term.stride);
    out.params.push_back(term.weight);
  }
  return out;
}

// Words before, and those above in the shape or, where it is not known, at distances that matrices have.
std::vector<uint64_t> strides_for(const Target& target) {
  std::vector<uint64_t> out{1};
  const auto add = [&](uint64_t stride) {
    if (std::find(out.begin(), out.end(), stride) == out.end()) out.push_back(stride);
  };
  uint64_t product = 1;
  for (size_t k = target.shape.size(); k-- > 1;) {
    if (target.shape[k] == 0 || product > kMaxContextStride / target.shape[k]) break;
    product *= target.shape[k];
    add(product);
  }
  if (target.shape.empty())
    for (const uint64_t stride : {2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024}) add(stride);
  return out;
}

}  // namespace

std::unique_ptr<Fitter> fit_context(const Node& node) { return std::make_unique<ContextFitter>(node); }

void propose_contexts(const Target& target, std::vector<Proposal>& out) {
  // What neighbours tell of a word they hardly tell of what another operator makes of it.
  if (target.below || target.width < 4 || target.histogram->counts.size() < 8) return;
  const Dtype dtype = float_of(target);
  const DtypeInfo& info = dtype_info(dtype);
  ContextParams field{LevelOf::size, 0, target.width, {}};
  if (dtype != Dtype::unknown && info.exponent_bits != 0) {
    const unsigned below = std::min<unsigned>(2, info.mantissa_bits);
    field = {LevelOf::field, info.mantissa_bits - below, info.exponent_bits + below, {}};
  }
  const Neighbours neighbours(target, field);
  std::vector<std::pair<uint64_t, uint64_t>> single;  // gain, stride
  for (const uint64_t stride : strides_for(target)) {
    // A part of the sample flatters if anything, and most words have nothing to tell.
    uint64_t gain = neighbours.gain({{stride, 1}}, true);
    if (gain >= kLeastGain / 2) gain = neighbours.gain({{stride, 1}});
    single.emplace_back(gain, stride);
  }
  std::stable_sort(single.begin(), single.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  if (single.front().first < kLeastGain) return;
  using Terms = std::vector<ContextTerm>;
  const auto add_best = [&](std::initializer_list<Terms> ways, uint64_t least) {
    uint64_t best = 0;
    const Terms* terms = nullptr;
    for (const Terms& way : ways) {
      const uint64_t gain = neighbours.gain(way);
      if (gain >= least && gain > best) best = gain, terms = &way;
    }
    if (terms != nullptr) out.push_back(proposal_of(field, *terms, target.dtype, best));
    return best;
  };
  // Those all of whose words stand well before run in stretches.
  uint64_t reached = 0;
  const auto far = std::find_if(single.begin(), single.end(), [](const auto& one) {
    return one.second > kLongStride && one.second < kMaxContextStride / 2;
  });
  if (far != single.end()) {
    const uint64_t r = far->second;
    reached = add_best({{{r, 1}}, {{r, 2}, {r - 1, 1}, {r + 1, 1}}, {{r, 2}, {r - 1, 1}, {r + 1, 1}, {2 * r, 1}}},
                       kLeastGain);
  }
  const uint64_t nearest = single.front().second, next = single.size() > 1 ? single[1].second : 2 * nearest;
  const uint64_t a = std::min(nearest, next), b = std::max(nearest, next);
  if (a < kLongStride && a + b <= kMaxContextStride)
    add_best({{{a, 1}}, {{a, 1}, {b, 1}}, {{a, 2}, {b, 2}, {a + b, 1}, {2 * a, 1}}, {{a, 2}, {2 * a, 1}}},
             std::max(kLeastGain, reached + reached / 8));
}

}  // namespace brevis::dsl
