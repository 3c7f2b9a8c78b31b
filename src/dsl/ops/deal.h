// SPDX-License-Identifier: Apache-2.0
//
// What operators share that deal the words of a stream out to several programs by a class of each place: the gate of
// their children and counts, and the moves there and back. Private to ops/.
//
// Errors:  corrupt where classes and children disagree. Threads: Hands belong to one call.
#pragma once

#include <array>
#include <cstring>

#include "bits/kernels.h"
#include "dsl/ops/gate.h"

namespace brevis::dsl {

constexpr size_t kHands = bits::DealHands::kHands;  // programs that words are dealt to
constexpr size_t kDealCounts = kHands - 1;          // the last has what the others leave
constexpr size_t kDealTile = 2048;                  // words dealt at a time

inline Status dealt_lengths(const Node&, uint64_t n, std::span<const uint64_t> counts, std::span<uint64_t> lengths) {
  if (counts.size() != kDealCounts) return make_error(Errc::internal, "three counts expected");
  uint64_t left = n;
  for (size_t i = 0; i < kDealCounts; ++i) {
    if (counts[i] > left)
      return corrupt_stream("count " + std::to_string(counts[i]) + " of class " + std::to_string(i) + " exceeds the " +
                            std::to_string(left) + " words that are left");
    left -= counts[i];
    lengths[i] = counts[i];
  }
  lengths[kDealCounts] = left;
  return {};
}

inline bits::DealHands hands_of(std::span<const bits::ConstWords> in) {
  bits::DealHands hands;
  for (size_t c = 0; c < kHands; ++c) {
    hands.next[c] = in[c].data;
    hands.end[c] = in[c].data + in[c].bytes();
  }
  return hands;
}

// Children that words are taken from, with the place reached in each.
class Hands {
 public:
  explicit Hands(std::span<const bits::ConstWords> in) : hands_(hands_of(in)), lane_(in[0].lane()) {}

  // The words of at most kDealTile classes, in turn; false when there are not as many of each.
  bool take(std::span<const uint8_t> classes, bits::Words out) {
    bits::kernels().count_classes(classes.data(), classes.size(), taken_.data());
    for (size_t c = 0; c < kHands; ++c)
      if (taken_[c] > static_cast<size_t>(hands_.end[c] - hands_.next[c]) / lane_) return false;
    bits::kernels().deal(classes.data(), hands_, out);
    return true;
  }

  size_t taken(size_t c) const { return taken_[c]; }  // by the last take()

 private:
  bits::DealHands hands_;
  size_t lane_;
  std::array<size_t, kHands> taken_{};
};

// Deals `target` out to children by class. `classes(first, out)` gives those of the words from `first` on.
template <class F>
void deal_out(bits::ConstWords target, F&& classes, std::vector<bits::OwnedWords>& children,
              std::vector<uint64_t>& counts) {
  std::vector<uint8_t> all(target.count);
  std::array<size_t, kHands> lengths{}, some{};
  for (size_t at = 0; at < target.count; at += kDealTile) {
    const std::span<uint8_t> tile = std::span(all).subspan(at, std::min(kDealTile, target.count - at));
    classes(at, tile);
    bits::kernels().count_classes(tile.data(), tile.size(), some.data());
    for (size_t c = 0; c < kHands; ++c) lengths[c] += some[c];
  }
  children.clear();
  for (const size_t length : lengths) children.emplace_back(target.width, length);
  counts.assign(lengths.begin(), lengths.begin() + kDealCounts);
  std::array<uint8_t*, kHands> to;
  for (size_t c = 0; c < kHands; ++c) to[c] = children[c].words().data;
  for (size_t at = 0; at < target.count; at += kDealTile) {
    const size_t n = std::min(kDealTile, target.count - at);
    bits::kernels().split(all.data() + at, target.part(at, n), to);
    bits::kernels().count_classes(all.data() + at, n, some.data());
    for (size_t c = 0; c < kHands; ++c) to[c] += some[c] * target.lane();
  }
}

}  // namespace brevis::dsl
