// SPDX-License-Identifier: Apache-2.0
//
// The packing side of the operator `offset`: which axes to try, and steps that bring the fields of all places of an
// axis to one mean. A field is looked at in quarters of its unit (the two bits below it), since a mean exponent that is
// a quarter off still costs. Means are taken of distances from the median, far ones cut short, zero fields left out: a
// row of zeros or one denormal would spoil them.
#include <algorithm>

#include "dsl/ops/offset.h"

namespace brevis::dsl {
namespace {

constexpr unsigned kMostFieldBits = 12;  // wider fields are no exponents: they get no steps
constexpr int kCut = 40;                 // quarters; ten binades either way
constexpr int64_t kFine = 16;            // means are kept in parts of a quarter
constexpr size_t kTile = 2048;
// What is accumulated for one place: number of words above, sum of distances + kCut below.
constexpr unsigned kSumBits = 36;
constexpr uint64_t kOneWord = uint64_t{1} << kSumBits;
constexpr uint64_t kMostAccumulated = uint64_t{1} << 27;  // words: neither part overflows

class OffsetFitter final : public Fitter {
 public:
  explicit OffsetFitter(const Node& node)
      : shift_(static_cast<unsigned>(node.params[0])),
        bits_(static_cast<unsigned>(node.params[1])),
        axes_(offset_axes(node)) {
    for (const OffsetAxis& axis : axes_) {
      recent_.emplace_back(axis.count);
      totals_.emplace_back(axis.count);
    }
  }

  void add(uint64_t position, bits::ConstWords words) override {
    if (bits_ > kMostFieldBits) return;
    std::vector<uint16_t> quarters(words.count);
    bits::visit_lane(words.width, [&]<class T>(T) { take_quarters<T>(words.as<T>(), quarters.data()); });
    if (median_ < 0 && !find_median(quarters)) return;
    uint64_t terms[kTile];
    if (accumulated_ + words.count > kMostAccumulated) flush();
    accumulated_ += words.count;
    for (size_t at = 0; at < quarters.size(); at += kTile) {
      const size_t n = std::min(kTile, quarters.size() - at);
      for (size_t j = 0; j < n; ++j) {
        const int q = quarters[at + j];
        const int distance = std::clamp(q - median_, -kCut, kCut) + kCut;
        terms[j] = q < 4 ? 0 : kOneWord + static_cast<uint64_t>(distance);
      }
      for (size_t k = 0; k < axes_.size(); ++k) accumulate(axes_[k], position + at, {terms, n}, recent_[k]);
    }
  }

  ByteVector finish() override {
    flush();
    OffsetSteps steps;
    for (const std::vector<Total>& totals : totals_) steps.push_back(steps_of(totals));
    return store_offsets(steps);
  }

 private:
  struct Total {
    uint64_t words = 0, sum = 0;
  };

  void flush() {
    for (size_t k = 0; k < axes_.size(); ++k)
      for (size_t place = 0; place < recent_[k].size(); ++place) {
        totals_[k][place].words += recent_[k][place] >> kSumBits;
        totals_[k][place].sum += recent_[k][place] & (kOneWord - 1);
        recent_[k][place] = 0;
      }
    accumulated_ = 0;
  }

  template <class T>
  void take_quarters(std::span<const T> words, uint16_t* out) const {
    const auto mask = static_cast<uint16_t>(bits::low_mask(bits_ + 2));
    if (shift_ >= 2) {
      const unsigned down = shift_ - 2;
      for (size_t i = 0; i < words.size(); ++i)
        out[i] = static_cast<uint16_t>(static_cast<uint16_t>(words[i] >> down) & mask);
    } else {
      const unsigned up = 2 - shift_;
      for (size_t i = 0; i < words.size(); ++i)
        out[i] = static_cast<uint16_t>(static_cast<uint16_t>(uint64_t{words[i]} << up) & mask);
    }
  }

  bool find_median(std::span<const uint16_t> quarters) {
    std::vector<uint32_t> counts(size_t{1} << (bits_ + 2));
    uint64_t total = 0;
    for (const uint16_t q : quarters) {
      counts[q] += q >= 4;
      total += q >= 4;
    }
    if (total == 0) return false;
    uint64_t below = 0;
    for (median_ = 0;; ++median_) {
      below += counts[static_cast<size_t>(median_)];
      if (2 * below >= total) return true;
    }
  }

