// SPDX-License-Identifier: Apache-2.0
//
// AVX2 kernels over plain words.
#if defined(__x86_64__)
#include "bits/avx2.h"

namespace brevis::bits {

BREVIS_TARGET_BEGIN(BREVIS_AVX2)
namespace {

void unpack(const uint8_t* in, unsigned b, Words out) {
  const unsigned lane = out.lane();
  const size_t bytes = (out.count * b + 7) / 8;
  const auto put = [&](size_t at, V fields) __attribute__((always_inline)) { store(out.data + at * lane, fields); };
  size_t done = 0;
  if (b < 8 * lane) {
    if (lane == 1) done = for_fields8(in, bytes, b, out.count, put);
    if (lane == 2) done = for_fields16(in, bytes, b, out.count, put);
    if (lane == 4) done = for_fields32(in, bytes, b, out.count, put);
  }
  done -= done % 8;
  all_kernels().front().unpack(in + done / 8 * b, b, {out.data + done * lane, out.count - done, out.width});
}

}  // namespace
BREVIS_TARGET_END

void fill_avx2_words(Kernels& table) { table.unpack = unpack; }

}  // namespace brevis::bits
#endif
