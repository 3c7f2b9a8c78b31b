// SPDX-License-Identifier: Apache-2.0
#include "support/weights.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

namespace brevis::test {
namespace {

void put(ByteVector& out, unsigned word_bits, uint64_t word) {
  const size_t at = out.size();
  out.resize(at + word_bits / 8);
  std::memcpy(out.data() + at, &word, word_bits / 8);
}

ByteVector with_room(unsigned word_bits, size_t count) {
  ByteVector out;
  out.reserve(count * (word_bits / 8));
  return out;
}

uint64_t to_integer_word(unsigned word_bits, double value) {
  const double top = std::ldexp(1.0, static_cast<int>(word_bits) - 1);
  const double bounded = std::clamp(std::nearbyint(value), -top, top - 1);
  return static_cast<uint64_t>(static_cast<int64_t>(bounded));
}

uint64_t to_word(Dtype dtype, double value) {
  const DtypeInfo& info = dtype_info(dtype);
  if (info.is_float()) return to_float_word(dtype, value);
  // A normal value divided by its deviation of 0.02 and spread over the type: quantised weights use their whole range.
  return to_integer_word(info.bits, value * 50 * std::ldexp(1.0, info.bits - 1) / 5);
}

}  // namespace

uint64_t Rng::next() {
  state_ += 0x9e3779b97f4a7c15u;
  uint64_t z = state_;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

uint64_t Rng::below(uint64_t limit) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(next()) * limit >> 64);
}

double Rng::gaussian() {
  // Twelve 16-bit uniforms have a variance of 2^32; 32 random bits below them fill long mantissas.
  uint64_t sum = 0;
  for (int i = 0; i < 3; ++i) {
    const uint64_t bits = next();
    sum += (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
  }
  const double fraction = static_cast<double>(next() >> 32) * 0x1p-32;
  return (static_cast<double>(static_cast<int64_t>(sum) - 6 * 65536) + fraction) * 0x1p-16;
}

ByteVector random_bytes(size_t size, uint64_t seed) {
  Rng rng(seed);
  ByteVector out(size);
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t word = rng.next();
    std::memcpy(out.data() + at, &word, std::min<size_t>(8, size - at));
  }
  return out;
}

uint64_t to_float_word(Dtype dtype, double value) {
  const DtypeInfo& info = dtype_info(dtype);
  assert(info.is_float() && info.sign_bits == 1);
  const uint64_t sign = std::bit_cast<uint64_t>(value) >> 63;
  const double magnitude = std::fabs(value);
  const int bias = (1 << (info.exponent_bits - 1)) - 1;
  const int mantissa_bits = info.mantissa_bits;
  const uint64_t hidden = uint64_t{1} << mantissa_bits;
  // E4M3 has no infinities: its top exponent holds values, all but the last word.
  const bool finite_top = dtype == Dtype::F8_E4M3;
  const uint64_t all_exponents = (uint64_t{1} << info.exponent_bits) - 1;
  const uint64_t largest =
      finite_top ? (all_exponents << mantissa_bits | (hidden - 2)) : (all_exponents << mantissa_bits) - 1;
  uint64_t word = 0;
  if (magnitude != 0) {
    int exponent = 0;
    std::frexp(magnitude, &exponent);  // magnitude in [2^(exponent-1), 2^exponent)
    const int lowest = 1 - bias;
    const int scale = std::max(exponent - 1, lowest);
    // Units in the last place; a carry out of the mantissa runs into the exponent, as it should.
    const uint64_t units = static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, mantissa_bits - scale)));
    const uint64_t base = static_cast<uint64_t>(scale - lowest) << mantissa_bits;
    word = std::min(base + units, largest);
  }
  return sign << (info.bits - 1) | word;
}

ByteVector gaussian_words(Dtype dtype, size_t count, uint64_t seed, double deviation) {
  const unsigned bits = dtype_info(dtype).bits;
  ByteVector out = with_room(bits, count);
  Rng rng(seed);
  for (size_t i = 0; i < count; ++i) put(out, bits, to_word(dtype, rng.gaussian() * deviation));
  return out;
}

ByteVector channel_words(Dtype dtype, size_t rows, size_t columns, uint64_t seed) {
  const unsigned bits = dtype_info(dtype).bits;
  ByteVector out = with_room(bits, rows * columns);
  Rng rng(seed);
  for (size_t row = 0; row < rows; ++row) {
    const double deviation = 0.02 * static_cast<double>(8 + rng.below(57)) / 64;
    for (size_t i = 0; i < columns; ++i) put(out, bits, to_word(dtype, rng.gaussian() * deviation));
  }
  return out;
}

ByteVector upcast_words(size_t count, uint64_t seed) {
  ByteVector out = with_room(32, count);
  Rng rng(seed);
  for (size_t i = 0; i < count; ++i) put(out, 32, to_float_word(Dtype::BF16, rng.gaussian() * 0.02) << 16);
  return out;
}

ByteVector constant_words(unsigned word_bits, size_t count, uint64_t word) {
  return ramp_words(word_bits, count, word, 0);
}

ByteVector ramp_words(unsigned word_bits, size_t count, uint64_t start, uint64_t step) {
  ByteVector out = with_room(word_bits, count);
  for (size_t i = 0; i < count; ++i, start += step) put(out, word_bits, start);
  return out;
}

ByteVector palette_words(unsigned word_bits, size_t count, unsigned colours, uint64_t seed) {
  assert(colours > 0);
  ByteVector out = with_room(word_bits, count);
  Rng rng(seed);
  std::vector<uint64_t> palette(colours);
  for (auto& colour : palette) colour = rng.next();
  for (size_t i = 0; i < count; ++i) put(out, word_bits, palette[std::min(rng.below(colours), rng.below(colours))]);
  return out;
}

ByteVector zero_heavy_words(Dtype dtype, size_t count, uint64_t seed, unsigned zeros_per_mille) {
  const unsigned bits = dtype_info(dtype).bits;
  ByteVector out = with_room(bits, count);
  Rng rng(seed);
  for (size_t i = 0; i < count; ++i) {
    const double value = rng.gaussian() * 0.02;
    put(out, bits, rng.below(1000) < zeros_per_mille ? 0 : to_word(dtype, value));
  }
  return out;
}

ByteVector perturbed(ByteSpan words, unsigned word_bits, uint64_t seed, unsigned per_mille) {
  ByteVector out(words.begin(), words.end());
  Rng rng(seed);
  const size_t step = word_bits / 8;
  for (size_t at = 0; at + step <= out.size(); at += step) {
    if (rng.below(1000) >= per_mille) continue;
    uint64_t word = 0;
    std::memcpy(&word, out.data() + at, step);
    word += rng.below(7) - 3;
    std::memcpy(out.data() + at, &word, step);
  }
  return out;
}

}  // namespace brevis::test
