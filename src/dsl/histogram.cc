// SPDX-License-Identifier: Apache-2.0
#include "dsl/histogram.h"

#include <algorithm>
#include <array>
#include <utility>

#include "dsl/encode.h"

namespace brevis::dsl {
namespace {

// Sums up equal words, which follow one another.
void merge_neighbours(std::vector<std::pair<uint64_t, uint64_t>>& counts) {
  size_t kept = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (kept != 0 && counts[kept - 1].first == counts[i].first)
      counts[kept - 1].second += counts[i].second;
    else
      counts[kept++] = counts[i];
  }
  counts.resize(kept);
}

// Sorts by word and sums up equal ones.
void merge_equal(std::vector<std::pair<uint64_t, uint64_t>>& counts) {
  std::sort(counts.begin(), counts.end());
  merge_neighbours(counts);
}

// Four tables in turn, since equal neighbours (most of any skewed stream) would wait for each other's store.
void count_bytes(std::span<const uint8_t> words, uint64_t* counts) {
  std::array<std::array<uint32_t, 256>, 4> part{};
  size_t i = 0;
  for (; i + 4 <= words.size(); i += 4)
    for (size_t k = 0; k < 4; ++k) ++part[k][words[i + k]];
  for (; i < words.size(); ++i) ++part[0][words[i]];
  for (size_t word = 0; word < 256; ++word) {
    const uint64_t sum = uint64_t{part[0][word]} + part[1][word] + part[2][word] + part[3][word];
    if (sum != 0) counts[word] += sum;  // words of fewer bits have fewer counters
  }
}

// Keeps every second one, from the first on.
void halve(std::vector<size_t>& runs) {
  for (size_t i = 0; 2 * i < runs.size(); ++i) runs[i] = runs[2 * i];
  runs.resize((runs.size() + 1) / 2);
}

constexpr size_t kRadixFrom = 4096;  // words; fewer are sorted faster by comparing
constexpr unsigned kDigitBits = 11;

// Digit by digit, the lowest first, without those that all words share.
template <class T>
void sort_words(std::vector<T>& words, unsigned width) {
  if (words.size() < kRadixFrom) return std::sort(words.begin(), words.end());
  constexpr size_t kDigits = size_t{1} << kDigitBits;
  std::vector<T> other(words.size());
  std::vector<uint32_t> places(kDigits);
  for (unsigned shift = 0; shift < width; shift += kDigitBits) {
    const auto digit = [shift](T word) { return static_cast<size_t>(word >> shift) & (kDigits - 1); };
    std::fill(places.begin(), places.end(), 0);
    for (const T word : words) ++places[digit(word)];
    if (places[digit(words.front())] == words.size()) continue;
    uint32_t sum = 0;
    for (uint32_t& place : places) sum += std::exchange(place, sum);
    for (const T word : words) other[places[digit(word)]++] = word;
    words.swap(other);
  }
}

}  // namespace

void Counter::add(bits::ConstWords words) {
  if (dense()) {
    if (words.lane() == 1) return count_bytes(words.as<uint8_t>(), dense_.get());
    // The words of a part are still at hand for the second pass.
    constexpr size_t kPart = 4096;
    const std::span<const uint16_t> all = words.as<uint16_t>();
    for (size_t first = 0; first < all.size(); first += kPart) {
      const auto part = all.subspan(first, std::min(kPart, all.size() - first));
      std::array<bool, std::tuple_size_v<decltype(used_)>> seen{};
      for (const uint16_t word : part) seen[word >> kBlockBits] = true;
      for (size_t block = 0; block < seen.size(); ++block)
        if (seen[block]) use(block);
      for (const uint16_t word : part) ++dense_[word];
    }
    return;
  }
  runs_.push_back(loose_.size());
  bits::visit_lane(width_, [&]<class T>(T) {
    if constexpr (sizeof(T) >= 4) {
      std::vector<T> sorted(words.as<T>().begin(), words.as<T>().end());
      sort_words(sorted, width_);
      for (size_t i = 0; i < sorted.size();) {
        size_t end = i + 1;
        while (end < sorted.size() && sorted[end] == sorted[i]) ++end;
        loose_.emplace_back(sorted[i], end - i);
        i = end;
      }
    }
  });
  if (loose_.size() >= tidy_at_) tidy();
}

void Counter::tidy() {
  if (!sorted_) {
    merge_equal(loose_);
  } else {
    // Two runs at a time, and again those that are left.
    const auto at = [&](size_t run) {
      return loose_.begin() + static_cast<ptrdiff_t>(run < runs_.size() ? runs_[run] : loose_.size());
    };
    for (; runs_.size() > 1; halve(runs_))
      for (size_t run = 0; run + 1 < runs_.size(); run += 2) std::inplace_merge(at(run), at(run + 1), at(run + 2));
    merge_neighbours(loose_);
  }
  runs_.assign(1, 0);
  sorted_ = true;
  tidy_at_ = std::max(size_t{1} << 20, loose_.size() * 2);
}

codec::Histogram Counter::histogram() {
  codec::Histogram histogram{width_, {}};
  if (dense()) {
    const size_t block = size_t{1} << std::min(width_, kBlockBits);
    for (size_t first = 0; first < size_t{1} << width_; first += block) {
      if (!used_[first >> kBlockBits]) continue;
      for (size_t word = first; word < first + block; ++word)
        if (dense_[word] != 0) histogram.counts.emplace_back(word, dense_[word]);
    }
  } else {
    tidy();
    histogram.counts = loose_;
  }
  return histogram;
}

codec::Histogram histogram_of(bits::ConstWords words) {
  Counter counter(words.width);
  counter.add(words);
  return counter.histogram();
}

void add_histogram(codec::Histogram& a, const codec::Histogram& b) {
  a.counts.insert(a.counts.end(), b.counts.begin(), b.counts.end());
  merge_equal(a.counts);
}

}  // namespace brevis::dsl
