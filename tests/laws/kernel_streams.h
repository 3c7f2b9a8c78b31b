// SPDX-License-Identifier: Apache-2.0
//
// What the laws of kernels draw: buffers of exactly the size that a kernel may touch, so that the sanitizers see a byte
// too many, alias tables, and streams of lanes that may hold anything that a payload may hold.
#pragma once

#include <cstring>
#include <memory>

#include "bits/kernels.h"
#include "codec/alias.h"
#include "support/words.h"

namespace brevis::test {

using bits::Kernels;

// 64 lanes and 16 have most variants.
inline unsigned draw_lanes(Random& random) {
  constexpr unsigned kLanes[] = {64, 64, 64, 16, 16, 16, 4, 1};
  return kLanes[random.below(8)];
}

// Bytes at a chosen distance from an aligned place, at the end of their own allocation.
class Exact {
 public:
  Exact(size_t size, size_t misaligned, uint8_t fill = 0)
      : size_(size), misaligned_(misaligned), store_(std::make_unique<uint8_t[]>(size + misaligned)) {
    if (size != 0) std::memset(data(), fill, size);
  }
  uint8_t* data() { return store_.get() + misaligned_; }
  size_t size() const { return size_; }
  bool operator==(const Exact& other) const {
    return size_ == other.size_ &&
           (size_ == 0 || std::memcmp(store_.get() + misaligned_, other.store_.get() + other.misaligned_, size_) == 0);
  }

 private:
  size_t size_, misaligned_;
  std::unique_ptr<uint8_t[]> store_;
};

inline bool same(const uint8_t* a, const uint8_t* b, size_t size) { return size == 0 || std::memcmp(a, b, size) == 0; }

inline std::span<const Kernels> variants() { return bits::all_kernels().subspan(1); }
inline const Kernels& scalar() { return bits::all_kernels().front(); }

inline void fill_random(Random& random, Exact& bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) bytes.data()[i] = static_cast<uint8_t>(random.next());
}

inline codec::TablePtr alias_table(Random& random, unsigned width, unsigned shape) {
  codec::Histogram histogram{width, {}};
  for (uint64_t word = 0; word < uint64_t{1} << width; ++word) {
    const uint64_t count = shape == 0   ? 1 + random.below(100)
                           : shape == 1 ? random.below(3) * random.below(1000)
                           : shape == 2 ? uint64_t{1} << random.below(20)
                                        : 0;
    if (count != 0) histogram.counts.emplace_back(word, count);
  }
  if (shape == 3) histogram.counts = {{0, 1000000}, {bits::low_mask(width), 1}};
  if (histogram.counts.size() < 2) histogram.counts = {{0, 3}, {1, 5}};
  const auto& spec = *codec::find_codec("alias");
  return *spec.load(*spec.train(histogram), width);
}

// Of a table, in the form that scalar kernels prefer or the smaller one.
inline bits::AliasDecoder decoder_of(Random& random, const codec::TablePtr& table) {
  const Kernels& used = bits::kernels();
  bits::use_kernels(bits::all_kernels()[random.below(bits::all_kernels().size())]);
  const bits::AliasDecoder decoder = codec::alias_decoder(table.get());
  bits::use_kernels(used);
  return decoder;
}

// States and words that may be anything that a payload may hold.
struct Stream {
  std::vector<uint32_t> states;
  Exact words;

  Stream(Random& random, unsigned lanes, size_t count) : states(lanes), words(2 * count, 2 * random.below(9)) {
    for (uint32_t& state : states)
      state = static_cast<uint32_t>(0x10000 + (random.next() >> random.below(16)) % 0xffff0000u);
    for (size_t i = 0; i < words.size(); ++i)
      words.data()[i] = random.below(4) == 0 ? 0 : static_cast<uint8_t>(random.next());
  }
};

// A decoder's state while it works on a stream.
struct Run {
  std::vector<uint32_t> states;
  bits::RansCursor cursor;

  explicit Run(Stream& stream)
      : states(stream.states),
        cursor{static_cast<unsigned>(states.size()), states.data(), stream.words.data(),
               stream.words.data() + stream.words.size()} {}
  bool operator==(const Run& other) const { return states == other.states && cursor.next == other.cursor.next; }
};

}  // namespace brevis::test
