// SPDX-License-Identifier: Apache-2.0
//
// Kernels for 64-bit ARM, whose CPUs all have NEON: packed fields to words. Coded fields are left to scalar code.
//
// A table lookup brings each 32-bit lane the bytes that its field lies in; a shift by lane and a mask do the rest,
// eight fields at a time, since those are a whole number of bytes.
#if defined(__aarch64__)
#include <arm_neon.h>

#include "bits/kernels.h"

namespace brevis::bits {
namespace {

// Eight words of up to 32 bits.
struct Eight {
  uint32x4_t low, high;
};

Eight or_(Eight a, Eight b) { return {vorrq_u32(a.low, b.low), vorrq_u32(a.high, b.high)}; }
Eight shifted(Eight words, int32x4_t up) { return {vshlq_u32(words.low, up), vshlq_u32(words.high, up)}; }

// Fields of up to 25 bits, which four bytes hold wherever they start.
class FieldReader {
 public:
  static constexpr unsigned kMaxBits = 25;

  FieldReader() = default;
  explicit FieldReader(unsigned b) : second_(b / 2), mask_(vdupq_n_u32(static_cast<uint32_t>(low_mask(b)))) {
    for (unsigned half = 0; half < 2; ++half) {
      uint8_t bytes[16];
      int32_t down[4];
      for (unsigned i = 0; i < 4; ++i) {
        const unsigned bit = i * b + half * (4 * (b % 2));  // from byte 0, and from the byte of the fifth field
        for (unsigned byte = 0; byte < 4; ++byte) bytes[4 * i + byte] = static_cast<uint8_t>(bit / 8 + byte);
        down[i] = -static_cast<int32_t>(bit % 8);
      }
      bytes_[half] = vld1q_u8(bytes);
      down_[half] = vld1q_s32(down);
    }
  }
  Eight get(const uint8_t* at) const { return {half(at, 0), half(at + second_, 1)}; }
  // How far get() reads.
  static size_t reach(unsigned b) { return b / 2 + 16; }

 private:
  uint32x4_t half(const uint8_t* at, unsigned k) const {
    const uint32x4_t lanes = vreinterpretq_u32_u8(vqtbl1q_u8(vld1q_u8(at), bytes_[k]));
    return vandq_u32(vshlq_u32(lanes, down_[k]), mask_);
  }

  unsigned second_ = 0;
  uint32x4_t mask_{};
  uint8x16_t bytes_[2]{};
  int32x4_t down_[2]{};
};

// To and from lanes of kLane bytes.
template <unsigned kLane>
void put(Eight words, uint8_t* out) {
  if constexpr (kLane == 4) {
    vst1q_u8(out, vreinterpretq_u8_u32(words.low));
    vst1q_u8(out + 16, vreinterpretq_u8_u32(words.high));
  } else {
    const uint16x8_t shorts = vcombine_u16(vmovn_u32(words.low), vmovn_u32(words.high));
    if constexpr (kLane == 2)
      vst1q_u8(out, vreinterpretq_u8_u16(shorts));
    else
      vst1_u8(out, vmovn_u16(shorts));
  }
}
Eight take(const uint8_t* in, unsigned lane) {
  if (lane == 4) return {vreinterpretq_u32_u8(vld1q_u8(in)), vreinterpretq_u32_u8(vld1q_u8(in + 16))};
  const uint16x8_t shorts = lane == 2 ? vreinterpretq_u16_u8(vld1q_u8(in)) : vmovl_u8(vld1_u8(in));
  return {vmovl_u16(vget_low_u16(shorts)), vmovl_u16(vget_high_u16(shorts))};
}

// Eights of words whose fields may be read.
size_t readable(size_t bytes, unsigned b) {
  const size_t reach = FieldReader::reach(b);
  return bytes < reach ? 0 : (bytes - reach) / b + 1;
}

template <unsigned kLane>
size_t unpack_eights(const uint8_t* in, size_t bytes, unsigned b, uint8_t* out, size_t count) {
  const FieldReader fields(b);
  const size_t some = readable(bytes, b), eights = some < count / 8 ? some : count / 8;
  for (size_t i = 0; i < eights; ++i) put<kLane>(fields.get(in + i * b), out + i * 8 * kLane);
  return eights * 8;
}

void unpack(const uint8_t* in, unsigned b, Words out) {
  const size_t bytes = (out.count * b + 7) / 8;
  const unsigned lane = out.lane();
  size_t done = 0;
  if (b <= FieldReader::kMaxBits) {
    if (lane == 1) done = unpack_eights<1>(in, bytes, b, out.data, out.count);
    if (lane == 2) done = unpack_eights<2>(in, bytes, b, out.data, out.count);
    if (lane == 4) done = unpack_eights<4>(in, bytes, b, out.data, out.count);
  }
  all_kernels().front().unpack(in + done / 8 * b, b, {out.data + done * lane, out.count - done, out.width});
}

template <unsigned kLane>
void merge_fields(const FieldMerge& merge, uint8_t* out, size_t count) {
  size_t eights = count / 8;
  FieldReader packed[FieldMerge::kMaxFields];
  int32x4_t packed_up[FieldMerge::kMaxFields], lane_up[FieldMerge::kMaxFields];
  for (size_t k = 0; k < merge.packed_count; ++k) {
    const PackedField& field = merge.packed[k];
    const size_t some = field.b > FieldReader::kMaxBits ? 0 : readable(field.bytes, field.b);
    if (some != 0) packed[k] = FieldReader(field.b);
    if (some < eights) eights = some;
    packed_up[k] = vdupq_n_s32(static_cast<int32_t>(field.shift));
  }
  for (size_t k = 0; k < merge.lane_count; ++k) lane_up[k] = vdupq_n_s32(static_cast<int32_t>(merge.lanes[k].shift));
  const uint32x4_t fixed = vdupq_n_u32(static_cast<uint32_t>(merge.fixed));
  for (size_t i = 0; i < eights; ++i) {
    Eight words{fixed, fixed};
    for (size_t k = 0; k < merge.lane_count; ++k) {
      const ConstWords& in = merge.lanes[k].words;
      words = or_(words, shifted(take(in.data + 8 * i * in.lane(), in.lane()), lane_up[k]));
    }
    for (size_t k = 0; k < merge.packed_count; ++k)
      words = or_(words, shifted(packed[k].get(merge.packed[k].data + i * merge.packed[k].b), packed_up[k]));
    put<kLane>(words, out + 8 * i * kLane);
  }
  all_kernels().front().merge_fields[kLane / 2](merge.after(8 * eights), out + 8 * eights * kLane, count - 8 * eights);
}

}  // namespace

void fill_neon(Kernels& table) {
  table.unpack = unpack;
  table.merge_fields[0] = merge_fields<1>;
  table.merge_fields[1] = merge_fields<2>;
  table.merge_fields[2] = merge_fields<4>;
}

}  // namespace brevis::bits
#endif
