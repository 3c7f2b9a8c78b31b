// SPDX-License-Identifier: Apache-2.0
//
// Every codec gives back every stream: byte 0 picks the codec, 1 the width, 2 how often the words are repeated (seldom
// so often that frames of 64 lanes are reached); the rest are the words. The table comes from the words themselves.
#include <algorithm>

#include "codec/codec.h"
#include "fuzz/fuzz.h"
#include "support/words.h"

using namespace brevis;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const auto codecs = codec::all_codecs();
  const codec::CodecSpec& spec = *codecs[data[0] % codecs.size()];
  const unsigned width = 1 + data[1] % 64, lane = bits::lane_bytes(width);
  if (!spec.accepts(width)) return 0;
  const ByteSpan rest(data + 3, size - 3);
  const size_t own = rest.size() / lane, times = data[2] < 240 ? 1 + data[2] % 16 : 65600;
  const size_t most = data[2] < 240 ? 5000 : data[2] < 255 ? 17000 : 65600;
  const size_t count = std::min(own * times, most);
  bits::OwnedWords in(width, count), out(width, count);
  for (size_t i = 0; i < count; ++i) {
    uint64_t word = 0;
    for (unsigned byte = 0; byte < lane; ++byte) word |= uint64_t{rest[i % own * lane + byte]} << 8 * byte;
    in.words().set(i, word & bits::low_mask(width));
  }
  codec::TablePtr table;
  if (spec.needs_table) {
    const auto histogram = test::histogram_of(in.view());
    const auto stored = spec.train(histogram);
    if (!stored) return 0;
    const auto loaded = spec.load(*stored, width);
    BREVIS_FUZZ_CHECK(loaded.has_value());
    table = *loaded;
    BREVIS_FUZZ_CHECK(spec.estimate(table.get(), histogram) != UINT64_MAX);
  }
  ByteVector payload;
  BREVIS_FUZZ_CHECK(spec.encode(table.get(), in.view(), payload).has_value());
  BREVIS_FUZZ_CHECK(spec.decode(table.get(), payload, out.words()).has_value());
  const auto before = in.view().byte_span(), after = out.view().byte_span();
  BREVIS_FUZZ_CHECK(std::equal(before.begin(), before.end(), after.begin()));
  return 0;
}
