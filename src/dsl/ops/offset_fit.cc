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

constexpr int kCut = 40;       // quarters; ten binades either way
constexpr int64_t kFine = 16;  // means are kept in parts of a quarter
constexpr size_t kTile = 2048;
constexpr size_t kMiddleWords = 16384;  // tell where the middle is
constexpr uint32_t kOneWord = uint32_t{1} << bits::kTermSumBits;
constexpr uint64_t kMostVisits = (uint64_t{1} << (32 - bits::kTermSumBits)) - 1;  // of a sum: neither part overflows
constexpr uint64_t kLeastRing = 512, kMostRing = uint64_t{1} << 18;
constexpr uint64_t kLongRun = 32;  // words of one place in a row that are worth a loop of their own
static_assert(kMostVisits * 2 * kCut < kOneWord && kTile <= kMostVisits);

}  // namespace

// Sums of all places that stand in one period: terms are added to them where they stand, and places are told apart when
// everything is in. Axes whose periods divide the longest one's share its sums.
class OffsetSums::Ring {
 public:
  explicit Ring(uint64_t period) : sums_(period * ((kLeastRing + period - 1) / period)) {}
  uint64_t size() const { return sums_.size(); }
  void add(uint64_t position, std::span<const uint32_t> terms) {  // at most kTile
    uint64_t at = position % size();
    for (size_t done = 0; done < terms.size(); at = 0) {
      const size_t n = std::min<uint64_t>(terms.size() - done, size() - at);
      bits::kernels().add_terms(sums_.data() + at, terms.data() + done, n);
      done += n;
    }
    visits_ += visits_of_tile();
  }
  bool full() const { return visits_ + visits_of_tile() > kMostVisits; }
  void tell(const OffsetAxis& axis, std::vector<Total>& totals) const {
    for (uint64_t at = 0, place = 0; at < size(); place = place + 1 == axis.count ? 0 : place + 1)
      for (const uint64_t end = at + axis.stride; at < end; ++at) totals[place].add(sums_[at]);
  }
  void clear() {
    std::fill(sums_.begin(), sums_.end(), 0);
    visits_ = 0;
  }

 private:
  uint64_t visits_of_tile() const { return (kTile - 1) / size() + 1; }

  std::vector<uint32_t> sums_;
  uint64_t visits_ = 0;  // of one sum at most, since they were clear
};

void OffsetSums::Total::add(uint32_t terms) {
  words += terms >> bits::kTermSumBits;
  sum += terms & (kOneWord - 1);
}

OffsetSums::OffsetSums(std::vector<OffsetAxis> axes) : axes_(std::move(axes)), ring_of_(axes_.size(), SIZE_MAX) {
  std::vector<size_t> order;
  for (size_t k = 0; k < axes_.size(); ++k)
    if (axes_[k].stride < kLongRun && axes_[k].count <= kMostRing / axes_[k].stride) order.push_back(k);
  const auto period = [&](size_t k) { return axes_[k].stride * axes_[k].count; };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return period(a) > period(b); });
  for (const size_t k : order) {
    const auto at =
        std::find_if(rings_.begin(), rings_.end(), [&](const Ring& ring) { return ring.size() % period(k) == 0; });
    ring_of_[k] = static_cast<size_t>(at - rings_.begin());
    if (at == rings_.end()) rings_.emplace_back(period(k));
  }
  for (const OffsetAxis& axis : axes_) totals_.emplace_back(axis.count);
}

OffsetSums::~OffsetSums() = default;

bool OffsetSums::set_middle(std::span<const uint16_t> quarters) {
  std::vector<uint32_t> counts(size_t{1} << (kMostFitBits + 2));
  const size_t step = std::max<size_t>(1, quarters.size() / kMiddleWords);
  uint64_t total = 0, below = 0;
  for (size_t i = 0; i < quarters.size(); i += step) {
    counts[quarters[i]] += quarters[i] >= 4;
    total += quarters[i] >= 4;
  }
  if (total == 0) return false;
  for (middle_ = 0;; ++middle_) {
    below += counts[static_cast<size_t>(middle_)];
    if (2 * below >= total) return true;
  }
}

void OffsetSums::add(uint64_t position, std::span<const uint16_t> quarters) {
  uint32_t terms[kTile];
  for (size_t at = 0; at < quarters.size(); at += kTile) {
    const size_t n = std::min(kTile, quarters.size() - at);
    bits::kernels().quarter_terms(quarters.data() + at, n, static_cast<int16_t>(middle_), kCut, terms);
    for (Ring& ring : rings_) {
      if (ring.full()) flush(ring);
      ring.add(position + at, {terms, n});
    }
    for (size_t k = 0; k < axes_.size(); ++k) {
      if (ring_of_[k] < rings_.size()) continue;
      const auto [stride, count] = axes_[k];
      const uint64_t first = position + at;
      uint64_t place = first / stride % count, left = stride - first % stride;
      for (size_t done = 0; done < n;) {
        const size_t run = std::min<uint64_t>(n - done, left);
        totals_[k][place].add(bits::kernels().sum_terms(terms + done, run));
        place = place + 1 == count ? 0 : place + 1;
        left = stride;
        done += run;
      }
    }
  }
}

void OffsetSums::flush(Ring& ring) {
  for (size_t k = 0; k < axes_.size(); ++k)
    if (ring_of_[k] < rings_.size() && &rings_[ring_of_[k]] == &ring) ring.tell(axes_[k], totals_[k]);
  ring.clear();
}

OffsetSteps OffsetSums::finish() {
  for (Ring& ring : rings_) flush(ring);
  OffsetSteps steps;
  for (const std::vector<Total>& totals : totals_) steps.push_back(steps_of(totals));
  return steps;
}

// Means less their median, in whole quarters.
std::vector<int16_t> OffsetSums::steps_of(const std::vector<Total>& totals) {
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

namespace {

class OffsetFitter final : public Fitter {
 public:
  explicit OffsetFitter(const Node& node)
      : shift_(static_cast<unsigned>(node.params[0])),
        bits_(static_cast<unsigned>(node.params[1])),
        axes_(offset_axes(node)),
        sums_(axes_) {}

  void add(uint64_t position, bits::ConstWords words) override {
    if (bits_ > kMostFitBits) return;
    quarters_.resize(words.count);
    bits::kernels().quarters(words, shift_, bits_, quarters_.data());
    if (sums_.has_middle() || sums_.set_middle(quarters_)) sums_.add(position, quarters_);
  }

  ByteVector finish() override { return store_offsets(sums_.finish()); }

 private:
  const unsigned shift_, bits_;
  const std::vector<OffsetAxis> axes_;
  OffsetSums sums_;
  std::vector<uint16_t> quarters_;
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
