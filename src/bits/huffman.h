// SPDX-License-Identifier: Apache-2.0
//
// Decoding of prefix codes in scalar code, for kernels_huffman.cc and for levels whose CPUs shift in one step: each
// includes it last and gets a copy of its own.
//
// One stream alone would wait for each code's length before it knows where the next code starts; several streams hide
// that wait. From one 64-bit load, 57 bits or more are good: that is four codes. Entries are made so that nothing
// needs cutting off: shifts look at six bits, and the sum of four entries has that of their lengths in its lowest six.
//
// Threads: pure functions.
#pragma once

#include <cstring>

#include "bits/kernels.h"

namespace brevis::bits {
namespace {

constexpr unsigned kCodesPerLoad = 4;
static_assert(kCodesPerLoad * 12 <= 57);

// kCodesPerLoad symbols of a stream; gives the bit after them.
template <class T>
__attribute__((always_inline)) inline size_t huffman_step(const uint32_t* entries, uint64_t mask, const uint8_t* data,
                                                          size_t bit, T* out) {
  uint64_t window;
  std::memcpy(&window, data + bit / 8, sizeof window);
  window >>= bit % 8;
  size_t used = 0;
  for (unsigned k = 0; k < kCodesPerLoad; ++k) {
    const uint32_t entry = entries[window & mask];
    window >>= entry % 64;
    used += entry;
    uint32_t symbol = entry >> HuffmanDecoder::kSymbolShift;
    asm("" : "+r"(symbol));  // or else compilers join the stores, which takes longer
    out[k] = static_cast<T>(symbol);
  }
  return bit + used % 64;
}

template <size_t kStreams, class T>
void decode_side_by_side(const HuffmanDecoder& table, HuffmanStream* streams, T* out) {
  const uint64_t mask = low_mask(table.table_bits);
  const uint32_t* const entries = table.entries;
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
    // A batch of rounds that no stream can leave: each takes at most 6 bytes and gives 4 symbols.
    size_t rounds = SIZE_MAX;
    for (size_t s = 0; s < kStreams; ++s) {
      const size_t byte = bits[s] / 8, bytes = streams[s].bytes;
      const size_t by_bytes = bytes < byte + 8 ? 0 : (bytes - byte - 2) / 6;
      const size_t by_count = (streams[s].count - done) / kCodesPerLoad;
      const size_t most = by_bytes < by_count ? by_bytes : by_count;
      rounds = most < rounds ? most : rounds;
    }
    if (rounds == 0) break;
    for (const size_t end = done + rounds * kCodesPerLoad; done < end; done += kCodesPerLoad)
      for (size_t s = 0; s < kStreams; ++s) bits[s] = huffman_step(entries, mask, data[s], bits[s], to[s] + done);
  }
  for (size_t s = 0; s < kStreams; ++s) {
    streams[s].bit = bits[s];
    streams[s].at += done;
    streams[s].count -= done;
  }
}

// `lane`: bytes of an output word, 1 or 2, which hold 12 bits.
void huffman_decode_all(const HuffmanDecoder& table, HuffmanStream* streams, size_t count, uint8_t* out, size_t lane) {
  const auto run = [&](auto* to) {
    if (count == 8) return decode_side_by_side<8>(table, streams, to);
    for (size_t s = 0; s < count; ++s) decode_side_by_side<1>(table, streams + s, to);
  };
  if (lane == 1)
    run(out);
  else
    run(reinterpret_cast<uint16_t*>(out));
}

}  // namespace
}  // namespace brevis::bits
