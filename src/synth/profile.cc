// SPDX-License-Identifier: Apache-2.0
#include "synth/profile.h"

#include "synth/decode_cost.h"

namespace brevis::synth {
namespace {

Effort dense() {
  Effort out;
  out.limits.expansions = 400;
  out.limits.keep = 6;
  out.lambda = kLambdaOne / 4;
  out.window_words = 8192;
  out.rerank_frames = 4;
  out.rerank = 3;
  out.gain_of = 2048;
  out.least_bytes = 2048;
  out.work_per_byte_256 = 128;
  out.first_work = uint64_t{64} << 20;
  out.bonus_work = uint64_t{16} << 20;
  out.prior_streams = 6;
  return out;
}

Effort balanced() {
  Effort out;
  out.limits.expansions = 60;
  out.limits.keep = 3;
  out.lambda = kLambdaOne;
  out.window_words = 2048;
  out.rerank_frames = 2;
  out.rerank = 1;
  out.gain_of = 128;
  out.least_bytes = 32768;
  out.work_per_byte_256 = 8;
  out.first_work = uint64_t{8} << 20;
  out.bonus_work = uint64_t{4} << 20;
  out.prior_streams = 3;
  out.prior_factor = 2;
  return out;
}

Effort fast() {
  Effort out;
  out.limits.expansions = 0;
  return out;
}

}  // namespace

const Effort& effort_of(Profile profile) {
  static const Effort kEfforts[] = {dense(), balanced(), fast()};
  return kEfforts[static_cast<size_t>(profile)];
}

}  // namespace brevis::synth
