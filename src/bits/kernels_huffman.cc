// SPDX-License-Identifier: Apache-2.0
//
// Scalar kernel of prefix codes.
#include "bits/huffman.h"

namespace brevis::bits {

namespace {

void huffman_decode(const HuffmanDecoder& table, std::span<HuffmanStream> streams, Words out) {
  huffman_decode_all(table, streams.data(), streams.size(), out.data, out.lane());
}

}  // namespace

void fill_scalar_huffman(Kernels& table) { table.huffman_decode = huffman_decode; }

}  // namespace brevis::bits
