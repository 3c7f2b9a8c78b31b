// SPDX-License-Identifier: Apache-2.0
//
// The loops of combine.h, for combine*.cc alone: each includes this last, inside its own target region, so that the
// compiler makes of them what that instruction set allows.
//
// Threads: pure functions.

namespace brevis::bits {
namespace {

// Fixed-size copies become plain loads and stores of any alignment.
template <class T>
T combine_load(const uint8_t* from, size_t i) {
  T word;
  __builtin_memcpy(&word, from + i * sizeof(T), sizeof(T));
  return word;
}
template <class T>
void combine_store(uint8_t* to, size_t i, T word) {
  __builtin_memcpy(to + i * sizeof(T), &word, sizeof(T));
}

// The place of a sign-magnitude float in the order of all of them, and back.
template <class T>
T place_of(T x, T sign, T mask) {
  return (x & sign) != 0 ? static_cast<T>(x ^ mask) : static_cast<T>(x ^ sign);
}
template <class T>
T float_at(T place, T sign, T mask) {
  return (place & sign) != 0 ? static_cast<T>(place ^ sign) : static_cast<T>(place ^ mask);
}

// A word of p; folded ones are 0, 1, 2, 3, 4.. for 0, -1, 1, -2, 2..
template <class T, bool kFolded>
T combine_take(const uint8_t* p, size_t i, T mask) {
  const T x = combine_load<T>(p, i);
  if constexpr (!kFolded) return x;
  return static_cast<T>(static_cast<T>(x >> 1) ^ static_cast<T>(static_cast<T>(T{0} - (x & 1)) & mask));
}

template <class T, bool kInverse, bool kFolded>
void combine_lanes(unsigned f, T mask, const uint8_t* p, const uint8_t* q, uint8_t* out, size_t n) {
  const T sign = static_cast<T>(mask ^ static_cast<T>(mask >> 1));
  switch (f) {
    case 0:
      for (size_t i = 0; i < n; ++i)
        combine_store<T>(out, i, static_cast<T>(combine_take<T, kFolded>(p, i, mask) ^ combine_load<T>(q, i)));
      return;
    case 1:
    case 2:
      if ((f == 1) != kInverse) {
        for (size_t i = 0; i < n; ++i)
          combine_store<T>(out, i,
                           static_cast<T>((combine_take<T, kFolded>(p, i, mask) + combine_load<T>(q, i)) & mask));
      } else {
        for (size_t i = 0; i < n; ++i)
          combine_store<T>(out, i,
                           static_cast<T>((combine_take<T, kFolded>(p, i, mask) - combine_load<T>(q, i)) & mask));
      }
      return;
    default:
      for (size_t i = 0; i < n; ++i) {
        const T x = combine_take<T, kFolded>(p, i, mask), place = place_of<T>(combine_load<T>(q, i), sign, mask);
        const T to = kInverse ? static_cast<T>((place_of<T>(x, sign, mask) - place) & mask)
                              : float_at<T>(static_cast<T>((x + place) & mask), sign, mask);
        combine_store<T>(out, i, to);
      }
  }
}

template <bool kInverse, bool kFolded>
void combine_any(unsigned f, unsigned lane, uint64_t mask, const uint8_t* p, const uint8_t* q, uint8_t* out, size_t n) {
  switch (lane) {
    case 1: return combine_lanes<uint8_t, kInverse, kFolded>(f, static_cast<uint8_t>(mask), p, q, out, n);
    case 2: return combine_lanes<uint16_t, kInverse, kFolded>(f, static_cast<uint16_t>(mask), p, q, out, n);
    case 4: return combine_lanes<uint32_t, kInverse, kFolded>(f, static_cast<uint32_t>(mask), p, q, out, n);
    default: return combine_lanes<uint64_t, kInverse, kFolded>(f, mask, p, q, out, n);
  }
}

}  // namespace
}  // namespace brevis::bits
