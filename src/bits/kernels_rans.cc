// SPDX-License-Identifier: Apache-2.0
//
// Scalar kernels of interleaved rANS. States sit in memory: the store-to-load delay is hidden by the other lanes, and
// whether a state takes a word is arithmetic, not a branch, since nobody can predict it.
#include <cstring>

#include "bits/kernels.h"

namespace brevis::bits {
namespace {

constexpr uint32_t kLowest = 1u << 16;  // states below take a word

inline uint16_t load16(const uint8_t* from) {
  uint16_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Takes a word from `next` if the state needs one.
inline uint32_t refill(uint32_t x, const uint8_t*& next) {
  const uint32_t taken = x << 16 | load16(next);
  next += 2 * static_cast<uint32_t>(x < kLowest);
  return pick_below(x, kLowest, taken, x);
}

template <unsigned kLanes>
size_t alias_decode_slots(const uint32_t* slots, RansCursor& cursor, uint8_t* out, size_t rounds) {
  uint32_t* const states = cursor.states;
  const uint8_t* next = cursor.next;
  size_t round = 0;
  for (; round < rounds && cursor.end - next >= 2 * kLanes; ++round, out += kLanes) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const uint32_t x = states[lane], entry = slots[x & 0xfff];
      out[lane] = static_cast<uint8_t>(entry >> 24);
      states[lane] = refill((entry & 0xfff) * (x >> 12) + (entry >> 12 & 0xfff), next);
    }
  }
  cursor.next = next;
  return round;
}

// Few lanes are chains of dependent steps: their states stay in registers, and as the buckets are a few cache lines, no
// step waits for memory.
template <unsigned kLanes>
size_t alias_decode_buckets(const AliasPlanes& planes, RansCursor& cursor, uint8_t* out, size_t rounds) {
  uint32_t states[kLanes];
  std::memcpy(states, cursor.states, sizeof states);
  const uint8_t* next = cursor.next;
  size_t round = 0;
  for (; round < rounds && cursor.end - next >= 2 * kLanes; ++round, out += kLanes) {
#pragma GCC unroll 4
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      out[lane] = alias_take(planes, states[lane]);
      states[lane] = refill(states[lane], next);
    }
  }
  std::memcpy(cursor.states, states, sizeof states);
  cursor.next = next;
  return round;
}

size_t alias_decode(const AliasDecoder& table, RansCursor& cursor, uint8_t* out, size_t rounds) {
  const bool slots = table.slots != nullptr;
  switch (cursor.lanes) {
    case 64:
      return slots ? alias_decode_slots<64>(table.slots, cursor, out, rounds)
                   : alias_decode_buckets<64>(*table.planes, cursor, out, rounds);
    case 16:
      return slots ? alias_decode_slots<16>(table.slots, cursor, out, rounds)
                   : alias_decode_buckets<16>(*table.planes, cursor, out, rounds);
    case 4: return alias_decode_buckets<4>(*table.planes, cursor, out, rounds);
    default: return alias_decode_buckets<1>(*table.planes, cursor, out, rounds);
  }
}

template <unsigned kLanes, class T>
size_t rans_decode_lanes(const RansDecoder& table, RansCursor& cursor, T* out, size_t rounds) {
  uint32_t* const states = cursor.states;
  const uint32_t* const slots = table.slots;
  const T* const words = static_cast<const T*>(table.words);
  const unsigned scale_bits = table.scale_bits;
  const uint32_t mask = (1u << scale_bits) - 1;
  const uint8_t* next = cursor.next;
  size_t round = 0;
  for (; round < rounds && cursor.end - next >= 2 * kLanes; ++round, out += kLanes) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const uint32_t x = states[lane], slot = x & mask, entry = slots[slot];
      out[lane] = words[slot];
      states[lane] = refill((entry & 0xffff) * (x >> scale_bits) + (entry >> 16), next);
    }
  }
  cursor.next = next;
  return round;
}

size_t rans_decode(const RansDecoder& table, RansCursor& cursor, Words out, size_t rounds) {
  return visit_lane(out.width, [&]<class T>(T) {
    T* const to = out.as<T>().data();
    switch (cursor.lanes) {
      case 64: return rans_decode_lanes<64>(table, cursor, to, rounds);
      case 16: return rans_decode_lanes<16>(table, cursor, to, rounds);
      case 4: return rans_decode_lanes<4>(table, cursor, to, rounds);
      default: return rans_decode_lanes<1>(table, cursor, to, rounds);
    }
  });
}

// Gives up 16 bits if the symbol would not fit, and divides: x becomes the quotient, the remainder is returned.
inline uint32_t divide(const RansSymbol& symbol, uint32_t& x, uint16_t*& words) {
  const uint32_t high = x >= symbol.limit;
  words[-1] = static_cast<uint16_t>(x);
  words -= high;
  x = pick_below(x, symbol.limit, x, x >> 16);
  __extension__ using Wide = unsigned __int128;
  const uint32_t quotient = static_cast<uint32_t>(Wide{uint64_t{x} << 1} * symbol.reciprocal >> 64);
  const uint32_t remainder = x - quotient * symbol.frequency;
  x = quotient;
  return remainder;
}

// Runs step(state, symbol) over all symbols, last first, whole rounds with a fixed number of lanes.
template <class In, class Step>
void for_each_backwards(unsigned lanes, uint32_t* states, const In* in, size_t count, Step&& step) {
  size_t i = count;
  for (; i % lanes != 0; --i) step(states[(i - 1) % lanes], in[i - 1]);
  for (; i != 0; i -= lanes)
    for (unsigned lane = lanes; lane-- > 0;) step(states[lane], in[i - lanes + lane]);
}

uint16_t* alias_encode(const AliasEncoder& table, unsigned lanes, uint32_t* states, const uint8_t* in, size_t count,
                       uint16_t* words_end) {
  // A symbol without a frequency would index slot_of anywhere: look first.
  uint64_t seen = 0;
  unsigned largest = 0;
  for (size_t i = 0; i < count; ++i) {
    seen |= uint64_t{1} << (in[i] & 63);
    largest |= in[i];
  }
  if (largest > 63) return nullptr;
  for (unsigned s = 0; s < 64; ++s)
    if ((seen >> s & 1) != 0 && table.symbols[s].frequency == 0) return nullptr;
  uint16_t* words = words_end;
  for_each_backwards(lanes, states, in, count, [&](uint32_t& state, uint8_t s) {
    const RansSymbol& symbol = table.symbols[s];
    uint32_t x = state;
    const uint32_t rank = divide(symbol, x, words);
    state = x << 12 | table.slot_of[symbol.start + rank];
  });
  return words;
}

uint16_t* rans_encode(const RansEncoder& table, unsigned lanes, uint32_t* states, const uint16_t* in, size_t count,
                      uint16_t* words_end) {
  uint16_t* words = words_end;
  for_each_backwards(lanes, states, in, count, [&](uint32_t& state, uint16_t s) {
    const RansSymbol& symbol = table.symbols[s];
    uint32_t x = state;
    const uint32_t rank = divide(symbol, x, words);
    state = (x << table.scale_bits) + symbol.start + rank;
  });
  return words;
}

}  // namespace

void fill_scalar_rans(Kernels& table) {
  table.wants_slots = true;
  table.alias_decode = alias_decode;
  table.alias_fours = table.alias_sixteens = {};
  table.rans_decode = rans_decode;
  table.alias_encode = alias_encode;
  table.rans_encode = rans_encode;
}

}  // namespace brevis::bits
