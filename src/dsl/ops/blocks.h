// SPDX-License-Identifier: Apache-2.0
//
// Blocks of a matrix as `levels` and `dequantise` cut a region's stream into them: rows of `row` words, blocks of
// `columns` by `rows`, of which the last of a row may be narrower. A band is `rows` rows: what a frame has of one is
// read or written at a time. Private to ops/.
//
// Threads: pure functions.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "dsl/ops/gate.h"

namespace brevis::dsl {

struct Blocks {
  static constexpr uint64_t kMaxSide = uint64_t{1} << 20;
  static constexpr size_t kMostAcross = 65536;  // each is kept in mind while a frame is read

  size_t across() const { return static_cast<size_t>((row + columns - 1) / columns); }
  uint64_t row, columns, rows;
};

inline Status check_blocks(const Blocks& blocks) {
  if (blocks.row == 0 || blocks.row > Blocks::kMaxSide) return gate_error("rows have 1 to 2^20 words");
  if (blocks.columns == 0 || blocks.columns > blocks.row) return gate_error("blocks have 1 to as many columns as rows");
  if (blocks.rows == 0 || blocks.rows > Blocks::kMaxSide) return gate_error("blocks have 1 to 2^20 rows");
  if (blocks.across() > Blocks::kMostAcross) return gate_error("rows have at most 65,536 blocks");
  return {};
}

// Calls f(band, block across, first word in the frame, words) for the stretches of `n` words from `position` on that
// lie in one row of one block; bands are counted from 1. Ends when f says false.
template <class F>
void for_stretches(const Blocks& blocks, uint64_t position, size_t n, F&& f) {
  uint64_t column = position % blocks.row,
           left = blocks.rows - position / blocks.row % blocks.rows;  // rows of the band
  uint32_t band = 1;
  for (size_t at = 0; at < n;) {
    uint64_t block = column / blocks.columns, end = std::min(blocks.row, (block + 1) * blocks.columns);
    for (; at < n && column < blocks.row; column = end, end = std::min(blocks.row, end + blocks.columns), ++block) {
      const auto words = static_cast<size_t>(std::min<uint64_t>(end - column, n - at));
      if (!f(band, static_cast<size_t>(block), at, words)) return;
      at += words;
      if (at == n) return;
    }
    column = 0;
    if (--left == 0) {
      left = blocks.rows;
      ++band;
    }
  }
}

// A part of one row, and where its words stand when those of the band are ordered by block.
struct Stretch {
  size_t across, at, words, to;
};
// The words of one block when those of the band are ordered by block; in the order of their first words.
struct BlockWords {
  size_t across, at, words;
};

// Calls f(stretches, blocks) for each band that `n` words from `position` on have a part of.
template <class F>
void for_bands(const Blocks& blocks, uint64_t position, size_t n, F&& f) {
  std::vector<Stretch> stretches;
  std::vector<BlockWords> met;
  std::vector<size_t> turn(blocks.across()), number(blocks.across());  // of the band a block was met in, and in `met`
  uint32_t band = 1;
  const auto finish = [&] {
    size_t sum = 0;
    for (BlockWords& block : met) {
      block.at = sum;
      sum += block.words;
    }
    std::vector<size_t> next(met.size());
    for (size_t i = 0; i < met.size(); ++i) next[i] = met[i].at;
    for (Stretch& stretch : stretches) {
      size_t& to = next[number[stretch.across]];
      stretch.to = to;
      to += stretch.words;
    }
    f(std::span<const Stretch>(stretches), std::span<const BlockWords>(met));
    stretches.clear();
    met.clear();
  };
  for_stretches(blocks, position, n, [&](uint32_t of, size_t across, size_t at, size_t words) {
    if (of != band) finish();
    band = of;
    if (turn[across] != of) {
      turn[across] = of;
      number[across] = met.size();
      met.push_back({across, 0, 0});
    }
    met[number[across]].words += words;
    stretches.push_back({across, at, words, 0});
    return true;
  });
  if (!stretches.empty()) finish();
}

}  // namespace brevis::dsl
