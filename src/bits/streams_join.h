// SPDX-License-Identifier: Apache-2.0
//
// Four streams that vector kernels take words from a vector at a time: what is left of a stream that no longer fills
// one is moved to a place with zeros behind it. For kernels_*_join.cc alone: each includes it inside its target region.
//
// Threads: belongs to one call. Owns: the ends of the streams.

class StreamsToJoin {
 public:
  static constexpr size_t kMost = 64;  // bytes that are read, and taken at most, of each stream between two checks

  explicit StreamsToJoin(const DealHands& hands) {
    for (size_t c = 0; c < DealHands::kHands; ++c) {
      next[c] = hands.next[c];
      end_[c] = hands.end[c];
      if (static_cast<size_t>(end_[c] - next[c]) < kMost)
        settle(c);
      else
        limit_[c] = end_[c] - kMost;
    }
  }

  // Whether kMost bytes of each stream may be read, and none was taken that is not there.
  BREVIS_INLINE bool ready() {
    for (size_t c = 0; c < DealHands::kHands; ++c)
      if (__builtin_expect(next[c] > limit_[c], false) && !settle(c)) return false;
    return true;
  }

  const uint8_t* next[DealHands::kHands];

 private:
  __attribute__((noinline)) bool settle(size_t c) {
    if (moved_[c]) return false;
    const size_t left = static_cast<size_t>(end_[c] - next[c]);
    if (left != 0) __builtin_memcpy(ends_[c], next[c], left);
    __builtin_memset(ends_[c] + left, 0, kMost);
    next[c] = ends_[c];
    limit_[c] = ends_[c] + left;
    moved_[c] = true;
    return true;
  }

  const uint8_t *limit_[DealHands::kHands] = {}, *end_[DealHands::kHands];
  bool moved_[DealHands::kHands] = {};
  uint8_t ends_[DealHands::kHands][2 * kMost];
};
