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
constexpr uint8_t kMiddle = 32;          // the level of the median field

class ContextFitter final : public Fitter {
 public:
  explicit ContextFitter(const Node& node) : params_(ContextParams::of(node)) {}

  void add(uint64_t, bits::ConstWords words) override {
    if (words.count == 0) return;
    std::vector<uint64_t> raw(words.count);
    for (size_t i = 0; i < words.count; ++i)
      raw[i] = raw_level(params_.level, words.at(i) >> params_.shift & bits::low_mask(params_.bits), params_.bits);
    if (!begun_) begin(raw);
    std::vector<uint8_t> levels(raw.size());
    for (size_t i = 0; i < raw.size(); ++i) levels[i] = level_of(raw[i], low_);
    for (size_t i = 0; i < levels.size(); ++i) {
      uint64_t sum = 0;
      for (const ContextTerm& term : params_.terms)
        sum += term.weight * (i < term.stride ? start_ : levels[i - term.stride]);
      ++sums_[sum];
    }
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
  void begin(const std::vector<uint64_t>& raw) {
    begun_ = true;
    std::vector<uint64_t> sorted = raw;
    const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    low_ = *middle > kMiddle ? *middle - kMiddle : 0;
    start_ = level_of(*middle, low_);
  }

  const ContextParams params_;
  bool begun_ = false;
  uint64_t low_ = 0;
  uint8_t start_ = 0;
  std::array<uint64_t, kContextSums> sums_{};
};

// How much the levels of neighbours tell of a word's own, on a sample of levels.
class Neighbours {
 public:
  Neighbours(const Target& target, const ContextParams& field) {
    std::vector<uint64_t> all;
    for (const Window& window : target.windows) {
      std::vector<uint64_t> raw(std::min<size_t>(window.words.count, kMostOfWindow));
      for (size_t i = 0; i < raw.size(); ++i)
        raw[i] = raw_level(field.level, window.words.at(i) >> field.shift & bits::low_mask(field.bits), field.bits);
      all.insert(all.end(), raw.begin(), raw.end());
      raw_.push_back(std::move(raw));
    }
    if (all.empty()) return;
    const auto middle = all.begin() + static_cast<ptrdiff_t>(all.size() / 2);
    std::nth_element(all.begin(), middle, all.end());
    const uint64_t low = *middle > kMiddle ? *middle - kMiddle : 0;
    for (const auto& raw : raw_) {
      levels_.emplace_back();
      for (const uint64_t v : raw) levels_.back().push_back(level_of(v, low));
    }
  }

  // Bits a word, 1/256, that four classes of the sum take off; 0 where too few words have all terms.
  uint64_t gain(const std::vector<ContextTerm>& terms) const {
    std::array<uint64_t, kContextSums> sums{};
    uint64_t total = 0;
    each(terms, [&](uint64_t sum, uint8_t) {
      ++sums[sum];
      ++total;
    });
    if (total < kLeastPairs) return 0;
    std::array<uint8_t, kContextSums> class_of{};
    uint64_t seen = 0;
    for (size_t s = 0; s < sums.size(); ++s) {
      class_of[s] = static_cast<uint8_t>(std::min<uint64_t>(kHands - 1, seen * kHands / total));
      seen += sums[s];
    }
    std::array<std::array<uint64_t, kTopLevel + 1>, kHands> counts{};
    each(terms, [&](uint64_t sum, uint8_t level) { ++counts[class_of[sum]][level]; });
    std::array<uint64_t, kTopLevel + 1> all{};
    uint64_t apart = 0;
    for (const auto& one : counts) {
      apart += entropy(one);
      for (size_t v = 0; v < one.size(); ++v) all[v] += one[v];
    }
    const uint64_t plain = entropy(all);
    return plain > apart ? (plain - apart) / total : 0;
  }

 private:
  static constexpr size_t kMostOfWindow = 8192;
  static constexpr uint64_t kLeastPairs = 2048;

  template <class F>
  void each(const std::vector<ContextTerm>& terms, F&& f) const {
    uint64_t reach = 0;
    for (const ContextTerm& term : terms) reach = std::max(reach, term.stride);
    for (const auto& levels : levels_)
      for (size_t i = reach; i < levels.size(); ++i) {
        uint64_t sum = 0;
        for (const ContextTerm& term : terms) sum += term.weight * levels[i - term.stride];
        f(sum, levels[i]);
      }
  }

  static uint64_t entropy(std::span<const uint64_t> counts) {
    uint64_t total = 0;
    for (const uint64_t count : counts) total += count;
    if (total == 0) return 0;
    const uint64_t log_total = bits::log2_near(total);
    uint64_t sum = 0;
    for (const uint64_t count : counts)
      if (count != 0) sum += count * (log_total - std::min<uint64_t>(log_total, bits::log2_near(count)));
    return sum >> (bits::kLog2Bits - 8);
  }

  std::vector<std::vector<uint64_t>> raw_;
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
  if (target.width < 4 || target.histogram->counts.size() < 8) return;
  const Dtype dtype = float_of(target);
  const DtypeInfo& info = dtype_info(dtype);
  ContextParams field{LevelOf::size, 0, target.width, {}};
  if (dtype != Dtype::unknown && info.exponent_bits != 0) {
    const unsigned below = std::min<unsigned>(2, info.mantissa_bits);
    field = {LevelOf::field, info.mantissa_bits - below, info.exponent_bits + below, {}};
  }
  const Neighbours neighbours(target, field);
  std::vector<std::pair<uint64_t, uint64_t>> single;  // gain, stride
  for (const uint64_t stride : strides_for(target)) single.emplace_back(neighbours.gain({{stride, 1}}), stride);
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
