// SPDX-License-Identifier: Apache-2.0
//
// Views of streams: `count` words of `width` bits, each word kept in the smallest of 1, 2, 4 or 8 bytes that holds it
// (its *lane*), little-endian, bits above `width` zero. Every codec and operator reads and writes these.
//
// Requires: data aligned to the lane. Lanes hold no bits above the width: producers mask, consumers may rely on it.
// Threads:  values. Owns: nothing (OwnedWords owns its buffer).
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace brevis::bits {

static_assert(std::endian::native == std::endian::little, "streams are views of little-endian file bytes");

// Bytes of a lane for words of `width` bits (1..64).
constexpr unsigned lane_bytes(unsigned width) { return width <= 8 ? 1 : width <= 16 ? 2 : width <= 32 ? 4 : 8; }

// A mask of the low `width` bits, 0..64.
constexpr uint64_t low_mask(unsigned width) { return width >= 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1; }

struct ConstWords {
  const uint8_t* data = nullptr;
  size_t count = 0;
  uint8_t width = 8;

  unsigned lane() const { return lane_bytes(width); }
  size_t bytes() const { return count * lane(); }
  std::span<const uint8_t> byte_span() const { return {data, bytes()}; }
  template <class T>
  std::span<const T> as() const {
    assert(sizeof(T) == lane());
    return {reinterpret_cast<const T*>(data), count};
  }
  ConstWords part(size_t first, size_t n) const { return {data + first * lane(), n, width}; }
  // Slow path access for code where clarity beats speed.
  uint64_t at(size_t i) const {
    switch (lane()) {
      case 1: return data[i];
      case 2: return as<uint16_t>()[i];
      case 4: return as<uint32_t>()[i];
      default: return as<uint64_t>()[i];
    }
  }
};

struct Words {
  uint8_t* data = nullptr;
  size_t count = 0;
  uint8_t width = 8;

  operator ConstWords() const { return {data, count, width}; }
  unsigned lane() const { return lane_bytes(width); }
  size_t bytes() const { return count * lane(); }
  std::span<uint8_t> byte_span() const { return {data, bytes()}; }
  template <class T>
  std::span<T> as() const {
    assert(sizeof(T) == lane());
    return {reinterpret_cast<T*>(data), count};
  }
  Words part(size_t first, size_t n) const { return {data + first * lane(), n, width}; }
  void set(size_t i, uint64_t word) const {
    switch (lane()) {
      case 1: data[i] = static_cast<uint8_t>(word); break;
      case 2: as<uint16_t>()[i] = static_cast<uint16_t>(word); break;
      case 4: as<uint32_t>()[i] = static_cast<uint32_t>(word); break;
      default: as<uint64_t>()[i] = word;
    }
  }
};

// Calls f with a value of the lane's type: visit_lane(width, [&]<class T>(T) { ... }).
template <class F>
decltype(auto) visit_lane(unsigned width, F&& f) {
  switch (lane_bytes(width)) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    default: return f(uint64_t{});
  }
}

// A stream that owns its words (packing side, tests). 64-bit storage keeps every lane aligned.
class OwnedWords {
 public:
  OwnedWords() = default;
  OwnedWords(unsigned width, size_t count)
      : store_((count * lane_bytes(width) + 7) / 8), count_(count), width_(static_cast<uint8_t>(width)) {}
  Words words() { return {reinterpret_cast<uint8_t*>(store_.data()), count_, width_}; }
  ConstWords view() const { return {reinterpret_cast<const uint8_t*>(store_.data()), count_, width_}; }
  size_t count() const { return count_; }
  unsigned width() const { return width_; }

 private:
  std::vector<uint64_t> store_;
  size_t count_ = 0;
  uint8_t width_ = 8;
};

}  // namespace brevis::bits
