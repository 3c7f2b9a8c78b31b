// SPDX-License-Identifier: Apache-2.0
#include "synth/sample.h"

#include <algorithm>
#include <bit>

#include "synth/complete.h"

namespace brevis::synth {
namespace {

constexpr uint64_t kRowsAtLeast = 4;  // of a window, where rows are short enough
constexpr uint64_t kRowsUpTo = 4;     // times the usual window

constexpr uint64_t kOrderWords = 1024;  // of a window, for closeness
constexpr uint64_t kOrderPairs = 512;   // of a window
constexpr uint64_t kOrderWindows = 4;   // evenly among those drawn
constexpr uint64_t kCloserOf = 32;      // closer by one bit in so many
constexpr uint64_t kLeastPairs = 256;   // fewer say nothing

// Bit lengths of differences to the word `stride` before.
struct Spread {
  uint64_t bits = 0, pairs = 0;

  void add(bits::ConstWords words, size_t stride) {
    if (stride >= words.count) return;
    const size_t n = std::min<size_t>(words.count - stride, kOrderPairs);
    bits::visit_lane(words.width, [&]<class T>(T) {
      const T mask = static_cast<T>(bits::low_mask(words.width));
      const T* at = words.as<T>().data();
      uint64_t sum = 0;
      for (size_t i = 0; i < n; ++i) {
        const T up = static_cast<T>((at[i + stride] - at[i]) & mask), down = static_cast<T>((T{0} - up) & mask);
        sum += static_cast<uint64_t>(std::bit_width(std::min(up, down)));
      }
      bits += sum;
    });
    pairs += n;
  }
};

bool close_at(std::span<const bits::ConstWords> windows, size_t stride, const Spread& far) {
  Spread near;
  for (const auto& words : windows) near.add(words, stride);
  return near.pairs >= kLeastPairs && near.bits * far.pairs + near.bits * far.pairs / kCloserOf < far.bits * near.pairs;
}

}  // namespace

bool shows_order(const Stream& stream, const Drawn& drawn) {
  std::vector<bits::ConstWords> views, looked;
  for (const dsl::Window& window : drawn.windows) views.push_back(window.words);
  if (repeats_itself(views)) return true;
  std::vector<size_t> strides{1, 2, 3, 4};
  uint64_t product = 1;
  for (size_t k = stream.shape.size(); k-- > 1 && product <= kOrderWords;) {
    product *= stream.shape[k];
    if (product > 4 && product <= kOrderWords) strides.push_back(product);
  }
  Spread far;
  const size_t step = std::max<size_t>(1, views.size() / kOrderWindows);
  for (size_t w = 0; w < views.size(); w += step) {
    const auto words = views[w].part(0, std::min<size_t>(views[w].count, 2 * kOrderWords));
    far.add(words, words.count / 2 | 1);
    looked.push_back(words);
  }
  if (far.pairs < kLeastPairs) return true;
  return std::any_of(strides.begin(), strides.end(), [&](size_t stride) { return close_at(looked, stride, far); });
}

Result<bool> seems_ordered(const Stream& stream) {
  constexpr uint64_t kWords = 1024, kWindows = 4;
  const uint64_t size = std::min(kWords, stream.words), windows = stream.words < kWords * kWindows ? 1 : kWindows;
  std::vector<bits::OwnedWords> store;
  std::vector<bits::ConstWords> views;
  Spread far;
  for (uint64_t w = 0; w < windows; ++w) {
    BREVIS_ASSIGN(const bits::ConstWords words,
                  stream.at(windows == 1 ? 0 : (stream.words - size) / (windows - 1) * w, size, store.emplace_back()));
    views.push_back(words);
    far.add(views.back(), size / 2 | 1);
  }
  if (far.pairs < kLeastPairs) return true;
  const uint64_t row = stream.shape.size() < 2 ? 1 : stream.shape.back();
  return close_at(views, 1, far) || (row > 1 && row <= kWords / 2 && close_at(views, row, far));
}

Result<Drawn> draw_sample(const Stream& stream, uint64_t frame_words, const Effort& effort) {
  uint64_t size = std::min(effort.window_words, frame_words);
  const uint64_t row = stream.shape.size() < 2 ? 1 : std::max<uint64_t>(1, stream.shape.back());
  if (row > 1 && row * kRowsAtLeast <= size * kRowsUpTo)
    size = std::min(frame_words, (std::max(size, row * kRowsAtLeast) + row - 1) / row * row);
  Drawn out;
  const auto take = [&](uint64_t first, uint64_t count) -> Status {
    BREVIS_ASSIGN(const bits::ConstWords words, stream.at(first, count, out.store.emplace_back()));
    out.windows.push_back({first, words});
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
  pool.asks_all = options.effort->asks_all;
  pool.lambda = options.effort->lambda;
  pool.memory = options.effort->memory;
  pool.shape = stream.shape;
  pool.frame_words = frame_words;
  return TargetPool(stream.dtype, stream.words, drawn.windows, pool);
}

}  // namespace brevis::synth
