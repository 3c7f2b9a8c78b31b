// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a file's beginning: a verdict comes out, and what it says stays inside the file. The last two bytes of
// the input shift the file's size, so that files longer and shorter than their headers say are met.
#include <algorithm>
#include <cstring>

#include "brevis/model.h"
#include "fuzz/fuzz.h"
#include "model/model_dir.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace brevis;
  const ByteSpan file(data, size);
  uint64_t extra = 0;
  if (size >= 2) extra = data[size - 1] * 256u + data[size - 2];
  for (const uint64_t file_size : {uint64_t{size}, size + extra}) {
    uint64_t header = 0;
    if (size >= 8) std::memcpy(&header, data, 8);
    const bool cut = size < 8 || header > file_size - 8;
    const uint64_t wanted = cut ? file_size : 8 + header;
    const Verdict verdict = examine_prefix(file.first(std::min<uint64_t>(wanted, size)), file_size);
    BREVIS_FUZZ_CHECK((verdict.kind == VerdictKind::valid) == verdict.reason.empty());
    BREVIS_FUZZ_CHECK(verdict.prefix_bytes <= file_size);
    uint64_t at = verdict.prefix_bytes;
    for (const TensorInfo& tensor : verdict.tensors) {
      BREVIS_FUZZ_CHECK(tensor.span.offset >= at && tensor.span.offset <= file_size);
      BREVIS_FUZZ_CHECK(tensor.span.length <= file_size - tensor.span.offset);
      at = tensor.span.end();
    }
    BREVIS_FUZZ_CHECK(verdict.kind != VerdictKind::valid || at == file_size);
  }
  (void)model::parse_shard_index({reinterpret_cast<const char*>(data), size});
  return 0;
}
