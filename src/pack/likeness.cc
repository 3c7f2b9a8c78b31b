// SPDX-License-Identifier: Apache-2.0
#include "pack/likeness.h"

#include <algorithm>
#include <bit>

namespace brevis::pack {
namespace {

constexpr uint64_t kStretches = 2;      // of a tensor that are looked at
constexpr uint64_t kStretchWords = 64;  // of each
constexpr size_t kLeastWords = 16;      // of a sketch that tells something
// Words of related tensors differ by a seventh fewer bits than words of different places, at least.
constexpr uint64_t kNearerOf = 8;
constexpr size_t kOneByOne = 32;   // tensors of a shape that are compared without keys
constexpr size_t kCompared = 8;    // of those that share most keys
constexpr size_t kCommonKey = 64;  // tensors that share a key which tells nothing
constexpr size_t kMostSketched = 65536;
constexpr size_t kRoughWords = 4, kExactWords = 2;  // that make a key

uint32_t mix(uint32_t hash, uint64_t value) {
  const uint64_t mixed = (value ^ (uint64_t{hash} << 32 | hash)) * 0x9e3779b97f4a7c15u;
  return static_cast<uint32_t>(mixed >> 32) ^ static_cast<uint32_t>(mixed);
}

}  // namespace

Result<Sketch> Sketch::take(Dtype dtype, uint64_t bytes, const Read& read) {
  Sketch out;
  out.dtype_ = dtype;
  const unsigned width = dtype_info(dtype).word_bits(), lane = width / 8;
  const uint64_t words = bytes / lane;
  if (words <= kStretches * kStretchWords) {
    out.words_ = bits::OwnedWords(width, words);
    if (words != 0) BREVIS_TRY(read(0, out.words_.words().byte_span()));
    return out;
  }
  out.words_ = bits::OwnedWords(width, kStretches * kStretchWords);
  for (uint64_t i = 0; i < kStretches; ++i) {
    const uint64_t first = (words - kStretchWords) / (2 * kStretches) * (2 * i + 1);
    BREVIS_TRY(read(first * lane, out.words_.words().part(i * kStretchWords, kStretchWords).byte_span()));
  }
  return out;
}

bool Sketch::is_telling() const {
  if (words_.count() < kLeastWords) return false;
  for (size_t i = 1; i < words_.count(); ++i)
    if (words_.view().at(i) != words_.view().at(0)) return true;
  return false;
}

uint64_t Sketch::place_at(size_t i) const {
  const uint64_t word = words_.view().at(i), mask = bits::low_mask(words_.width()), sign = mask ^ mask >> 1;
  if (!dtype_info(dtype_).is_float()) return word;
  return (word & sign) != 0 ? word ^ mask : word ^ sign;
}

uint64_t Sketch::distance(const Sketch& other, size_t shift) const {
  const uint64_t mask = bits::low_mask(words_.width()), sign = mask ^ mask >> 1;
  const size_t n = words_.count();
  uint64_t sum = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t step = (place_at(i) - other.place_at((i + shift) % n)) & mask;
    sum += static_cast<uint64_t>(std::bit_width((step & sign) != 0 ? mask - step + 1 : step));
  }
  return sum;
}

bool Sketch::resembles(const Sketch& other) const {
  const uint64_t apart = distance(other, 1);
  return distance(other, 0) <= apart - apart / kNearerOf;
}

