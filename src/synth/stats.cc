// SPDX-License-Identifier: Apache-2.0
#include "synth/stats.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "bits/kernels.h"
#include "dsl/histogram.h"
#include "dsl/op.h"

namespace brevis::synth {
namespace {

// The cast node of a kind for wide words, or nullptr when that kind makes words of another width.
bool cast_fits(unsigned width, uint64_t kind, dsl::Node& node) {
  node = dsl::Node{dsl::OpId::cast, static_cast<uint8_t>(width), {kind}, {}};
  return bool(dsl::spec_of(dsl::OpId::cast).child_widths(node, 1));
}

// Almost every stream that was not widened shows it in its first words, so those are asked first.
bool in_cast_image(bits::ConstWords words, const dsl::Node& node) {
  const auto& spec = dsl::spec_of(dsl::OpId::cast);
  const dsl::NodeArgs args{node, nullptr, 0, {}};
  for (const size_t n : {std::min<size_t>(words.count, 256), words.count}) {
    std::vector<bits::OwnedWords> children;
    std::vector<uint64_t> counts;
    const auto fits = spec.invert(args, words.part(0, n), children, counts);
    if (!fits || !*fits) return false;
  }
  return true;
}

// Counters that are zero between uses: most streams show few of the words that there may be, so clearing those costs
// less than making counters anew.
class Scratch {
 public:
  static Scratch& mine(size_t size) {
    thread_local Scratch scratch;
    if (scratch.counts_.size() < size) {
      scratch.counts_.resize(size);
      scratch.found_ = std::make_unique_for_overwrite<std::pair<uint64_t, uint64_t>[]>(size);
    }
    return scratch;
  }

  // Words less their low bits.
  template <class T>
  void add(std::span<const T> words, unsigned shift) {
    uint32_t* counts = counts_.data();
    size_t i = 0;
    if constexpr (sizeof(T) == 2) {  // four at a time: a load for each takes as long as the count
      for (; i + 4 <= words.size(); i += 4) {
        uint64_t four;
        std::memcpy(&four, words.data() + i, sizeof(four));
        ++counts[(four & 0xffff) >> shift];
        ++counts[(four >> 16 & 0xffff) >> shift];
        ++counts[(four >> 32 & 0xffff) >> shift];
        ++counts[four >> 48 >> shift];
      }
    }
    for (; i < words.size(); ++i) ++counts[static_cast<size_t>(words[i] >> shift)];
  }

  // What was counted of words below `size`; leaves zeros.
  void take(size_t size, codec::Histogram& out) {
    constexpr size_t kBlock = 16;
    std::pair<uint64_t, uint64_t>* const found = found_.get();
    uint32_t* const counts = counts_.data();
    size_t number = 0;
    for (size_t at = 0; at < size; at += kBlock) {
      const size_t n = std::min(kBlock, size - at);
      if (n == kBlock) {
        std::array<uint64_t, kBlock / 2> pairs;
        std::memcpy(pairs.data(), counts + at, sizeof(pairs));
        uint64_t any = 0;
        for (const uint64_t pair : pairs) any |= pair;
        if (any == 0) continue;
      }
      for (size_t i = at; i < at + n; ++i) {  // whether a word occurs is hard to foresee
        found[number] = {i, counts[i]};
        number += counts[i] != 0;
        counts[i] = 0;
      }
    }
    out.counts.assign(found, found + number);
  }

