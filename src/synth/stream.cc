// SPDX-License-Identifier: Apache-2.0
#include "synth/stream.h"

#include <algorithm>

namespace brevis::synth {

Result<bits::ConstWords> Stream::at(uint64_t first, uint64_t count, bits::OwnedWords& buffer) const {
  if (held != nullptr) return bits::ConstWords{held + first * (width / 8), count, static_cast<uint8_t>(width)};
  if (buffer.width() != width || buffer.count() < count) buffer = bits::OwnedWords(width, count);
  const bits::Words part = buffer.words().part(0, count);
  BREVIS_TRY(read(first, part));
  return bits::ConstWords(part);
}

Result<StreamStats> gather_whole(const Stream& stream) {
  constexpr uint64_t kAtOnce = 1u << 17;
  StreamStats stats;
  bits::OwnedWords buffer;
  for (uint64_t first = 0; first < stream.words; first += kAtOnce) {
    BREVIS_ASSIGN(const bits::ConstWords part, stream.at(first, std::min(kAtOnce, stream.words - first), buffer));
    append(stats, gather(part));
  }
  return stats;
}

}  // namespace brevis::synth
