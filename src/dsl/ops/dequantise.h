// SPDX-License-Identifier: Apache-2.0
//
// What `dequantise` and the search for its scales share: levels of quantisers, by place, and types of words. Private to
// ops/.
//
// Threads: tables are constants; a finder serves one thread at a time. Determinism: quotients and products of doubles
// only, none fused; what they give is proved word by word.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "bits/kernels.h"
#include "dsl/op.h"

namespace brevis::dsl {

constexpr unsigned kLevelBits = 9;
constexpr size_t kLevelPlaces = bits::kScaledLevels;
static_assert(kLevelPlaces == size_t{1} << kLevelBits);
constexpr uint16_t kNoLevel = 0;  // the place of words that are stored as they are

// What a quantiser rounds to. Index = parameter: the order is on disk.
enum class LevelKind : uint8_t { integer, e4m3, e5m2, nf4 };
constexpr std::string_view kLevelKinds[] = {"integer", "e4m3", "e5m2", "nf4"};
using LevelTable = std::array<float, kLevelPlaces>;
// By place; +0 where there is no level.
const LevelTable& levels_of(LevelKind kind);

// Whether products with any level are zero or normal numbers.
bool is_scale(uint32_t f32);

constexpr unsigned width_of(bits::ScaledFloat type) { return type == bits::ScaledFloat::f32 ? 32 : 16; }

class ScaleFinder {
 public:
  ScaleFinder(LevelKind kind, bits::ScaledFloat type);

  // The scale of the fewest digits that gives the words of a block (as the bits of their type), and their places;
  // kNoLevel for infinities, NaNs and words that were rounded twice. False: there is none.
  bool find(std::span<const uint32_t> words, uint32_t& scale, std::vector<uint16_t>& places);

  // Sizes that a scale may have.
  struct Interval {
    double low, high;
  };

 private:
  template <bits::ScaledFloat kType>
  bool find_typed(std::span<const uint32_t> words, uint32_t& scale, std::vector<uint16_t>& places);
  // Takes words for the levels that they have by the middle of what is left of the interval; false once nothing is.
  template <bits::ScaledFloat kType>
  bool narrow(std::span<const uint32_t> words, bool negative, Interval& scales, std::vector<uint16_t>& places) const;
  uint16_t place_near(double level) const;
  // Takes places off words that they do not give; false when they are many.
  bool prove(std::span<const uint32_t> words, float scale, std::vector<uint16_t>& places);

  const LevelKind kind_;
  const bits::ScaledFloat type_;
  const LevelTable& levels_;
  const uint32_t sign_, infinite_;                             // of words
  const std::vector<std::pair<double, uint16_t>>& ascending_;  // levels and their places
  std::vector<float> anchors_;                                 // levels of the largest word, what did last first
  std::array<double, kLevelPlaces> parts_{};                   // 1 / level, without its sign
  std::vector<float> scales_;
  std::vector<uint32_t> given_;
};

}  // namespace brevis::dsl
