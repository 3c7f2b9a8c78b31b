// SPDX-License-Identifier: Apache-2.0
//
// Decoding of prefix codes in scalar code, for kernels_huffman.cc and for levels whose CPUs shift in one step: each
// includes it last and gets a copy of its own.
//
// One stream alone would wait for each code's length before it knows where the next code starts; several streams hide
// that wait. From one 64-bit load, 57 bits or more are good: that is four codes of 12 bits, or five of 11. Entries are
// made so that nothing needs cutting off: shifts look at six bits, and the sum of some entries has that of their
// lengths in its lowest six. A table is often met cold, so all of it is asked for first: or else every stream would
// wait for one line after another.
//
// Threads: pure functions.
#pragma once

#include <cstring>

#include "bits/kernels.h"

namespace brevis::bits {
namespace {

// kCodes symbols of a stream; gives the bit after them.
template <unsigned kCodes, class Entry, class T>
__attribute__((always_inline)) inline size_t huffman_step(const Entry* entries, uint64_t mask, const uint8_t* data,
                                                          size_t bit, T* out) {
  uint64_t window;
  std::memcpy(&window, data + bit / 8, sizeof window);
  window >>= bit % 8;
  size_t used = 0;
  for (unsigned k = 0; k < kCodes; ++k) {
    const size_t entry = entries[window & mask];
    window >>= entry % 64;
    used += entry;
    // Or else compilers join the stores, which takes longer.
    *static_cast<volatile T*>(out + k) = static_cast<T>(entry >> HuffmanDecoder::kSymbolShift);
  }
  return bit + used % 64;
}

template <size_t kStreams, unsigned kCodes, class Entry, class T>
void decode_side_by_side(const HuffmanDecoder& table, HuffmanStream* streams, T* out) {
  const uint64_t mask = low_mask(table.table_bits);
  const Entry* const entries = static_cast<const Entry*>(table.entries);
  const uint8_t* data[kStreams];
  size_t bits[kStreams];
  T* to[kStreams];
  for (size_t s = 0; s < kStreams; ++s) {
    data[s] = streams[s].data;
    bits[s] = streams[s].bit;
    to[s] = out + streams[s].at;
  }
  size_t done = 0;  // symbols of each stream
  for (;;) {
    // A batch of rounds that no stream can leave: each takes at most 7 bytes and gives kCodes symbols.
    size_t rounds = SIZE_MAX;
    for (size_t s = 0; s < kStreams; ++s) {
      const size_t byte = bits[s] / 8, bytes = streams[s].bytes;
      const size_t by_bytes = bytes < byte + 8 ? 0 : (bytes - byte - 1) / 7;
      const size_t by_count = (streams[s].count - done) / kCodes;
      const size_t most = by_bytes < by_count ? by_bytes : by_count;
      rounds = most < rounds ? most : rounds;
    }
    if (rounds == 0) break;
    for (const size_t end = done + rounds * kCodes; done < end; done += kCodes)
#pragma GCC unroll 8
      for (size_t s = 0; s < kStreams; ++s)
        bits[s] = huffman_step<kCodes>(entries, mask, data[s], bits[s], to[s] + done);
  }
  for (size_t s = 0; s < kStreams; ++s) {
    streams[s].bit = bits[s];
    streams[s].at += done;
    streams[s].count -= done;
  }
}

template <class Entry, class T>
void huffman_decode_typed(const HuffmanDecoder& table, HuffmanStream* streams, size_t count, T* out) {
  const char* const entries = static_cast<const char*>(table.entries);
  for (size_t i = 0; i < sizeof(Entry) << table.table_bits; i += 64) __builtin_prefetch(entries + i);
  const bool five = table.table_bits <= 11;
  if (count == 8)
    return five ? decode_side_by_side<8, 5, Entry>(table, streams, out)
                : decode_side_by_side<8, 4, Entry>(table, streams, out);
  for (size_t s = 0; s < count; ++s) decode_side_by_side<1, 4, Entry>(table, streams + s, out);
}

// `lane`: bytes of an output word, 1 or 2, which hold 12 bits.
void huffman_decode_all(const HuffmanDecoder& table, HuffmanStream* streams, size_t count, uint8_t* out, size_t lane) {
  uint16_t* const wide = reinterpret_cast<uint16_t*>(out);
  if (table.entry_bytes == 4) return huffman_decode_typed<uint32_t>(table, streams, count, wide);
  if (lane == 1) return huffman_decode_typed<uint16_t>(table, streams, count, out);
  return huffman_decode_typed<uint16_t>(table, streams, count, wide);
}

}  // namespace
}  // namespace brevis::bits
