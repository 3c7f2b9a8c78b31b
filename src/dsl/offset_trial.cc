// SPDX-License-Identifier: Apache-2.0
#include "dsl/offset_trial.h"

#include <algorithm>
#include <array>

#include "dsl/ops/deal.h"
#include "dsl/ops/offset.h"

namespace brevis::dsl {
namespace {

constexpr size_t kTile = 2048;

// Four tables in turn, since equal neighbours would wait for each other's store.
class Counter4 {
 public:
  explicit Counter4(size_t values) : values_(values), counts_(4 * values) {}
  void add(std::span<const uint16_t> words) {
    uint32_t* counts[4];
    for (size_t k = 0; k < 4; ++k) counts[k] = counts_.data() + k * values_;
    size_t i = 0;
    for (; i + 4 <= words.size(); i += 4)
      for (size_t k = 0; k < 4; ++k) ++counts[k][words[i + k]];
    for (; i < words.size(); ++i) ++counts[0][words[i]];
  }
  std::vector<uint32_t> take() {
    for (size_t k = 1; k < 4; ++k)
      for (size_t v = 0; v < values_; ++v) counts_[v] += counts_[k * values_ + v];
    counts_.resize(values_);
    return std::move(counts_);
  }

 private:
  const size_t values_;
  std::vector<uint32_t> counts_;
};

}  // namespace

OffsetTrial::OffsetTrial(unsigned shift, unsigned bits, std::span<const Window> windows,
                         std::span<const std::pair<uint64_t, uint64_t>> axes)
    : bits_(bits) {
  size_t words = 0;
  for (const Window& window : windows) words += window.words.count;
  quarters_.resize(words);
  size_t at = 0;
  for (const Window& window : windows) {
    bits::kernels().quarters(window.words, shift, bits, quarters_.data() + at);
    places_.push_back({window.position, at, window.words.count});
    at += window.words.count;
  }
  std::vector<OffsetAxis> fitted;
  for (const auto& [stride, count] : axes) fitted.push_back({stride, count});
  OffsetSums sums(std::move(fitted));
  if (sums.set_middle(quarters_))
    for (const Place& place : places_) sums.add(place.position, std::span(quarters_).subspan(place.first, place.count));
  OffsetSteps steps = sums.finish();
  for (size_t k = 0; k < axes.size(); ++k) steps_.emplace(axes[k], std::move(steps[k]));
}

OffsetTrial::Counts OffsetTrial::plain() const {
  Counter4 counter(size_t{1} << (bits_ + 2));
  counter.add(quarters_);
  return counter.take();
}

const std::vector<int16_t>& OffsetTrial::steps_at(const std::pair<uint64_t, uint64_t>& axis) {
  const auto [at, fresh] = spread_.try_emplace(axis);
  std::vector<int16_t>& out = at->second;
  if (!fresh) return out;
  const std::vector<int16_t>& steps = steps_.at(axis);
  const auto [stride, count] = axis;
  out.resize(quarters_.size());
  for (const Place& window : places_) {
    uint64_t place = window.position / stride % count, left = stride - window.position % stride;
    for (uint64_t done = 0; done < window.count;) {
      int16_t* to = out.data() + window.first + done;
      uint64_t n;
      if (stride == 1) {
        n = std::min(window.count - done, count - place);
        std::copy_n(steps.begin() + static_cast<ptrdiff_t>(place), n, to);
        place += n;
      } else {
        n = std::min(window.count - done, left);
        std::fill_n(to, n, steps[place]);
        ++place;
        left = stride;
      }
      if (place == count) place = 0;
      done += n;
    }
  }
  return out;
}

std::vector<int16_t> OffsetTrial::sums(std::span<const std::pair<uint64_t, uint64_t>> axes) {
  std::vector<int16_t> out(quarters_.size(), 2);
  for (const auto& axis : axes) {
    const int16_t* steps = steps_at(axis).data();
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int16_t>(out[i] + steps[i]);
  }
  return out;
}

OffsetTrial::Counts OffsetTrial::moved(std::span<const std::pair<uint64_t, uint64_t>> axes) {
  const std::vector<int16_t> all = sums(axes);
  const auto mask = static_cast<uint16_t>(bits::low_mask(bits_ + 2));
  Counter4 counter(size_t{1} << (bits_ + 2));
  uint16_t tile[kTile];
  for (size_t at = 0; at < all.size(); at += kTile) {
    const size_t n = std::min(kTile, all.size() - at);
    for (size_t i = 0; i < n; ++i)
      tile[i] = static_cast<uint16_t>(static_cast<uint16_t>(quarters_[at + i] - (all[at + i] & ~3)) & mask);
    counter.add({tile, n});
  }
  return counter.take();
}

std::vector<OffsetTrial::Counts> OffsetTrial::dealt(std::span<const std::pair<uint64_t, uint64_t>> axes) {
  const std::vector<int16_t> all = sums(axes);
  const auto mask = static_cast<uint16_t>(bits::low_mask(bits_ + 2));
  std::vector<Counts> out(kHands, Counts(size_t{1} << (bits_ + 2)));
  for (size_t i = 0; i < all.size(); ++i)
    ++out[static_cast<size_t>(all[i] & 3)][static_cast<uint16_t>(quarters_[i] - (all[i] & ~3)) & mask];
  return out;
}

}  // namespace brevis::dsl
