// SPDX-License-Identifier: Apache-2.0
//
// Prefix codes on CPUs with BMI2 and LZCNT, whose shifts by a register's value are one step, as is a count of zeros.
// There is nothing for vectors to do: eight streams are too few for gathers, and a code's length must be known before
// the next one is looked up.
#if defined(__x86_64__)
#include <cstring>

#include "bits/kernels.h"
#include "bits/target.h"

BREVIS_TARGET_BEGIN("bmi,bmi2,lzcnt")
#include "bits/huffman.h"
BREVIS_TARGET_END

namespace brevis::bits {

namespace {

void huffman_decode(const HuffmanDecoder& table, std::span<HuffmanStream> streams, Words out) {
  huffman_decode_all(table, streams.data(), streams.size(), out.data, out.lane());
}

}  // namespace

void fill_avx2_huffman(Kernels& table) { table.huffman_decode = huffman_decode; }

}  // namespace brevis::bits
#endif
