// SPDX-License-Identifier: Apache-2.0
//
// The gate of an archive's index, stored and unpacked. The first two bytes make up the original's size, the next two
// where frames end. An index that passes has one spelling.
#include <cstring>

#include "archive/manifest.h"
#include "fuzz/fuzz.h"

using namespace brevis;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  uint16_t original = 0, frames_end = 0;
  std::memcpy(&original, data, 2);
  std::memcpy(&frames_end, data + 2, 2);
  const ByteSpan bytes(data + 4, size - 4);
  if (const auto manifest = archive::decode_manifest(bytes, original, frames_end)) {
    const ByteVector again = archive::encode_manifest(*manifest);
    BREVIS_FUZZ_CHECK(again.size() == bytes.size() && std::equal(again.begin(), again.end(), bytes.begin()));
  }
  static_cast<void>(archive::unpack_index(bytes));
  return 0;
}
