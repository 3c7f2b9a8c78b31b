// SPDX-License-Identifier: Apache-2.0
//
// Every codec against any table and payload: byte 0 picks the codec, 1 the width, 2-3 the number of words, which the
// two high bits of byte 1 shift up to where frames have 64 lanes, 4-5 the table's length. Words that decode can be
// coded, and then decode to themselves.
#include <algorithm>
#include <cstring>

#include "base/arena.h"
#include "bits/words.h"
#include "codec/codec.h"
#include "fuzz/fuzz.h"

using namespace brevis;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 6) return 0;
  const auto codecs = codec::all_codecs();
  const codec::CodecSpec& spec = *codecs[data[0] % codecs.size()];
  const unsigned width = 1 + data[1] % 64;
  uint16_t words = 0, table_size = 0;
  std::memcpy(&words, data + 2, 2);
  std::memcpy(&table_size, data + 4, 2);
  const size_t count = size_t{words} << data[1] / 64;
  if (!spec.accepts(width)) return 0;
  const ByteSpan rest(data + 6, size - 6);
  const size_t split = spec.needs_table ? std::min<size_t>(table_size, rest.size()) : 0;

  codec::TablePtr table;
  if (spec.needs_table) {
    auto loaded = spec.load(rest.first(split), width);
    if (!loaded) return 0;
    table = std::move(*loaded);
  }
  Arena arena;
  const bits::Words out{arena.take(count * bits::lane_bytes(width)), count, static_cast<uint8_t>(width)};
  if (!spec.decode(table.get(), rest.subspan(split), out)) return 0;
  for (size_t i = 0; i < count; ++i) BREVIS_FUZZ_CHECK((bits::ConstWords(out).at(i) & ~bits::low_mask(width)) == 0);

  ByteVector coded;
  BREVIS_FUZZ_CHECK(spec.encode(table.get(), out, coded).has_value());
  const bits::Words again{arena.take(out.bytes()), count, static_cast<uint8_t>(width)};
  BREVIS_FUZZ_CHECK(spec.decode(table.get(), coded, again).has_value());
  BREVIS_FUZZ_CHECK(std::equal(again.data, again.data + again.bytes(), out.data));
  return 0;
}
