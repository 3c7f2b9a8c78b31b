// SPDX-License-Identifier: Apache-2.0
//
// The loop over payloads of 16 lanes that are decoded side by side, whatever a step is. For kernels_avx512*_several.cc
// alone: each includes it last and gets a copy of its own.
//
// Requires: a CPU for which cpu_has_avx512(). Threads: pure functions.
#pragma once

#include "bits/avx512.h"

namespace brevis::bits {

BREVIS_TARGET_BEGIN(BREVIS_AVX512)
namespace {

// Kind: State (read(), write() of a cursor's states, step() to the next symbols), Table (fill() from the planes),
// Symbols of a round, and bytes_of() four rounds.
template <class Kind, unsigned kStreams>
size_t decode_beside(const AliasStream* streams, size_t rounds) {
  constexpr unsigned kRounds = AliasSeveral::kRounds;
  static_assert(kRounds == 4);
  typename Kind::State states[kStreams];
  typename Kind::Table tables[kStreams];
  const uint8_t *next[kStreams], *last[kStreams];  // from where kRounds can be read
  uint8_t* to[kStreams];
  for (unsigned k = 0; k < kStreams; ++k) {
    const RansCursor& cursor = *streams[k].cursor;
    if (cursor.end - cursor.next < static_cast<ptrdiff_t>(2 * kLanes)) return 0;
    states[k].read(cursor.states);
    tables[k].fill(*streams[k].table.planes);
    next[k] = cursor.next;
    last[k] = cursor.end - 2 * kLanes;
    to[k] = streams[k].out;
  }
  size_t round = 0;
  for (; round + kRounds <= rounds; round += kRounds) {
    bool readable = true;
    for (unsigned k = 0; k < kStreams; ++k) readable = readable && next[k] <= last[k];
    if (!readable) break;
    typename Kind::Symbols symbols[kStreams][kRounds];
#pragma GCC unroll 4
    for (unsigned r = 0; r < kRounds; ++r)
#pragma GCC unroll 4
      for (unsigned k = 0; k < kStreams; ++k) symbols[k][r] = states[k].step(tables[k], next[k]);
#pragma GCC unroll 4
    for (unsigned k = 0; k < kStreams; ++k) {
      _mm512_storeu_si512(to[k], Kind::bytes_of(symbols[k]));
      to[k] += kLanes;
    }
  }
  for (unsigned k = 0; k < kStreams; ++k) {
    states[k].write(streams[k].cursor->states);
    streams[k].cursor->next = next[k];
  }
  return round;
}

template <class Kind>
size_t decode_sixteens(const AliasStream* streams, size_t count, size_t rounds) {
  switch (count) {
    case 1: return decode_beside<Kind, 1>(streams, rounds);
    case 2: return decode_beside<Kind, 2>(streams, rounds);
    case 3: return decode_beside<Kind, 3>(streams, rounds);
    default: return decode_beside<Kind, 4>(streams, rounds);
  }
}

}  // namespace
BREVIS_TARGET_END

}  // namespace brevis::bits