  static void accumulate(const OffsetAxis& axis, uint64_t position, std::span<const uint64_t> terms,
                         std::vector<uint64_t>& sums) {
    uint64_t place = position / axis.stride % axis.count;
    uint64_t left = axis.stride - position % axis.stride;  // words until the next place
    for (size_t at = 0; at < terms.size();) {
      size_t n;
      if (axis.stride == 1) {
        n = std::min<uint64_t>(terms.size() - at, axis.count - place);
        for (size_t j = 0; j < n; ++j) sums[place + j] += terms[at + j];
        place += n;
      } else {
        n = std::min<uint64_t>(terms.size() - at, left);
        uint64_t sum = 0;
        for (size_t j = 0; j < n; ++j) sum += terms[at + j];
        sums[place] += sum;
        ++place;
        left = axis.stride;
      }
      if (place == axis.count) place = 0;
      at += n;
    }
  }

  // Means less their median, in whole quarters.
  static std::vector<int16_t> steps_of(const std::vector<Total>& totals) {
    std::vector<int64_t> means(totals.size(), -1), seen;
    for (size_t place = 0; place < totals.size(); ++place) {
      if (totals[place].words == 0) continue;
      means[place] = static_cast<int64_t>(totals[place].sum * kFine / totals[place].words);
      seen.push_back(means[place]);
    }
    std::vector<int16_t> steps(totals.size());
    if (seen.empty()) return steps;
    const auto middle = seen.begin() + static_cast<ptrdiff_t>(seen.size() / 2);
    std::nth_element(seen.begin(), middle, seen.end());
    for (size_t place = 0; place < totals.size(); ++place)
      if (means[place] >= 0)  // + kFine / 2, floored: the nearest
        steps[place] = static_cast<int16_t>((means[place] - *middle + kFine / 2 + kFine * 4096) / kFine - 4096);
    return steps;
  }

  const unsigned shift_, bits_;
  const std::vector<OffsetAxis> axes_;
  int median_ = -1;
  std::vector<std::vector<uint64_t>> recent_;  // by axis and place
  std::vector<std::vector<Total>> totals_;
  uint64_t accumulated_ = 0;  // words in recent_
};

// A step has to be shared by that many words, or it costs what it wins.
constexpr uint64_t kLeastWordsAStep = 4;

}  // namespace

std::unique_ptr<Fitter> fit_offset(const Node& node) { return std::make_unique<OffsetFitter>(node); }

// Axes of the tensor for floats whose exponent is known: all, rows and columns however the kernel is laid out (OIHW,
// HWIO), and single ones.
void propose_offsets(const Target& target, std::vector<Proposal>& out) {
  const DtypeInfo& info = dtype_info(target.dtype);
  if (!info.is_float() || info.exponent_bits == 0 || info.word_bits() != target.width) return;
  std::vector<OffsetAxis> axes;
  uint64_t stride = 1;
  for (size_t k = target.shape.size(); k-- > 0;) {
    if (target.shape[k] > 1) axes.insert(axes.begin(), {stride, target.shape[k]});
    if (target.shape[k] == 0 || stride > kMaxOffsetStride / target.shape[k]) return;
    stride *= target.shape[k];
  }
  const size_t n = axes.size();
  if (n == 0) return;
  std::vector<std::vector<size_t>> choices;
  auto add = [&](std::vector<size_t> chosen) {
    uint64_t steps = 0;
    for (const size_t k : chosen) steps += std::min(axes[k].count, kMaxOffsetSteps + 1);
    if (steps > kMaxOffsetSteps || steps > stride / kLeastWordsAStep) return;
    if (std::find(choices.begin(), choices.end(), chosen) == choices.end()) choices.push_back(std::move(chosen));
  };
  if (n <= kMaxOffsetAxes) {
    std::vector<size_t> all(n);
    for (size_t k = 0; k < n; ++k) all[k] = k;
    add(all);
  }
  if (n > 1) {
    add({0, 1});
    add({n - 2, n - 1});
    add({0, n - 1});
  }
  add({n - 1});
  add({0});
  if (n > 2) add({1});
  for (const std::vector<size_t>& chosen : choices) {
    Proposal proposal{{info.mantissa_bits, info.exponent_bits}, {target.dtype}};
    for (const size_t k : chosen) {
      proposal.params.push_back(axes[k].stride);
      proposal.params.push_back(axes[k].count);
    }
    out.push_back(std::move(proposal));
  }
}

}  // namespace brevis::dsl
