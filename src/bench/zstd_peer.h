// SPDX-License-Identifier: Apache-2.0
//
// zstd in memory, as a peer: a buffer in pieces that can be worked on side by side, each a zstd frame of its own. The
// pieces are as large as the window of level 9, so that cutting costs the sizes next to nothing.
//
// Errors:  internal, when libzstd refuses. Threads: pieces are apart; contexts are by worker.
// Owns:    the compressed pieces, with room for the worst of each; contexts. The plain bytes are borrowed.
#pragma once

#include <memory>
#include <vector>

#include "bench/timing.h"

namespace brevis::bench {

class ZstdPeer {
 public:
  ZstdPeer(int level, ByteSpan plain, unsigned workers);
  ~ZstdPeer();
  ZstdPeer(ZstdPeer&&) noexcept;

  static std::string version();
  int level() const { return level_; }
  size_t pieces() const { return pieces_.size(); }
  uint64_t packed_bytes() const;  // of what was compressed last

  Status compress(unsigned worker, size_t piece);
  // Into the piece's place in `out`, which has the plain bytes' size.
  Status decompress(unsigned worker, size_t piece, MutByteSpan out);

 private:
  struct Piece {
    size_t at, bytes;
    ByteVector packed;  // room
    size_t packed_bytes = 0;
  };
  struct Contexts;
  int level_;
  ByteSpan plain_;
  std::vector<Piece> pieces_;
  std::vector<Contexts> contexts_;  // by worker
};

}  // namespace brevis::bench