std::vector<uint32_t> Sketch::keys() const {
  const DtypeInfo& info = dtype_info(dtype_);
  const unsigned rough = info.is_float() ? info.mantissa_bits : words_.width() / 2;
  std::vector<uint32_t> out;
  const auto add = [&](size_t size, unsigned shift) {
    for (size_t first = 0; first + size <= words_.count(); first += size) {
      uint32_t key = mix(shift, first);
      for (size_t i = first; i < first + size; ++i) key = mix(key, words_.view().at(i) >> shift);
      out.push_back(key);
    }
  };
  add(kRoughWords, rough);
  add(kExactWords, 0);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void Likeness::add(const TensorInfo& tensor, const archive::BaseSpan& span) {
  groups_[{tensor.dtype, tensor.shape, tensor.span.length}].spans.push_back(span);
}

Status Likeness::sketch_all(Dtype dtype, Group& group) {
  group.is_sketched = true;
  const bool by_keys = group.spans.size() > kOneByOne;
  for (uint32_t i = 0; i < group.spans.size() && sketched_ < kMostSketched; ++i, ++sketched_) {
    const archive::BaseSpan& span = group.spans[i];
    BREVIS_ASSIGN(Sketch sketch, Sketch::take(dtype, span.range.length, [&](uint64_t offset, MutByteSpan out) {
                    return read_(span, offset, out);
                  }));
    if (by_keys)
      for (const uint32_t key : sketch.keys()) group.keys.emplace_back(key, i);
    group.sketches.push_back(std::move(sketch));
  }
  std::sort(group.keys.begin(), group.keys.end());
  return {};
}

// By falling number of keys in common.
std::vector<uint32_t> Likeness::candidates(const Group& group, const Sketch& sketch) {
  std::vector<uint32_t> out;
  if (group.spans.size() <= kOneByOne) {
    for (uint32_t i = 0; i < group.sketches.size(); ++i) out.push_back(i);
    return out;
  }
  std::map<uint32_t, size_t> shared;
  for (const uint32_t key : sketch.keys()) {
    const auto first = std::lower_bound(group.keys.begin(), group.keys.end(), std::pair(key, uint32_t{0}));
    auto last = first;
    while (last != group.keys.end() && last->first == key) ++last;
    if (static_cast<size_t>(last - first) > kCommonKey) continue;
    for (auto at = first; at != last; ++at) ++shared[at->second];
  }
  for (const auto& [index, keys] : shared) out.push_back(index);
  std::stable_sort(out.begin(), out.end(), [&](uint32_t a, uint32_t b) { return shared.at(a) > shared.at(b); });
  if (out.size() > kCompared) out.resize(kCompared);
  return out;
}

Result<std::optional<archive::BaseSpan>> Likeness::nearest_named(Dtype dtype, const Sketch& sketch,
                                                                 const std::vector<archive::BaseSpan>& named) const {
  std::optional<archive::BaseSpan> best;
  uint64_t least = UINT64_MAX;
  for (size_t i = 0; i < std::min(named.size(), kOneByOne); ++i) {
    BREVIS_ASSIGN(const Sketch other, Sketch::take(dtype, named[i].range.length, [&](uint64_t offset, MutByteSpan out) {
                    return read_(named[i], offset, out);
                  }));
    const uint64_t distance = sketch.distance(other);
    if (distance >= least || !sketch.resembles(other)) continue;
    least = distance;
    best = named[i];
  }
  return best;
}

Result<std::optional<archive::BaseSpan>> Likeness::nearest(Dtype dtype, const Sketch& sketch, Group& group) {
  if (!group.is_sketched) BREVIS_TRY(sketch_all(dtype, group));
  std::optional<archive::BaseSpan> best;
  uint64_t least = UINT64_MAX;
  for (const uint32_t i : candidates(group, sketch)) {
    const uint64_t distance = sketch.distance(group.sketches[i]);
    if (distance >= least || !sketch.resembles(group.sketches[i])) continue;
    least = distance;
    best = group.spans[i];
  }
  return best;
}

Result<std::optional<archive::BaseSpan>> Likeness::find(const TensorInfo& tensor, const Sketch::Read& read,
                                                        const std::vector<archive::BaseSpan>& named) {
  using Found = std::optional<archive::BaseSpan>;
  const Found first = named.empty() ? Found() : Found(named.front());
  const auto group = groups_.find({tensor.dtype, tensor.shape, tensor.span.length});
  const bool others = group != groups_.end() && group->second.spans.size() > named.size();
  if (!others && named.size() <= 1) return first;
  BREVIS_ASSIGN(const Sketch sketch, Sketch::take(tensor.dtype, tensor.span.length, read));
  if (!sketch.is_telling()) return first;
  BREVIS_ASSIGN(Found best, nearest_named(tensor.dtype, sketch, named));
  if (!best && others) {
    BREVIS_ASSIGN(best, nearest(tensor.dtype, sketch, group->second));
  }
  return best ? best : first;
}

}  // namespace brevis::pack
