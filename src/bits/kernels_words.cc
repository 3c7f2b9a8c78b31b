// SPDX-License-Identifier: Apache-2.0
//
// Scalar kernels over plain words: any_bits, pack, unpack. Lanes of one and two bytes go through 64-bit registers a
// register at a time: fields are spread (or gathered) by halving steps, each of which moves all upper halves at once.
// Wider lanes have too few words in a register for that to pay.
#include <cstring>

#include "bits/kernels.h"

namespace brevis::bits {
namespace {

template <class T>
T load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void store(void* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

constexpr size_t packed_bytes(size_t count, unsigned b) { return (count * b + 7) / 8; }

uint64_t any_bits(ConstWords in) {
  return visit_lane(in.width, [&]<class T>(T) {
    T all = 0;
    for (const T word : in.as<T>()) all = static_cast<T>(all | word);
    return uint64_t{all};
  });
}

// One halving step: fields of `narrow` bits, two and two adjacent at multiples of `wide`, to multiples of wide / 2.
struct Step {
  uint64_t low = 0, high = 0;  // the lower and the upper field of each pair, when adjacent
  unsigned shift;

  Step(unsigned narrow, unsigned wide) : shift(wide / 2 - narrow) {
    for (unsigned at = 0; at < 64; at += wide) {
      low |= low_mask(narrow) << at;
      high |= low_mask(narrow) << (at + narrow);
    }
  }
  uint64_t spread(uint64_t x) const { return (x & low) | (x & high) << shift; }
  uint64_t gather(uint64_t x) const { return (x & low) | (x >> shift & high); }
};

// Words from `first` on, which starts on a byte border.
template <class T>
void pack_rest(ConstWords in, unsigned b, uint8_t* out, size_t first) {
  uint8_t* at = out + first * b / 8;
  uint64_t held = 0;
  unsigned filled = 0;
  for (const T word : in.as<T>().subspan(first)) {
    held |= uint64_t{word} << filled;
    const unsigned room = 64 - filled;
    filled += b;
    if (filled >= 64) {
      store(at, held);
      at += 8;
      filled -= 64;
      held = room >= 64 ? 0 : uint64_t{word} >> room;
    }
  }
  for (unsigned done = 0; done < filled; done += 8, held >>= 8) *at++ = static_cast<uint8_t>(held);
}

// Words from `first` on, each by itself; the last ones through a padded copy.
template <class T>
void unpack_rest(const uint8_t* in, unsigned b, Words out, size_t first) {
  const size_t bytes = packed_bytes(out.count, b);
  const uint64_t mask = low_mask(b);
  T* to = out.as<T>().data();
  size_t i = first;
  if (b <= 57) {
    for (; i < out.count && i * b / 8 + 8 <= bytes; ++i)
      to[i] = static_cast<T>(load<uint64_t>(in + i * b / 8) >> (i * b % 8) & mask);
  } else {
    for (; i < out.count && i * b / 8 + 9 <= bytes; ++i) {
      const uint8_t* at = in + i * b / 8;
      const unsigned shift = i * b % 8;
      to[i] = static_cast<T>((load<uint64_t>(at) >> shift | uint64_t{at[8]} << 1 << (63 - shift)) & mask);
    }
  }
  for (; i < out.count; ++i) {
    const size_t byte = i * b / 8, have = bytes - byte;
    const unsigned shift = i * b % 8;
    uint8_t window[16] = {};
    std::memcpy(window, in + byte, have < 9 ? have : 9);
    to[i] = static_cast<T>((load<uint64_t>(window) >> shift | uint64_t{window[8]} << 1 << (63 - shift)) & mask);
  }
}

size_t pack_bytes(ConstWords in, unsigned b, uint8_t* out) {
  const Step halves(4 * b, 64), quarters(2 * b, 32), eighths(b, 16);
  const size_t bytes = packed_bytes(in.count, b);
  size_t i = 0;
  for (uint8_t* to = out; i + 8 <= in.count && i / 8 * b + 8 <= bytes; i += 8, to += b)
    store(to, halves.gather(quarters.gather(eighths.gather(load<uint64_t>(in.data + i)))));
  return i;
}

size_t unpack_bytes(const uint8_t* in, unsigned b, Words out) {
  const Step halves(4 * b, 64), quarters(2 * b, 32), eighths(b, 16);
  const size_t bytes = packed_bytes(out.count, b);
  size_t i = 0;
  for (const uint8_t* from = in; i + 8 <= out.count && i / 8 * b + 8 <= bytes; i += 8, from += b)
    store(out.data + i, eighths.spread(quarters.spread(halves.spread(load<uint64_t>(from)))));
  return i;
}

// Four words make 4b <= 60 bits, eight end on a byte.
size_t pack_shorts(ConstWords in, unsigned b, uint8_t* out) {
  const Step halves(2 * b, 64), quarters(b, 32);
  const size_t bytes = packed_bytes(in.count, b);
  size_t i = 0;
  for (uint8_t* to = out; i + 8 <= in.count && i / 8 * b + 16 <= bytes; i += 8, to += b) {
    const uint64_t first = halves.gather(quarters.gather(load<uint64_t>(in.data + 2 * i)));
    const uint64_t second = halves.gather(quarters.gather(load<uint64_t>(in.data + 2 * i + 8)));
    store(to, first | second << 4 * b);
    store(to + 8, second >> (64 - 4 * b));
  }
  return i;
}

size_t unpack_shorts(const uint8_t* in, unsigned b, Words out) {
  const Step halves(2 * b, 64), quarters(b, 32);
  const size_t bytes = packed_bytes(out.count, b);
  size_t i = 0;
  for (const uint8_t* from = in; i + 8 <= out.count && i / 8 * b + b / 2 + 8 <= bytes; i += 8, from += b) {
    const uint64_t first = load<uint64_t>(from), second = load<uint64_t>(from + b / 2) >> 4 * (b % 2);
    store(out.data + 2 * i, quarters.spread(halves.spread(first)));
    store(out.data + 2 * i + 8, quarters.spread(halves.spread(second)));
  }
  return i;
}

void pack(ConstWords in, unsigned b, uint8_t* out) {
  if (in.count == 0) return;
  if (b == 8 * in.lane()) {
    std::memcpy(out, in.data, in.bytes());
    return;
  }
  const size_t done = in.lane() == 1 ? pack_bytes(in, b, out) : in.lane() == 2 ? pack_shorts(in, b, out) : 0;
  visit_lane(in.width, [&]<class T>(T) { pack_rest<T>(in, b, out, done); });
}

void unpack(const uint8_t* in, unsigned b, Words out) {
  if (out.count == 0) return;
  if (b == 8 * out.lane()) {
    std::memcpy(out.data, in, out.bytes());
    return;
  }
  const size_t done = out.lane() == 1 ? unpack_bytes(in, b, out) : out.lane() == 2 ? unpack_shorts(in, b, out) : 0;
  visit_lane(out.width, [&]<class T>(T) { unpack_rest<T>(in, b, out, done); });
}

}  // namespace

void fill_scalar_words(Kernels& table) {
  table.any_bits = any_bits;
  table.pack = pack;
  table.unpack = unpack;
}

}  // namespace brevis::bits
