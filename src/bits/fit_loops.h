// SPDX-License-Identifier: Apache-2.0
//
// The loops of kernels_fit.cc, which includes this once for each instruction set, inside its target region and a
// namespace of its own, so that the compiler makes of them what that instruction set allows.
//
// Threads: pure functions.

template <class T>
void quarters_lanes(const uint8_t* data, size_t count, unsigned shift, uint16_t mask, uint16_t* __restrict out) {
  const T* __restrict words = reinterpret_cast<const T*>(data);
  if (shift >= 2) {
    const unsigned down = shift - 2;
    for (size_t i = 0; i < count; ++i) out[i] = static_cast<uint16_t>(static_cast<uint16_t>(words[i] >> down) & mask);
  } else {
    const unsigned up = 2 - shift;
    for (size_t i = 0; i < count; ++i)
      out[i] = static_cast<uint16_t>(static_cast<uint16_t>(uint64_t{words[i]} << up) & mask);
  }
}

void quarters(ConstWords in, unsigned shift, unsigned bits, uint16_t* __restrict out) {
  const uint16_t mask = static_cast<uint16_t>(low_mask(bits + 2));
  switch (in.lane()) {
    case 1: return quarters_lanes<uint8_t>(in.data, in.count, shift, mask, out);
    case 2: return quarters_lanes<uint16_t>(in.data, in.count, shift, mask, out);
    case 4: return quarters_lanes<uint32_t>(in.data, in.count, shift, mask, out);
    default: return quarters_lanes<uint64_t>(in.data, in.count, shift, mask, out);
  }
}

void quarter_terms(const uint16_t* __restrict in, size_t count, int16_t middle, int16_t cut, uint32_t* __restrict out) {
  for (size_t i = 0; i < count; ++i) {
    const int16_t q = static_cast<int16_t>(in[i]), apart = static_cast<int16_t>(q - middle);
    const int16_t low = apart < -cut ? static_cast<int16_t>(-cut) : apart, near = low > cut ? cut : low;
    const uint32_t term = (uint32_t{1} << kTermSumBits) + static_cast<uint32_t>(near + cut);
    out[i] = q < 4 ? 0 : term;
  }
}

void add_terms(uint32_t* __restrict sums, const uint32_t* __restrict terms, size_t count) {
  for (size_t i = 0; i < count; ++i) sums[i] += terms[i];
}

uint32_t sum_terms(const uint32_t* __restrict terms, size_t count) {
  uint32_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += terms[i];
  return sum;
}

void add_levels(uint16_t* __restrict sums, const uint8_t* __restrict levels, uint16_t weight, size_t count) {
  for (size_t i = 0; i < count; ++i) sums[i] = static_cast<uint16_t>(sums[i] + weight * levels[i]);
}

void fill(Kernels& table) {
  table.quarters = quarters;
  table.quarter_terms = quarter_terms;
  table.add_terms = add_terms;
  table.sum_terms = sum_terms;
  table.add_levels = add_levels;
}
