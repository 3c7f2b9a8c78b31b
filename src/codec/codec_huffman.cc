// SPDX-License-Identifier: Apache-2.0
#include "codec/codec.h"

namespace brevis::codec {
namespace {
Status no_decode(const Table*, ByteSpan, bits::Words) {
  return make_error(Errc::unsupported, "huffman is not built yet");
}
Status no_encode(const Table*, bits::ConstWords, ByteVector&) {
  return make_error(Errc::unsupported, "huffman is not built yet");
}
}  // namespace

const CodecSpec huffman_codec = {.id = CodecId::huffman,
                                 .name = "huffman",
                                 .since = 1,
                                 .needs_table = false,
                                 .accepts = [](unsigned) { return false; },
                                 .load = no_table_load,
                                 .decode = no_decode,
                                 .train = no_table_train,
                                 .encode = no_encode,
                                 .estimate = [](const Table*, const Histogram&) { return UINT64_MAX; }};

}  // namespace brevis::codec
