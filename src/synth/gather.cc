// SPDX-License-Identifier: Apache-2.0
#include "synth/gather.h"

#include <algorithm>

namespace brevis::synth {

Result<StreamStats> gather_whole(const Stream& stream) {
  constexpr uint64_t kAtOnce = 1u << 17;
  StreamStats stats;
  bits::OwnedWords buffer(stream.width, std::min(kAtOnce, stream.words));
  for (uint64_t first = 0; first < stream.words; first += kAtOnce) {
    const bits::Words part = buffer.words().part(0, std::min(kAtOnce, stream.words - first));
    BREVIS_TRY(stream.read(first, part));
    append(stats, gather(part));
  }
  return stats;
}

}  // namespace brevis::synth
