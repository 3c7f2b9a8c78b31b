// SPDX-License-Identifier: Apache-2.0
#include "synth/profile.h"

namespace brevis::synth {
namespace {

constexpr Effort kDense{.limits = {.expansions = 60, .patience = 24, .keep = 6},
                        .lambda = kLambdaOne / 16,
                        .window_words = 8192,
                        .rerank_frames = 4,
                        .rerank = 3,
                        .gain_of = 2048,
                        .least_bytes = 8192,
                        .work_per_byte_256 = 8,
                        .first_work = uint64_t{64} << 20,
                        .bonus_work = uint64_t{4} << 20,
                        .least_work_of = 24,
                        .thorough = 32,
                        .plain_after = 0,
                        .counted_after = 4,
                        .follows_mates = false,
                        .prior_streams = 6};
constexpr Effort kBalanced{.limits = {.expansions = 60, .patience = 16, .keep = 6},
                           .window_words = 2048,
                           .rerank = 3,
                           .gain_of = 512,
                           .least_bytes = 32768,
                           .work_per_byte_256 = 8,
                           .first_work = uint64_t{8} << 20,
                           .bonus_work = uint64_t{4} << 20,
                           .least_work_of = 24,
                           .thorough = 6,
                           .in_vain_after = 2,
                           .prior_streams = 3,
                           .prior_factor = 2};
constexpr Effort kFast{.limits = {.expansions = 0}};

}  // namespace

const Effort& effort_of(Profile profile) {
  static constexpr Effort kEfforts[] = {kDense, kBalanced, kFast};
  return kEfforts[static_cast<size_t>(profile)];
}

Effort thorough_effort(const Effort& effort, uint64_t frame_words) {
  constexpr uint64_t kWindows = 2, kWindowWords = uint64_t{1} << 17, kMemory = uint64_t{128} << 20;
  constexpr uint64_t kExpansions = 120;  // whatever the profile, so that they find the same
  constexpr uint64_t kPatience = 96;
  Effort out = effort;
  out.windows = kWindows;
  out.window_words = std::min(frame_words, kWindowWords);
  out.memory = kMemory;
  out.asks_all = true;
  out.limits.expansions = kExpansions;
  out.limits.patience = kPatience;
  out.limits.keep = std::max<size_t>(out.limits.keep, 16);
  out.rerank = std::max<size_t>(out.rerank, 8);
  return out;
}

}  // namespace brevis::synth
