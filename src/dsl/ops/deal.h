// SPDX-License-Identifier: Apache-2.0
//
// What operators share that deal the words of a stream out to several programs by a class of each place: the gate of
// their children and counts, and the moves there and back. Private to ops/.
//
// Errors:  corrupt where classes and children disagree. Threads: a Hand belongs to one call.
#pragma once

#include <array>
#include <cstring>
#include <type_traits>

#include "dsl/ops/gate.h"

namespace brevis::dsl {

constexpr size_t kHands = 4;                // programs that words are dealt to
constexpr size_t kDealCounts = kHands - 1;  // the last has what the others leave
constexpr size_t kDealTile = 2048;          // words dealt at a time

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

// Children being dealt from or to, with the place reached in each.
template <class T>
class Hands {
 public:
  // `lengths`: words of each; their classes are below the number of hands.
  Hands(const std::array<T*, kHands>& words, const std::array<size_t, kHands>& lengths)
      : next_(words), left_(lengths) {}

  // Whether as many words of each class are left. At most kDealTile classes.
  bool holds(std::span<const uint8_t> classes) {
    tile_ = {};
    for (const uint8_t one : classes) ++tile_[one];
    bool enough = true;
    for (size_t c = 0; c < kHands; ++c) enough = enough && tile_[c] <= left_[c];
    return enough;
  }

  size_t held(size_t c) const { return tile_[c]; }  // by the last holds()

  // The words of the classes that holds() saw, in turn. One addition carries all places: they fit 16 bits each.
  void take(std::span<const uint8_t> classes, std::remove_const_t<T>* out) {
    uint64_t places = 0;
    for (size_t i = 0; i < classes.size(); ++i) {
      const unsigned shift = 16u * classes[i];
      out[i] = next_[classes[i]][places >> shift & 0xffff];
      places += uint64_t{1} << shift;
    }
    pass();
  }
  void put(std::span<const uint8_t> classes, const T* in) requires(!std::is_const_v<T>) {
    uint64_t places = 0;
    for (size_t i = 0; i < classes.size(); ++i) {
      const unsigned shift = 16u * classes[i];
      next_[classes[i]][places >> shift & 0xffff] = in[i];
      places += uint64_t{1} << shift;
    }
    pass();
  }

 private:
  void pass() {
    for (size_t c = 0; c < kHands; ++c) {
      next_[c] += tile_[c];
      left_[c] -= tile_[c];
    }
  }

  std::array<T*, kHands> next_;
  std::array<size_t, kHands> left_, tile_{};
};

template <class T>
Hands<const T> hands_of(std::span<const bits::ConstWords> in) {
  std::array<const T*, kHands> words{};
  std::array<size_t, kHands> lengths{};
  for (size_t i = 0; i < kHands; ++i) {
    words[i] = in[i].as<T>().data();
    lengths[i] = in[i].count;
  }
  return {words, lengths};
}

// Deals `target` out to children by class. `classes(first, out)` gives those of the words from `first` on.
template <class F>
void deal_out(bits::ConstWords target, F&& classes, std::vector<bits::OwnedWords>& children,
              std::vector<uint64_t>& counts) {
  std::vector<uint8_t> all(target.count);
  std::array<size_t, kHands> lengths{};
  for (size_t at = 0; at < target.count; at += kDealTile)
    classes(at, std::span(all).subspan(at, std::min(kDealTile, target.count - at)));
  for (const uint8_t one : all) ++lengths[one];
  children.clear();
  for (const size_t length : lengths) children.emplace_back(target.width, length);
  counts.assign(lengths.begin(), lengths.begin() + kDealCounts);
  bits::visit_lane(target.width, [&]<class T>(T) {
    std::array<T*, kHands> words{};
    for (size_t i = 0; i < kHands; ++i) words[i] = children[i].words().template as<T>().data();
    Hands<T> to(words, lengths);
    const T* from = target.as<T>().data();
    for (size_t at = 0; at < target.count; at += kDealTile) {
      const auto tile = std::span<const uint8_t>(all).subspan(at, std::min(kDealTile, target.count - at));
      to.holds(tile);
      to.put(tile, from + at);
    }
  });
}

}  // namespace brevis::dsl
