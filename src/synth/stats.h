// SPDX-License-Identifier: Apache-2.0
//
// What one pass over a stream tells: the order-0 statistics of its top bits and the exact facts (every word equal,
// a ramp, low bits never set, a float that was widened) that make some programs certain to express it. Facts hold for
// the whole stream, never for a sample, so a program built on them cannot fail later.
//
// Threads: gather() keeps scratch counters by thread; StreamStats values are joined in stream order. Determinism:
// integers only.
#pragma once

#include <vector>

#include "bits/words.h"
#include "codec/codec.h"

namespace brevis::synth {

struct StreamStats {
  unsigned width = 8;
  unsigned counted = 0;  // top bits that were counted where those below were taken for noise, else 0
  uint64_t words = 0;
  codec::Histogram top;       // how often each value of the top top_bits() bits occurs
  std::vector<uint64_t> low;  // for every whole byte below those bits, from the highest down: 256 counts
  uint64_t or_mask = 0;       // bits set in some word
  uint64_t first = 0, last = 0;
  uint64_t step = 0;             // second - first mod 2^width
  bool ramp = true;              // every difference equals step (constant: step 0)
  std::vector<bool> cast_image;  // by kind of the cast operator: every word is in that widening's image

  unsigned top_bits() const { return counted != 0 ? counted : width < 16 ? width : 16; }
  // Bits below that cannot but be stored as they are, or by bytes of their own.
  unsigned low_bits() const { return width - top_bits(); }
  bool constant() const { return words > 0 && ramp && (step == 0 || words == 1); }
  uint64_t top_count(uint64_t value) const;
  // Histogram of `bits` bits starting `from_top` bits below the top (from_top + bits <= top_bits()).
  codec::Histogram field(unsigned from_top, unsigned bits) const;
  unsigned low_bytes() const { return counted != 0 ? 0 : low_bits() / 8; }
  // Histogram of one byte below the top bits, 0: the highest.
  codec::Histogram low_byte(unsigned index) const;
};

// `bits` bits of a histogram's words, `from_top` bits below the top of its width.
codec::Histogram fold(const codec::Histogram& histogram, unsigned from_top, unsigned bits);

// Words of all parts, of one width; fewer than 2^32.
codec::Histogram count_all(std::span<const bits::ConstWords> parts);

// words.count < 2^32.
StreamStats gather(bits::ConstWords words);

// The same of words that come piece by piece, but for ramps, which are not looked for.
class Gathering {
 public:
  // `counted`: as in StreamStats, at most 16; 0 for all.
  explicit Gathering(unsigned width, unsigned counted = 0);
  void add(bits::ConstWords words);
  StreamStats take();

 private:
  template <class T>
  void count(std::span<const T> words);
  void note_facts(bits::ConstWords words);
  void put_away();

  StreamStats stats_;
  std::vector<uint32_t> top_, low_;  // low_: by byte, from the highest down
  uint64_t pending_ = 0;             // words in them
};
// Adds what comes right after in the stream. Widths are equal; an empty side is the other.
void append(StreamStats& stats, const StreamStats& next);

}  // namespace brevis::synth