 private:
  std::vector<uint32_t> counts_;
  std::unique_ptr<std::pair<uint64_t, uint64_t>[]> found_;
};

template <class T>
void count_words(std::span<const T> words, StreamStats& stats) {
  const unsigned shift = stats.width - stats.top_bits();
  const size_t size = size_t{1} << stats.top_bits();
  Scratch& scratch = Scratch::mine(size);
  scratch.add(words, shift);
  scratch.take(size, stats.top);
  for (unsigned byte = 0; byte < stats.low_bytes(); ++byte) {
    const unsigned down = shift - 8 * (byte + 1);
    std::array<std::array<uint32_t, 256>, 2> counts{};
    size_t i = 0;
    for (; i + 2 <= words.size(); i += 2) {
      ++counts[0][words[i] >> down & 0xff];
      ++counts[1][words[i + 1] >> down & 0xff];
    }
    if (i < words.size()) ++counts[0][words[i] >> down & 0xff];
    for (size_t v = 0; v < 256; ++v) stats.low[256 * byte + v] = uint64_t{counts[0][v]} + counts[1][v];
  }
}

template <class T>
bool is_ramp(std::span<const T> words, T step, T mask) {
  for (size_t i = 1; i < words.size(); ++i)
    if (static_cast<T>((words[i] - words[i - 1]) & mask) != step) return false;
  return true;
}

using Counts = std::vector<std::pair<uint64_t, uint64_t>>;

// Adds counts of ascending words to others.
void add_sorted(Counts& to, const Counts& from) {
  Counts sum;
  sum.reserve(to.size() + from.size() / 4);
  auto at = to.begin();
  for (const auto& [word, count] : from) {
    while (at != to.end() && at->first < word) sum.push_back(*at++);
    if (at != to.end() && at->first == word) {
      sum.emplace_back(word, count + at->second);
      ++at;
    } else {
      sum.emplace_back(word, count);
    }
  }
  sum.insert(sum.end(), at, to.end());
  to = std::move(sum);
}

}  // namespace

codec::Histogram fold(const codec::Histogram& histogram, unsigned from_top, unsigned bits) {
  if (bits == histogram.width) return histogram;
  codec::Histogram out{bits, {}};
  const unsigned shift = histogram.width - from_top - bits;
  out.counts.reserve(std::min(histogram.counts.size(), size_t{1} << bits));
  if (from_top == 0) {  // order stays
    for (const auto& [word, count] : histogram.counts) {
      if (out.counts.empty() || out.counts.back().first != word >> shift)
        out.counts.emplace_back(word >> shift, count);
      else
        out.counts.back().second += count;
    }
    return out;
  }
  std::vector<uint64_t> dense(size_t{1} << bits);
  for (const auto& [word, count] : histogram.counts) dense[(word >> shift) & (dense.size() - 1)] += count;
  for (size_t v = 0; v < dense.size(); ++v)
    if (dense[v] != 0) out.counts.emplace_back(v, dense[v]);
  return out;
}

codec::Histogram count_all(std::span<const bits::ConstWords> parts) {
  const unsigned width = parts.front().width;
  if (width > 16) {
    dsl::Counter counter(width);
    for (const auto& words : parts) counter.add(words);
    return counter.histogram();
  }
  codec::Histogram out{width, {}};
  const size_t size = size_t{1} << width;
  Scratch& scratch = Scratch::mine(size);
  for (const auto& words : parts) bits::visit_lane(width, [&]<class T>(T) { scratch.add(words.as<T>(), 0); });
  scratch.take(size, out);
  return out;
}

codec::Histogram StreamStats::field(unsigned from_top, unsigned bits) const { return fold(top, from_top, bits); }

uint64_t StreamStats::top_count(uint64_t value) const {
  const auto at = std::lower_bound(top.counts.begin(), top.counts.end(), std::pair(value, uint64_t{0}));
  return at == top.counts.end() || at->first != value ? 0 : at->second;
}

codec::Histogram StreamStats::low_byte(unsigned index) const {
  codec::Histogram histogram{8, {}};
  for (size_t v = 0; v < 256; ++v)
    if (low[256 * index + v] != 0) histogram.counts.emplace_back(v, low[256 * index + v]);
  return histogram;
}

StreamStats gather(bits::ConstWords words) {
  StreamStats stats;
  stats.width = words.width;
  stats.words = words.count;
  stats.top.width = stats.top_bits();
  stats.low.resize(size_t{256} * stats.low_bytes());
  const size_t kinds = dsl::spec_of(dsl::OpId::cast).keywords.size();
  stats.cast_image.assign(kinds, false);
  dsl::Node node;
  for (size_t kind = 0; kind < kinds; ++kind)
    stats.cast_image[kind] = cast_fits(words.width, kind, node) && in_cast_image(words, node);
  if (words.count == 0) return stats;
  stats.first = words.at(0);
  stats.last = words.at(words.count - 1);
  const uint64_t mask = bits::low_mask(words.width);
  if (words.count > 1) stats.step = (words.at(1) - stats.first) & mask;
  stats.or_mask = bits::kernels().any_bits(words);
  bits::visit_lane(words.width, [&]<class T>(T) {
    count_words(words.as<T>(), stats);
    stats.ramp = is_ramp(words.as<T>(), static_cast<T>(stats.step), static_cast<T>(mask));
  });
  return stats;
}

namespace {

constexpr uint64_t kMostPending = uint64_t{1} << 31;

// Two tables in turn, since equal neighbours would wait for each other's store.
constexpr unsigned kTwoTablesUpTo = 11;  // bits

}  // namespace

Gathering::Gathering(unsigned width, unsigned counted) {
  stats_.width = width;
  stats_.counted = counted;
  stats_.top.width = stats_.top_bits();
  stats_.low.resize(size_t{256} * stats_.low_bytes());
  dsl::Node node;
  for (size_t kind = 0; kind < dsl::spec_of(dsl::OpId::cast).keywords.size(); ++kind)
    stats_.cast_image.push_back(counted == 0 && cast_fits(width, kind, node));
  const unsigned tables = stats_.top_bits() <= kTwoTablesUpTo ? 2 : 1;
  top_.resize(size_t{tables} << stats_.top_bits());
  low_.resize(stats_.low.size());
}

template <class T>
void Gathering::count(std::span<const T> words) {
  const unsigned shift = stats_.low_bits();
  uint32_t* first = top_.data();
  uint32_t* second = top_.data() + top_.size() - (size_t{1} << stats_.top_bits());
  size_t i = 0;
  for (; i + 2 <= words.size(); i += 2) {
    ++first[words[i] >> shift];
    ++second[words[i + 1] >> shift];
  }
  if (i < words.size()) ++first[words[i] >> shift];
  for (unsigned byte = 0; byte < stats_.low_bytes(); ++byte) {
    const unsigned down = shift - 8 * (byte + 1);
    uint32_t* counts = low_.data() + 256 * byte;
    for (const T word : words) ++counts[word >> down & 0xff];
  }
}

void Gathering::add(bits::ConstWords words) {
  if (words.count == 0) return;
  if (pending_ + words.count > kMostPending) put_away();
  note_facts(words);
  stats_.words += words.count;
  pending_ += words.count;
  bits::visit_lane(words.width, [&]<class T>(T) { count<T>(words.as<T>()); });
}

// Almost every stream has shown after a few words that it is nothing in particular.
void Gathering::note_facts(bits::ConstWords words) {
  if (stats_.words == 0) stats_.first = words.at(0);
  stats_.last = words.at(words.count - 1);
  for (size_t i = 0; i < words.count && stats_.ramp; ++i) stats_.ramp = words.at(i) == stats_.first;
  dsl::Node node;
  for (size_t kind = 0; kind < stats_.cast_image.size(); ++kind)
    stats_.cast_image[kind] =
        stats_.cast_image[kind] && cast_fits(stats_.width, kind, node) && in_cast_image(words, node);
  if (stats_.counted == 0) stats_.or_mask |= bits::kernels().any_bits(words);
}

void Gathering::put_away() {
  const size_t values = size_t{1} << stats_.top_bits();
  size_t distinct = 0;
  for (size_t v = 0; v < values; ++v) {
    if (top_.size() > values) top_[v] += top_[values + v];
    distinct += top_[v] != 0;
  }
  Counts counts;
  counts.reserve(distinct);
  for (size_t v = 0; v < values; ++v)
    if (top_[v] != 0) counts.emplace_back(v, top_[v]);
  if (stats_.top.counts.empty())
    stats_.top.counts = std::move(counts);
  else
    add_sorted(stats_.top.counts, counts);
  for (size_t v = 0; v < low_.size(); ++v) stats_.low[v] += low_[v];
  std::fill(top_.begin(), top_.end(), 0);
  std::fill(low_.begin(), low_.end(), 0);
  pending_ = 0;
}

StreamStats Gathering::take() {
  put_away();
  if (stats_.counted != 0) stats_.or_mask = bits::low_mask(stats_.width);
  return std::move(stats_);
}

void append(StreamStats& stats, const StreamStats& next) {
  if (next.words == 0) return;
  if (stats.words == 0) {
    stats = next;
    return;
  }
  const uint64_t link = (next.first - stats.last) & bits::low_mask(stats.width);
  if (stats.words == 1) stats.step = link;
  stats.ramp = stats.ramp && next.ramp && link == stats.step && (next.words == 1 || next.step == stats.step);
  stats.words += next.words;
  stats.last = next.last;
  stats.or_mask |= next.or_mask;
  add_sorted(stats.top.counts, next.top.counts);
  for (size_t v = 0; v < stats.low.size(); ++v) stats.low[v] += next.low[v];
  for (size_t kind = 0; kind < stats.cast_image.size(); ++kind)
    stats.cast_image[kind] = stats.cast_image[kind] && next.cast_image[kind];
}

}  // namespace brevis::synth
