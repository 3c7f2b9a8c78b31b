// SPDX-License-Identifier: Apache-2.0
#include "bench/zstd_peer.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "support/weights.h"

using namespace brevis;
using namespace brevis::bench;

TEST_CASE("zstd_peer: pieces of any size come back, from any worker") {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{70000}, (size_t{4} << 20) + 3}) {
    ByteVector plain = test::palette_words(8, size, 5, 1);
    for (const int level : {3, 9}) {
      ZstdPeer peer(level, plain, 2);
      CHECK(peer.pieces() == (size + (size_t{4} << 20) - 1) / (size_t{4} << 20));
      ByteVector out(size, 0xee);
      for (size_t i = 0; i < peer.pieces(); ++i) REQUIRE(peer.compress(static_cast<unsigned>(i % 2), i));
      for (size_t i = 0; i < peer.pieces(); ++i) REQUIRE(peer.decompress(static_cast<unsigned>((i + 1) % 2), i, out));
      CHECK(out == plain);
      CHECK(peer.packed_bytes() <= size / 2 + 20);
    }
  }
}
