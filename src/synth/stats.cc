// SPDX-License-Identifier: Apache-2.0
#include "synth/stats.h"

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

// Two counters break the store-to-load chain of equal neighbours.
template <class T>
void count_words(std::span<const T> words, StreamStats& stats) {
  const unsigned shift = stats.width - stats.top_bits();
  const size_t size = stats.top.size();
  T any = 0;
  std::vector<uint32_t> other(size);
  size_t i = 0;
  for (; i + 2 <= words.size(); i += 2) {
    ++stats.top[static_cast<size_t>(words[i] >> shift)];
    ++other[static_cast<size_t>(words[i + 1] >> shift)];
  }
  if (i < words.size()) ++stats.top[static_cast<size_t>(words[i] >> shift)];
  for (size_t v = 0; v < size; ++v) stats.top[v] += other[v];
  for (const T word : words) any = static_cast<T>(any | word);
  for (unsigned byte = 0; byte < stats.low_bytes(); ++byte) {
    uint64_t* counts = stats.low.data() + 256 * byte;
    for (const T word : words) ++counts[(word >> (shift - 8 * (byte + 1))) & 0xff];
  }
  stats.or_mask = any;
}

template <class T>
bool is_ramp(std::span<const T> words, T step, T mask) {
  for (size_t i = 1; i < words.size(); ++i)
    if (static_cast<T>((words[i] - words[i - 1]) & mask) != step) return false;
  return true;
}

}  // namespace

codec::Histogram StreamStats::field(unsigned from_top, unsigned bits) const {
  codec::Histogram histogram{bits, {}};
  std::vector<uint64_t> dense(size_t{1} << bits);
  const unsigned shift = top_bits() - from_top - bits;
  for (size_t v = 0; v < top.size(); ++v) dense[(v >> shift) & (dense.size() - 1)] += top[v];
  for (size_t v = 0; v < dense.size(); ++v)
    if (dense[v] != 0) histogram.counts.emplace_back(v, dense[v]);
  return histogram;
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
  stats.top.resize(size_t{1} << stats.top_bits());
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
  bits::visit_lane(words.width, [&]<class T>(T) {
    count_words(words.as<T>(), stats);
    stats.ramp = is_ramp(words.as<T>(), static_cast<T>(stats.step), static_cast<T>(mask));
  });
  return stats;
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
  for (size_t v = 0; v < stats.top.size(); ++v) stats.top[v] += next.top[v];
  for (size_t v = 0; v < stats.low.size(); ++v) stats.low[v] += next.low[v];
  for (size_t kind = 0; kind < stats.cast_image.size(); ++kind)
    stats.cast_image[kind] = stats.cast_image[kind] && next.cast_image[kind];
}

}  // namespace brevis::synth
