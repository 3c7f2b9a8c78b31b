// SPDX-License-Identifier: Apache-2.0
//
// Decoding of prefix codes in scalar code, for kernels_huffman.cc and for levels whose CPUs shift in one step: each
// includes it last and gets a copy of its own.
//
// One stream alone would wait for each code's length before it knows where the next code starts; several streams hide
// that wait, taken in turn symbol by symbol, since a CPU looks only so far ahead for what is ready. From one 64-bit
// load, 56 bits or more are good: that is four codes of 12 bits, or five of 11. The highest bit is set in place of what
// was there, and how far it has moved down says how many bits were taken. Shifts look at six bits, so entries need no
// cutting. A table is often met cold, so all of it is asked for first: or else every stream would wait for one line
// after another. Symbols of several streams go to a stage in which those lie apart: eighths of a frame of a power of
// two words would all be written to the same few lines of the first-level cache.
//
// Threads: pure functions.
#pragma once

#include <cstring>

#include "bits/kernels.h"

namespace brevis::bits {
namespace {

constexpr size_t kStage = 240;  // symbols of a stream
constexpr size_t kApart = 96;   // bytes between streams
constexpr size_t kWindow = 8, kMostTaken = 7;

// The bits of a stream from `bit` of a byte on.
__attribute__((always_inline)) inline uint64_t window_at(const uint8_t* data, size_t bit) {
  uint64_t window;
  std::memcpy(&window, data, sizeof window);
  return (window | uint64_t{1} << 63) >> bit;
}

template <size_t kStreams, unsigned kCodes, class Entry, class T>
void decode_side_by_side(const HuffmanDecoder& table, HuffmanStream* streams, T* out) {
  constexpr bool kStaged = kStreams > 1;
  const uint64_t mask = low_mask(table.table_bits);
  const Entry* const entries = static_cast<const Entry*>(table.entries);
  uint64_t windows[kStreams];
  const uint8_t* next[kStreams];
  T stage[kStaged ? kStreams : 1][kStaged ? kStage + kApart / sizeof(T) : 1];
  T* to[kStreams];
  for (size_t s = 0; s < kStreams; ++s) {
    if (streams[s].bytes - streams[s].bit / 8 < kWindow) return;
    next[s] = streams[s].data + streams[s].bit / 8;
    windows[s] = window_at(next[s], streams[s].bit % 8);
    to[s] = kStaged ? stage[s] : out + streams[s].at;
  }
  size_t done = 0;  // symbols of each stream
  for (;;) {
    // A batch of rounds that no stream can leave, each of kCodes symbols.
    size_t rounds = kStaged ? kStage / kCodes : SIZE_MAX;
    for (size_t s = 0; s < kStreams; ++s) {
      const size_t left = static_cast<size_t>(streams[s].data + streams[s].bytes - next[s]);
      const size_t by_bytes = (left - kWindow) / kMostTaken, by_count = (streams[s].count - done) / kCodes;
      const size_t most = by_bytes < by_count ? by_bytes : by_count;
      rounds = most < rounds ? most : rounds;
    }
    if (rounds == 0) break;
    const size_t first = kStaged ? 0 : done, end = first + rounds * kCodes;
    for (size_t i = first; i < end; i += kCodes) {
#pragma GCC unroll 8
      for (size_t k = 0; k < kCodes; ++k)
#pragma GCC unroll 8
        for (size_t s = 0; s < kStreams; ++s) {
          const size_t entry = entries[windows[s] & mask];
          windows[s] >>= entry % 64;
          // Or else compilers join the stores, which takes longer.
          *static_cast<volatile T*>(to[s] + i + k) = static_cast<T>(entry >> HuffmanDecoder::kSymbolShift);
        }
#pragma GCC unroll 8
      for (size_t s = 0; s < kStreams; ++s) {
        const size_t taken = static_cast<size_t>(__builtin_clzll(windows[s]));
        next[s] += taken / 8;
        windows[s] = window_at(next[s], taken % 8);
      }
    }
    if constexpr (kStaged)
      for (size_t s = 0; s < kStreams; ++s)
        std::memcpy(out + streams[s].at + done, stage[s], rounds * kCodes * sizeof(T));
    done += rounds * kCodes;
  }
  for (size_t s = 0; s < kStreams; ++s) {
    streams[s].bit =
        static_cast<size_t>(next[s] - streams[s].data) * 8 + static_cast<size_t>(__builtin_clzll(windows[s]));
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
  for (size_t s = 0; s < count; ++s)
    if (five)
      decode_side_by_side<1, 5, Entry>(table, streams + s, out);
    else
      decode_side_by_side<1, 4, Entry>(table, streams + s, out);
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
