// SPDX-License-Identifier: Apache-2.0
//
// Bit streams for tables and short lists: bit 0 of a byte comes first, a value's lowest bit first. Bulk data goes
// through the kernels instead. A stream ends on a byte border; the unused bits of its last byte are zero, and the
// reader insists on it, so that one content has one spelling.
//
// Errors:  BitReader never reads past its span: missing bits read as zero and make ok() false for good.
// Threads: values. Owns: nothing; BitWriter appends to the vector it was given.
#pragma once

#include <bit>
#include <cassert>

#include "bits/words.h"
#include "brevis/types.h"

namespace brevis::bits {

class BitWriter {
 public:
  explicit BitWriter(ByteVector& out) : out_(out) {}

  // The low `n` bits of value, 0..64; the bits above must be zero.
  void put(uint64_t value, unsigned n) {
    assert((value & ~low_mask(n)) == 0);
    if (n > 32) {
      put(value & 0xffffffff, 32);
      value >>= 32;
      n -= 32;
    }
    held_ |= value << filled_;
    filled_ += n;
    for (; filled_ >= 8; filled_ -= 8, held_ >>= 8) out_.push_back(static_cast<uint8_t>(held_));
  }

  // n ones and a zero.
  void put_unary(uint64_t n) {
    for (; n >= 32; n -= 32) put(0xffffffff, 32);
    put(low_mask(static_cast<unsigned>(n)), static_cast<unsigned>(n) + 1);
  }

  // Pads with zero bits to a byte. Call it once, last.
  void finish() {
    if (filled_ != 0) out_.push_back(static_cast<uint8_t>(held_));
    held_ = filled_ = 0;
  }

 private:
  ByteVector& out_;
  uint64_t held_ = 0;
  unsigned filled_ = 0;  // below 8 between calls
};

class BitReader {
 public:
  explicit BitReader(ByteSpan bytes) : bytes_(bytes) {}

  // False once more bits were asked for than there are.
  bool ok() const { return ok_; }
  // For those who find the content impossible.
  void invalidate() { ok_ = false; }

  // The next n bits, 0..64.
  uint64_t get(unsigned n) {
    if (n > 32) {
      const uint64_t low = get(32);
      return low | get(n - 32) << 32;
    }
    while (filled_ < n) {
      if (at_ == bytes_.size()) {
        ok_ = false;
        held_ = filled_ = 0;
        return 0;
      }
      held_ |= uint64_t{bytes_[at_++]} << filled_;
      filled_ += 8;
    }
    const uint64_t value = held_ & low_mask(n);
    held_ >>= n;
    filled_ -= n;
    return value;
  }

  // The number of ones before the next zero, which is taken too; not ok() above `limit`.
  uint64_t get_unary(uint64_t limit) {
    for (uint64_t n = 0; n <= limit; ++n)
      if (get(1) == 0) return n;
    ok_ = false;
    return 0;
  }

  // Whether every bit was right and what is left is the zero padding of the last byte.
  bool finished() const { return ok_ && at_ == bytes_.size() && filled_ < 8 && held_ == 0; }

 private:
  ByteSpan bytes_;
  size_t at_ = 0;
  uint64_t held_ = 0;
  unsigned filled_ = 0;
  bool ok_ = true;
};

// A sequence of integers whose sizes change slowly, such as frequencies or gaps. The size n of a value (its bit_width)
// is written as the difference from the size before (0 at first), in unary after the folding
// 0, +1, -1, +2, -2, ... -> 0, 1, 2, 3, 4, ...; then come the n - 1 bits below the value's leading one. So values of
// equal sizes cost one bit beyond their own digits.
class StepWriter {
 public:
  void put(BitWriter& to, uint64_t value) {
    const auto n = static_cast<unsigned>(std::bit_width(value));
    put_size(to, n);
    if (n > 1) to.put(value & low_mask(n - 1), n - 1);
  }
  // The size alone, 0..64: for sequences of small numbers.
  void put_size(BitWriter& to, unsigned n) {
    to.put_unary(n > last_ ? 2 * (n - last_) - 1 : 2 * (last_ - n));
    last_ = n;
  }

 private:
  unsigned last_ = 0;
};

class StepReader {
 public:
  // Values above `limit` make the reader not ok(); the result is at most `limit` in any case.
  uint64_t get(BitReader& from, uint64_t limit) {
    const unsigned n = get_size(from, 64);
    if (n == 0) return 0;
    const uint64_t value = uint64_t{1} << (n - 1) | from.get(n - 1);
    if (from.ok() && value <= limit) return value;
    from.invalidate();
    return 0;
  }
  unsigned get_size(BitReader& from, unsigned limit) {
    const auto folded = static_cast<unsigned>(from.get_unary(128)), step = (folded + 1) / 2;
    const bool up = folded % 2 == 1;
    if (!from.ok() || (up ? step > limit - last_ : step > last_)) {
      from.invalidate();
      return 0;
    }
    return last_ = up ? last_ + step : last_ - step;
  }

 private:
  unsigned last_ = 0;  // at most the limit: one reader is used with one limit on sizes
};

}  // namespace brevis::bits
