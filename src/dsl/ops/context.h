// SPDX-License-Identifier: Apache-2.0
//
// What the two halves of the operator `context` share: parameters, levels of words and the classes of sums of levels.
// Private to ops/.
//
// Threads: values. Owns: its vectors.
#pragma once

#include <array>
#include <bit>

#include "dsl/ops/deal.h"

namespace brevis::dsl {

constexpr uint64_t kMaxContextStride = uint64_t{1} << 20;
constexpr uint64_t kMaxContextWeight = 4;
constexpr size_t kMaxContextTerms = bits::LevelSums::kMaxTerms;
constexpr uint64_t kLongStride = bits::LevelJoin::kNearest;  // from here on stretches pay
using bits::kTopLevel;
constexpr size_t kContextSums = kTopLevel * kMaxContextWeight * kMaxContextTerms + 1;

enum class LevelOf : uint8_t { field, size };

// A word that counts, `stride` words before, so many times.
struct ContextTerm {
  uint64_t stride, weight;
};

struct ContextParams {
  LevelOf level;
  unsigned shift, bits;
  std::vector<ContextTerm> terms;

  // Parameters past their gate.
  static ContextParams of(const Node& node);
};

// What a field's value says before it is cut to levels.
inline uint64_t raw_level(LevelOf kind, uint64_t field, unsigned bits) {
  if (kind == LevelOf::field) return field;
  // Without branches: signs are as good as random.
  const uint64_t negative = 0 - (field >> (bits - 1));
  const uint64_t size = ((field ^ negative) - negative) & bits::low_mask(bits);
  const unsigned n = static_cast<unsigned>(std::bit_width(size));
  return n < 2 ? n : 2 * n - 1 + (size >> (n - 2) & 1);
}

// The same of fields of 32 bits or fewer: a double has the size of an integer and its second bit side by side, above
// the 51 mantissa bits that follow them.
inline uint64_t raw_level_of_short(uint32_t field, unsigned bits) {
  const uint32_t negative = 0 - (field >> (bits - 1));
  const uint32_t size = ((field ^ negative) - negative) & static_cast<uint32_t>(bits::low_mask(bits));
  constexpr uint64_t kOfOne = 2 * 1023;
  const uint64_t top = std::bit_cast<uint64_t>(static_cast<double>(size)) >> 51;
  return size == 0 ? 0 : top - (kOfOne - 1);
}

inline uint8_t level_of(uint64_t raw, uint64_t low) {
  return static_cast<uint8_t>(raw < low ? 0 : std::min<uint64_t>(raw - low, kTopLevel));
}

// What is bound to a node: levels begin at `low`, words before the frame have level `start`, and class c begins at the
// sum thresholds[c - 1].
struct ContextClasses : Blob {
  uint64_t low = 0;
  uint8_t start = 0;
  std::array<uint16_t, kDealCounts> thresholds{};
  uint64_t bytes() const override { return sizeof(ContextClasses); }
};

// The levels of words that follow one another.
void context_levels(const ContextParams& params, uint64_t low, bits::ConstWords words, uint8_t* out);

std::unique_ptr<Fitter> fit_context(const Node& node);
void propose_contexts(const Target& target, std::vector<Proposal>& out);

}  // namespace brevis::dsl
