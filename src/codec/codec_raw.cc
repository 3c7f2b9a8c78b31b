// SPDX-License-Identifier: Apache-2.0
//
// raw: the lanes as they are. For fields of whole bytes that nothing compresses.
#include <cstring>
#include <string>

#include "codec/codec.h"

namespace brevis::codec {
namespace {

bool accepts(unsigned width) { return width == 8 || width == 16 || width == 32 || width == 64; }

Status decode(const Table*, ByteSpan payload, bits::Words out) {
  if (payload.size() != out.bytes())
    return make_error(Errc::corrupt, "raw payload has " + std::to_string(payload.size()) + " bytes, not the " +
                                         std::to_string(out.bytes()) + " of its words");
  if (!payload.empty()) std::memcpy(out.data, payload.data(), payload.size());
  return {};
}

Status encode(const Table*, bits::ConstWords in, ByteVector& out) {
  const auto bytes = in.byte_span();
  out.insert(out.end(), bytes.begin(), bytes.end());
  return {};
}

uint64_t estimate(const Table*, const Histogram& histogram) { return histogram.total() * histogram.width * 256; }

}  // namespace

const CodecSpec raw_codec = {.id = CodecId::raw,
                             .name = "raw",
                             .since = 1,
                             .needs_table = false,
                             .accepts = accepts,
                             .load = no_table_load,
                             .decode = decode,
                             .train = no_table_train,
                             .encode = encode,
                             .estimate = estimate};

}  // namespace brevis::codec
