// SPDX-License-Identifier: Apache-2.0
//
// packed: each word in b bits, b being what the frame's largest word needs. For fields that nothing compresses and
// whose width is no whole number of bytes, and for lists of small numbers.
#include <bit>
#include <string>

#include "bits/kernels.h"
#include "codec/packed.h"

namespace brevis::codec {
namespace {

bool accepts(unsigned width) { return width >= 1 && width <= 64; }

Status decode(const Table*, ByteSpan payload, bits::Words out) {
  BREVIS_ASSIGN(const PackedFields fields, open_packed(payload, out.count, out.width));
  if (fields.b == 0) {
    for (uint8_t& byte : out.byte_span()) byte = 0;
  } else {
    bits::kernels().unpack(fields.bytes.data(), fields.b, out);
  }
  return {};
}

Status encode(const Table*, bits::ConstWords in, ByteVector& out) {
  if (in.count == 0) return {};
  const auto& kernels = bits::kernels();
  const unsigned b = static_cast<unsigned>(std::bit_width(kernels.any_bits(in)));
  const size_t at = out.size();
  out.resize(at + 1 + (in.count * b + 7) / 8);
  out[at] = static_cast<uint8_t>(b);
  if (b != 0) kernels.pack(in, b, out.data() + at + 1);
  return {};
}

uint64_t estimate(const Table*, const Histogram& histogram) {
  if (histogram.counts.empty()) return 0;
  return histogram.total() * static_cast<unsigned>(std::bit_width(histogram.counts.back().first)) * 256;
}

}  // namespace

Result<PackedFields> open_packed(ByteSpan payload, size_t count, unsigned width) {
  auto corrupt = [&](const std::string& why) { return make_error(Errc::corrupt, "packed payload: " + why); };
  if (count == 0) {
    if (!payload.empty()) return corrupt("bytes but no words");
    return PackedFields{{}, 0};
  }
  if (payload.empty()) return corrupt("no bytes for " + std::to_string(count) + " words");
  const unsigned b = payload[0];
  const ByteSpan fields = payload.subspan(1);
  if (b > width) return corrupt(std::to_string(b) + "-bit fields for words of " + std::to_string(width));
  const size_t bits = count * b;
  if (fields.size() != (bits + 7) / 8)
    return corrupt(std::to_string(fields.size()) + " bytes for " + std::to_string(count) + " fields of " +
                   std::to_string(b) + " bits");
  if (bits % 8 != 0 && fields.back() >> (bits % 8) != 0) return corrupt("its padding is not zero");
  return PackedFields{fields, b};
}

const CodecSpec packed_codec = {.id = CodecId::packed,
                                .name = "packed",
                                .since = 1,
                                .needs_table = false,
                                .accepts = accepts,
                                .load = no_table_load,
                                .decode = decode,
                                .train = no_table_train,
                                .encode = encode,
                                .estimate = estimate};

}  // namespace brevis::codec
