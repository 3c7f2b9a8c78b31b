// SPDX-License-Identifier: Apache-2.0
#include "synth/doubled.h"

#include <algorithm>
#include <cstring>

namespace brevis::synth {
namespace {

using dsl::Expr;
using dsl::OpId;

constexpr uint64_t kLeastWords = 4096;
constexpr uint64_t kMostTile = uint64_t{1} << 20;  // of a transpose
constexpr uint64_t kShorterOf = 4;                 // frames may have a quarter of the usual words
constexpr uint64_t kPlaces = 8, kPlaceWords = 64;  // looked at before all is

// The most rows that frames can have, all alike; 0 where those would be too short.
uint64_t rows_of_frame(uint64_t rows, uint64_t row, uint64_t frame_words) {
  const uint64_t most = std::min({frame_words, kMostTile}) / row;
  uint64_t best = 0;
  for (uint64_t d = 1; d * d <= rows && d <= most; ++d) {
    if (rows % d != 0) continue;
    best = std::max(best, d);
    if (rows / d <= most) best = std::max(best, rows / d);
  }
  return best < 2 || best * row * kShorterOf < std::min(frame_words, rows * row) ? 0 : best;
}

// Whether rows [first, first + rows) are halves and the same halves again.
Result<bool> are_doubled(const Stream& stream, uint64_t row, uint64_t first, uint64_t rows, bits::OwnedWords& buffer) {
  BREVIS_ASSIGN(const bits::ConstWords words, stream.at(first * row, rows * row, buffer));
  return bits::visit_lane(stream.width, [&]<class T>(T) {
    const T* at = words.as<T>().data();
    const uint64_t half = row / 2;
    for (uint64_t r = 0; r < rows; ++r, at += row)
      if (!std::equal(at, at + half, at + half)) return false;
    return true;
  });
}

Result<bool> look_doubled(const Stream& stream, uint64_t row) {
  const uint64_t rows = stream.words / row, look = std::min(rows, std::max<uint64_t>(1, kPlaceWords / row));
  bits::OwnedWords buffer;
  for (uint64_t i = 0; i < kPlaces; ++i) {
    BREVIS_ASSIGN(const bool same, are_doubled(stream, row, (rows - look) / (kPlaces - 1) * i, look, buffer));
    if (!same) return false;
  }
  return true;
}

Result<bool> all_doubled(const Stream& stream, uint64_t row) {
  const uint64_t rows = stream.words / row;
  bits::OwnedWords buffer;
  const uint64_t step = std::max<uint64_t>(1, (uint64_t{1} << 16) / row);
  for (uint64_t first = 0; first < rows; first += step) {
    BREVIS_ASSIGN(const bool same, are_doubled(stream, row, first, std::min(step, rows - first), buffer));
    if (!same) return false;
  }
  return true;
}

}  // namespace

Result<std::optional<Doubled>> find_doubled(const Stream& stream, uint64_t frame_words) {
  if (stream.words < kLeastWords) return std::optional<Doubled>{};
  std::vector<Doubled> ways;
  uint64_t row = 1;
  for (size_t k = stream.shape.size(); k-- > 1;) {
    row *= stream.shape[k];
    if (row == 0 || stream.shape[k] % 2 != 0 || row == 2) continue;
    ways.push_back({row, 0, stream.shape});
    ways.back().half[k] /= 2;
  }
  const bool even = !stream.shape.empty() && stream.shape.back() % 2 == 0;
  ways.push_back({2, 0, even ? stream.shape : std::vector<uint64_t>{}});
  if (even) ways.back().half.back() /= 2;
  for (Doubled& way : ways) {
    if (stream.words % way.row != 0) continue;
    BREVIS_ASSIGN(const bool likely, look_doubled(stream, way.row));
    if (!likely) continue;
    way.rows = rows_of_frame(stream.words / way.row, way.row, frame_words);
    if (way.rows == 0) continue;
    BREVIS_ASSIGN(const bool is, all_doubled(stream, way.row));
    if (is) return std::optional(std::move(way));
  }
  return std::optional<Doubled>{};
}

Stream half_of(const Stream& stream, const Doubled& doubled) {
  Stream out;
  out.dtype = stream.dtype;
  out.width = stream.width;
  out.words = stream.words / 2;
  out.shape = doubled.half;
  out.read = [&stream, row = doubled.row](uint64_t first, bits::Words words) -> Status {
    const uint64_t half = row / 2, rows = (first + words.count - 1) / half - first / half + 1;
    bits::OwnedWords buffer;
    BREVIS_ASSIGN(const bits::ConstWords from, stream.at(first / half * row, rows * row, buffer));
    bits::visit_lane(stream.width, [&]<class T>(T) {
      const T* in = from.as<T>().data();
      T* to = words.as<T>().data();
      uint64_t column = first % half;
      for (uint64_t done = 0; done < words.count; in += row, column = 0) {
        const uint64_t n = std::min(half - column, words.count - done);
        std::copy_n(in + column, n, to + done);
        done += n;
      }
    });
    return {};
  };
  return out;
}

Expr say_twice(const Doubled& doubled, Expr half) {
  const uint64_t columns = doubled.row / 2, rows = doubled.rows;
  if (columns > 1) half = Expr{OpId::transpose, {columns, rows}, {std::move(half)}};
  constexpr uint64_t kXor = 0;
  return {OpId::transpose,
          {rows, doubled.row},
          {{OpId::scan, {kXor, rows * columns}, {std::move(half), {OpId::constant, {0}, {}}}}}};
}

}  // namespace brevis::synth
