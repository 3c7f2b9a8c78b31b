// SPDX-License-Identifier: Apache-2.0
//
// Streams to choose programs for.
#pragma once

#include <algorithm>
#include <cmath>

#include "support/weights.h"
#include "synth/choose.h"
#include "synth/grammar.h"

namespace brevis::test {

struct Case {
  const char* name;
  Dtype dtype;
  ByteVector bytes;
  std::vector<uint64_t> shape;
};

// Curves down their columns, as style vectors are.
inline ByteVector smooth_words(size_t rows, size_t columns) {
  ByteVector out(2 * rows * columns);
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < columns; ++c) {
      const double value = (1 + double(c % 7)) * (0.3 + double((r * (c + 3)) % (40 * (c + 3))) / double(40 * (c + 3)));
      const uint64_t word = to_float_word(Dtype::BF16, value);
      out[2 * (r * columns + c)] = static_cast<uint8_t>(word);
      out[2 * (r * columns + c) + 1] = static_cast<uint8_t>(word >> 8);
    }
  return out;
}

// Deviations that change from stretch to stretch, within a factor of 256: neighbours tell.
inline ByteVector swelling_words(size_t rows, size_t columns) {
  constexpr size_t kStretch = 32;
  ByteVector out;
  for (size_t at = 0; at < rows * columns; at += kStretch) {
    const uint64_t step = at / kStretch * 7919 % 97;
    const double deviation = 0.0001 * double(uint64_t{1} << step / 12) * (1 + double(step % 12) / 12);
    const ByteVector part = gaussian_words(Dtype::BF16, kStretch, at, deviation);
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

// What was quantised to four bits, a scale a row, and widened again.
inline ByteVector requantised_words(size_t rows, size_t columns) {
  ByteVector out;
  Rng rng(3);
  for (size_t r = 0; r < rows; ++r) {
    const double scale = 0.01 * double(uint64_t{1} << r * 31 % 4) * (1 + double(r * 53 % 128) / 128);
    for (size_t c = 0; c < columns; ++c) {
      const double step = std::clamp(std::round(rng.gaussian() * 2.5), -8.0, 7.0);
      const uint64_t word = to_float_word(Dtype::BF16, step * scale);
      out.push_back(static_cast<uint8_t>(word));
      out.push_back(static_cast<uint8_t>(word >> 8));
    }
  }
  return out;
}

struct World {
  const synth::Grammar grammar;
  const synth::Prior prior;
  const synth::Effort effort = synth::effort_of(synth::Profile::balanced);
};

inline synth::Stream stream_of(const Case& one) {
  synth::Stream stream;
  stream.dtype = one.dtype;
  stream.width = dtype_info(one.dtype).word_bits();
  stream.words = one.bytes.size() / (stream.width / 8);
  stream.shape = one.shape;
  stream.held = one.bytes.data();
  stream.read = [&bytes = one.bytes, width = stream.width](uint64_t first, bits::Words out) -> Status {
    std::copy_n(bytes.data() + first * (width / 8), out.bytes(), out.data);
    return {};
  };
  return stream;
}

}  // namespace brevis::test
