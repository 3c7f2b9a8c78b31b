// SPDX-License-Identifier: Apache-2.0
#include "synth/kin.h"

#include <algorithm>

#include "synth/sample.h"

namespace brevis::synth {
namespace {

constexpr uint64_t kResemblanceOf = 16;  // of the entropy
constexpr unsigned kDoubtEvery = 8;      // the 8th in a row, the 64th, ... is looked at nevertheless

}  // namespace

bool is_doubted(unsigned in_a_row) {
  while (in_a_row != 0 && in_a_row % kDoubtEvery == 0) in_a_row /= kDoubtEvery;
  return in_a_row == 1;
}

bool resembles(uint64_t entropy, uint64_t other) {
  return std::max(entropy, other) - std::min(entropy, other) <= other / kResemblanceOf;
}

Result<bool> is_like(const Stream& stream, uint64_t entropy, const Kin& kin, unsigned after) {
  if (after == 0 || kin.in_a_row < after) return false;
  if (is_doubted(kin.in_a_row)) return false;
  if (!resembles(entropy / stream.words, kin.entropy)) return false;
  BREVIS_ASSIGN(const bool ordered, seems_ordered(stream));
  return !ordered;
}

}  // namespace brevis::synth
