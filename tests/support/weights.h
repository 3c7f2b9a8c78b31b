// SPDX-License-Identifier: Apache-2.0
//
// Seeded data that resembles what checkpoints hold: the same bytes for the same arguments on every machine, so that
// ratios and digests can be written down. All words are little-endian.
//
// Errors:  none; a dtype a generator cannot make is a fault of the test (assert).
// Threads: an Rng belongs to one thread; the functions are pure.
#pragma once

#include "brevis/types.h"

namespace brevis::test {

// splitmix64: small, fast, and any seed is a good one.
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}
  uint64_t next();
  // Uniform in [0, limit), limit > 0 (the bias of a 64-bit product is of no matter here).
  uint64_t below(uint64_t limit);
  // Normal with mean 0 and deviation 1: a sum of twelve uniforms, so never beyond 6 and the same on every libm.
  double gaussian();

 private:
  uint64_t state_;
};

ByteVector random_bytes(size_t size, uint64_t seed);

// The nearest value of a float dtype (F64, F32, BF16, F16, F8_E4M3, F8_E5M2) as a word; ties to even, beyond the
// largest finite value the largest finite value.
uint64_t to_float_word(Dtype dtype, double value);

// `count` normal values times `deviation`. Float dtypes as above; I8, I16, I32: rounded, after scaling to a deviation
// of a fifth of the type's range at most.
ByteVector gaussian_words(Dtype dtype, size_t count, uint64_t seed, double deviation = 0.02);

// Like the above, but each row of `columns` values has a deviation of its own (within a factor of 8), as trained
// matrices have.
ByteVector channel_words(Dtype dtype, size_t rows, size_t columns, uint64_t seed);

// F32 values that were BF16 once: the low halves are zero.
ByteVector upcast_words(size_t count, uint64_t seed);

// `count` words of `word_bits` (8, 16, 32, 64).
ByteVector constant_words(unsigned word_bits, size_t count, uint64_t word);
ByteVector ramp_words(unsigned word_bits, size_t count, uint64_t start, uint64_t step);
// Only `colours` different words, of skewed frequency.
ByteVector palette_words(unsigned word_bits, size_t count, unsigned colours, uint64_t seed);
// Normal values with `zeros_per_mille` of them replaced by zero.
ByteVector zero_heavy_words(Dtype dtype, size_t count, uint64_t seed, unsigned zeros_per_mille = 900);

// A fine-tuned sibling: `per_mille` of the words moved by a few units in the last place.
ByteVector perturbed(ByteSpan words, unsigned word_bits, uint64_t seed, unsigned per_mille = 200);

}  // namespace brevis::test
