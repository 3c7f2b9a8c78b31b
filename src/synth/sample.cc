// SPDX-License-Identifier: Apache-2.0
#include "synth/sample.h"

#include <algorithm>

namespace brevis::synth {
namespace {

constexpr uint64_t kRowsAtLeast = 4;  // of a window, where rows are short enough
constexpr uint64_t kRowsUpTo = 4;     // times the usual window

}  // namespace

Result<Drawn> draw_sample(const Stream& stream, uint64_t frame_words, const Effort& effort) {
  uint64_t size = std::min(effort.window_words, frame_words);
  const uint64_t row = stream.shape.size() < 2 ? 1 : std::max<uint64_t>(1, stream.shape.back());
  if (row > 1 && row * kRowsAtLeast <= size * kRowsUpTo)
    size = std::min(frame_words, (std::max(size, row * kRowsAtLeast) + row - 1) / row * row);
  Drawn out;
  const auto take = [&](uint64_t first, uint64_t count) -> Status {
    out.store.emplace_back(stream.width, count);
    BREVIS_TRY(stream.read(first, out.store.back().words()));
    out.windows.push_back({first, out.store.back().view()});
    return {};
  };
  if (stream.words <= size * effort.windows) {
    for (uint64_t first = 0; first < stream.words; first += frame_words)
      BREVIS_TRY(take(first, std::min(frame_words, stream.words - first)));
    return out;
  }
  for (uint64_t w = 0; w < effort.windows; ++w) {
    const uint64_t first = (stream.words - size) / (effort.windows - 1) * w;
    BREVIS_TRY(take(first / row * row, size));
  }
  return out;
}

TargetPool pool_for(const Stream& stream, uint64_t frame_words, const Drawn& drawn, const SearchOptions& options) {
  PoolOptions pool;
  pool.lambda = options.effort->lambda;
  pool.shape = stream.shape;
  pool.frame_words = frame_words;
  return TargetPool(stream.dtype, stream.words, drawn.windows, pool);
}

}  // namespace brevis::synth
