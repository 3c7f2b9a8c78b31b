// SPDX-License-Identifier: Apache-2.0
//
// The loops of kernels_classes.cc, which includes this once for each instruction set, inside its target region and a
// namespace of its own, so that the compiler makes of them what that instruction set allows.
//
// Threads: pure functions.

// Compares in lanes of T, so that vectors hold as many words as they can.
template <class T>
void classify_lanes(const uint8_t* data, size_t count, unsigned shift, T mask, const uint32_t* begins, uint8_t* out) {
  const T* in = reinterpret_cast<const T*>(data);
  const T first = static_cast<T>(begins[0]), second = static_cast<T>(begins[1]), third = static_cast<T>(begins[2]);
  for (size_t i = 0; i < count; ++i) {
    const T field = static_cast<T>(static_cast<T>(in[i] >> shift) & mask);
    const T one = field >= first, two = field >= second, three = field >= third;
    out[i] = static_cast<uint8_t>(static_cast<T>(one + two) + three);
  }
}

void classify(ConstWords in, unsigned shift, uint64_t mask, const uint32_t* begins, uint8_t* out) {
  switch (in.lane()) {
    case 1: return classify_lanes<uint8_t>(in.data, in.count, shift, static_cast<uint8_t>(mask), begins, out);
    case 2: return classify_lanes<uint16_t>(in.data, in.count, shift, static_cast<uint16_t>(mask), begins, out);
    case 4: return classify_lanes<uint32_t>(in.data, in.count, shift, static_cast<uint32_t>(mask), begins, out);
    default: return classify_lanes<uint64_t>(in.data, in.count, shift, mask, begins, out);
  }
}

template <class T>
void levels_lanes(const uint8_t* data, size_t count, unsigned shift, T mask, T low, uint8_t* out) {
  const T* in = reinterpret_cast<const T*>(data);
  for (size_t i = 0; i < count; ++i) {
    const T field = static_cast<T>(static_cast<T>(in[i] >> shift) & mask);
    const T above = field > low ? static_cast<T>(field - low) : T{0};
    out[i] = static_cast<uint8_t>(above < kTopLevel ? above : T{kTopLevel});
  }
}

void levels(ConstWords in, unsigned shift, uint64_t mask, uint64_t low, uint8_t* out) {
  switch (in.lane()) {
    case 1:
      return levels_lanes<uint8_t>(in.data, in.count, shift, static_cast<uint8_t>(mask), static_cast<uint8_t>(low),
                                   out);
    case 2:
      return levels_lanes<uint16_t>(in.data, in.count, shift, static_cast<uint16_t>(mask), static_cast<uint16_t>(low),
                                    out);
    case 4:
      return levels_lanes<uint32_t>(in.data, in.count, shift, static_cast<uint32_t>(mask), static_cast<uint32_t>(low),
                                    out);
    default: return levels_lanes<uint64_t>(in.data, in.count, shift, mask, low, out);
  }
}

template <size_t kTerms>
void classes_of_sums(const LevelSums& given, size_t count, uint8_t* __restrict out) {
  const LevelSums sums = given;  // which `out` cannot be part of
  const uint16_t first = sums.begins[0], second = sums.begins[1], third = sums.begins[2];
  for (size_t i = 0; i < count; ++i) {
    uint16_t sum = sums.always;
    for (size_t k = 0; k < kTerms; ++k) sum = static_cast<uint16_t>(sum + sums.weights[k] * sums.levels[k][i]);
    const uint16_t one = sum >= first, two = sum >= second, three = sum >= third;
    out[i] = static_cast<uint8_t>(one + two + three);
  }
}

void sum_classes(const LevelSums& sums, size_t count, uint8_t* out) {
  switch (sums.terms) {
    case 0: return classes_of_sums<0>(sums, count, out);
    case 1: return classes_of_sums<1>(sums, count, out);
    case 2: return classes_of_sums<2>(sums, count, out);
    case 3: return classes_of_sums<3>(sums, count, out);
    default: return classes_of_sums<LevelSums::kMaxTerms>(sums, count, out);
  }
}

// At most 255 rounds before sums of bytes are added up.
void count_classes(const uint8_t* classes, size_t count, size_t* counts) {
  constexpr size_t kBlock = 64;
  size_t from[DealHands::kHands] = {count, 0, 0, 0};  // words of this class or a higher one
  size_t i = 0;
  while (i + kBlock <= count) {
    uint8_t one[kBlock] = {}, two[kBlock] = {}, three[kBlock] = {};
    for (size_t round = 0; round < 255 && i + kBlock <= count; ++round, i += kBlock)
      for (size_t k = 0; k < kBlock; ++k) {
        one[k] = static_cast<uint8_t>(one[k] + (classes[i + k] >= 1));
        two[k] = static_cast<uint8_t>(two[k] + (classes[i + k] >= 2));
        three[k] = static_cast<uint8_t>(three[k] + (classes[i + k] >= 3));
      }
    for (size_t k = 0; k < kBlock; ++k) from[1] += one[k], from[2] += two[k], from[3] += three[k];
  }
  for (; i < count; ++i)
    for (unsigned c = 1; c < DealHands::kHands; ++c) from[c] += classes[i] >= c;
  for (size_t c = 0; c + 1 < DealHands::kHands; ++c) counts[c] = from[c] - from[c + 1];
  counts[DealHands::kHands - 1] = from[DealHands::kHands - 1];
}

void fill(Kernels& table) {
  table.classify = classify;
  table.levels = levels;
  table.sum_classes = sum_classes;
  table.count_classes = count_classes;
}
