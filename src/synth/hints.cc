// SPDX-License-Identifier: Apache-2.0
#include "synth/hints.h"

#include <algorithm>
#include <array>

#include "bits/kernels.h"
#include "synth/complete.h"

namespace brevis::synth {
namespace {

constexpr uint64_t kHintWindows = 8, kHintWords = 4096;      // looked at for hints
constexpr uint64_t kDeltaWords = 2048;                       // of each for the one about deltas
constexpr uint64_t kDeltasOf = 64;                           // deltas have to save one bit in so many
constexpr uint64_t kNoiseBias = 256 * 192, kNoiseSlack = 8;  // of a sample's byte; a word
constexpr uint64_t kZerosOf = 64;                            // one word in so many is zero

// Whether differences of neighbours say in about as few bits, byte by byte, what the words say.
bool hint_of_deltas(std::span<const bits::ConstWords> windows) {
  const unsigned bytes = windows[0].width / 8;
  std::vector<std::array<uint32_t, 256>> plain(bytes), deltas(bytes);
  for (const auto& window : windows) {
    uint64_t last = 0;
    for (size_t i = 0; i < std::min<size_t>(window.count, kDeltaWords); ++i) {
      const uint64_t word = window.at(i), delta = word - last;
      last = word;
      for (unsigned byte = 0; byte < bytes; ++byte) {
        ++plain[byte][word >> 8 * byte & 0xff];
        ++deltas[byte][delta >> 8 * byte & 0xff];
      }
    }
  }
  const auto cost = [](const std::array<uint32_t, 256>& counts) {
    codec::Histogram histogram{8, {}};
    for (size_t v = 0; v < 256; ++v)
      if (counts[v] != 0) histogram.counts.emplace_back(v, counts[v]);
    return entropy_cost(histogram);
  };
  uint64_t before = 0, after = 0, words = 0;
  for (const auto& window : windows) words += std::min<size_t>(window.count, kDeltaWords);
  for (unsigned byte = 0; byte < bytes; ++byte) {
    const uint64_t own = cost(plain[byte]), differences = cost(deltas[byte]);
    // Noise stays noise, and is no measure of what little more the others may cost.
    if (std::min(own, differences) + kNoiseBias + words * kNoiseSlack >= words * 8 * 256) continue;
    before += own;
    after += differences;
  }
  return after < before + before / kDeltasOf;
}

struct Halves {
  std::vector<bits::OwnedWords> owned;
  std::vector<bits::ConstWords> views;
};

// The top 16 bits of wider words, which may repeat where the bits below do not.
Halves top_halves(std::span<const bits::ConstWords> windows) {
  Halves out;
  for (const auto& window : windows) {
    out.owned.emplace_back(16, window.count);
    bits::kernels().take_field(window, window.width - 16, out.owned.back().words());
  }
  for (const auto& words : out.owned) out.views.push_back(words.view());
  return out;
}

}  // namespace

Result<Look> look(const Stream& stream) {
  const uint64_t windows = std::min(kHintWindows, std::max<uint64_t>(1, stream.words / kHintWords));
  const uint64_t size = std::min(kHintWords, stream.words);
  Look sample;
  for (uint64_t w = 0; w < windows; ++w) {
    const uint64_t first = windows == 1 ? 0 : (stream.words - size) / (windows - 1) * w;
    BREVIS_ASSIGN(const bits::ConstWords words, stream.at(first, size, sample.windows.emplace_back()));
    sample.placed.push_back({first, words});
    sample.views.push_back(words);
  }
  return sample;
}

Result<bool> columns_recur(const Stream& stream) {
  constexpr uint64_t kLeastBytes = uint64_t{1} << 18, kLeastRows = 64, kRows = 1024;
  if (stream.width < 32 || stream.shape.size() < 2 || stream.words * (stream.width / 8) < kLeastBytes) return false;
  const uint64_t columns = stream.shape.back();
  if (columns < 2 || stream.words / columns < kLeastRows) return false;
  const uint64_t rows = stream.words / columns, looked = std::min(rows, kRows);
  uint64_t words = 0, different = 0;
  bits::OwnedWords buffer;
  for (const uint64_t column : {columns / 3, columns / 3 + columns / 2}) {
    std::vector<uint64_t> seen;
    for (uint64_t i = 0; i < looked; ++i) {
      BREVIS_ASSIGN(const bits::ConstWords word, stream.at(rows * i / looked * columns + column, 1, buffer));
      seen.push_back(word.at(0));
    }
    std::sort(seen.begin(), seen.end());
    words += looked;
    different += static_cast<uint64_t>(std::unique(seen.begin(), seen.end()) - seen.begin());
  }
  return 3 * different < 2 * words;
}

Hints take_hints(const Look& seen, const StreamStats& stats) {
  bool repeats = repeats_itself(seen.views);
  if (!repeats && stats.width > 16) repeats = repeats_itself(top_halves(seen.views).views);
  const bool narrow = std::find(stats.cast_image.begin(), stats.cast_image.end(), true) != stats.cast_image.end();
  return {repeats, hint_of_deltas(seen.views), stats.top_count(0) >= stats.words / kZerosOf,
          !narrow && words_recur(seen.views)};
}

}  // namespace brevis::synth
