// SPDX-License-Identifier: Apache-2.0
//
// Scalar kernel of prefix codes. One stream alone would wait for each code's length before it knows where the next code
// starts; several streams hide that wait. From one 64-bit load, 57 bits or more are good: that is four codes.
#include <algorithm>
#include <cstring>

#include "bits/kernels.h"

namespace brevis::bits {
namespace {

constexpr unsigned kCodesPerLoad = 4;
static_assert(kCodesPerLoad * 12 <= 57);

template <class T>
void step(const HuffmanDecoder& table, HuffmanStream& stream, uint64_t mask, T* out) {
  uint64_t window;
  std::memcpy(&window, stream.data + stream.bit / 8, sizeof window);
  window >>= stream.bit % 8;
  T* const to = out + stream.at;
  size_t used = 0;
  for (unsigned k = 0; k < kCodesPerLoad; ++k) {
    const uint16_t entry = table.entries[window & mask];
    const unsigned length = entry >> 12;
    to[k] = static_cast<T>(entry & 0xfff);
    window >>= length;
    used += length;
  }
  stream.bit += used;
  stream.at += kCodesPerLoad;
}

template <class T, size_t kStreams>
void decode_side_by_side(const HuffmanDecoder& table, HuffmanStream* all, T* out) {
  const uint64_t mask = low_mask(table.table_bits);
  HuffmanStream streams[kStreams];
  std::copy(all, all + kStreams, streams);
  for (;;) {
    // A batch of rounds that no stream can leave: each takes at most 6 bytes and gives 4 symbols.
    size_t rounds = SIZE_MAX;
    for (const auto& stream : streams) {
      const size_t byte = stream.bit / 8;
      rounds =
          std::min({rounds, stream.count / kCodesPerLoad, stream.bytes < byte + 8 ? 0 : (stream.bytes - byte - 2) / 6});
    }
    if (rounds == 0) break;
    for (size_t round = 0; round < rounds; ++round)
      for (auto& stream : streams) step(table, stream, mask, out);
    for (auto& stream : streams) stream.count -= rounds * kCodesPerLoad;
  }
  std::copy(streams, streams + kStreams, all);
}

void huffman_decode(const HuffmanDecoder& table, std::span<HuffmanStream> streams, Words out) {
  visit_lane(out.width, [&]<class T>(T) {
    T* const to = out.as<T>().data();
    if (streams.size() == 8)
      decode_side_by_side<T, 8>(table, streams.data(), to);
    else
      for (auto& stream : streams) decode_side_by_side<T, 1>(table, &stream, to);
  });
}

}  // namespace

void fill_scalar_huffman(Kernels& table) { table.huffman_decode = huffman_decode; }

}  // namespace brevis::bits
