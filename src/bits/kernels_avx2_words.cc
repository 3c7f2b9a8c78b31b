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

// Eight words at a time, whose fields PEXT takes out of 64 bits at once, until a store of 8 bytes would reach beyond.
template <class T>
size_t pack_fields(const uint8_t* in, size_t count, unsigned shift, unsigned b, uint8_t* out) {
  constexpr unsigned kLane = sizeof(T), kWords = 8 / kLane;
  uint64_t mask = 0;
  for (unsigned i = 0; i < kWords; ++i) mask |= low_mask(b) << (8 * kLane * i + shift);
  const size_t bytes = (count * b + 7) / 8;
  size_t i = 0, at = 0;
  for (; i + 8 <= count && at + 8 * kLane <= bytes; i += 8, at += b) {
    uint64_t held = 0;
    unsigned filled = 0;
    uint8_t* to = out + at;
    for (unsigned k = 0; k < kLane; ++k) {
      uint64_t words;
      __builtin_memcpy(&words, in + i * kLane + 8 * k, 8);
      const uint64_t fields = _pext_u64(words, mask);
      held |= fields << filled;
      const unsigned room = 64 - filled;
      filled += kWords * b;
      if (kLane > 1 && filled >= 64) {
        __builtin_memcpy(to, &held, 8);
        to += 8;
        filled -= 64;
        held = filled == 0 ? 0 : fields >> room;
      }
    }
    __builtin_memcpy(to, &held, 8);
  }
  return i;
}

void pack_field(ConstWords in, unsigned shift, unsigned b, uint8_t* out) {
  const unsigned lane = in.lane();
  size_t done = 0;
  if (b < 8 * lane) {
    if (lane == 1) done = pack_fields<uint8_t>(in.data, in.count, shift, b, out);
    if (lane == 2) done = pack_fields<uint16_t>(in.data, in.count, shift, b, out);
    // Whole bytes of wide words: that is what compilers are good at.
    if (lane == 4 && b % 8 != 0) done = pack_fields<uint32_t>(in.data, in.count, shift, b, out);
  }
  all_kernels().front().pack_field({in.data + done * lane, in.count - done, in.width}, shift, b, out + done / 8 * b);
}

void pack(ConstWords in, unsigned b, uint8_t* out) {
  const unsigned lane = in.lane();
  size_t done = 0;
  if (b < 8 * lane) {
    if (lane == 1) done = pack_fields<uint8_t>(in.data, in.count, 0, b, out);
    if (lane == 2) done = pack_fields<uint16_t>(in.data, in.count, 0, b, out);
    if (lane == 4) done = pack_fields<uint32_t>(in.data, in.count, 0, b, out);
  }
  all_kernels().front().pack({in.data + done * lane, in.count - done, in.width}, b, out + done / 8 * b);
}

}  // namespace
BREVIS_TARGET_END

void fill_avx2_words(Kernels& table) {
  table.unpack = unpack;
  table.pack = pack;
  table.pack_field = pack_field;
}

}  // namespace brevis::bits
#endif
