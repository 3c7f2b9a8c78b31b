// SPDX-License-Identifier: Apache-2.0
#include "bench/zstd_peer.h"

#include <zstd.h>

#include <algorithm>
#include <new>

namespace brevis::bench {
namespace {

constexpr size_t kPieceBytes = size_t{4} << 20;

struct FreeContexts {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

Status refused(size_t code) {
  if (ZSTD_isError(code)) return make_error(Errc::internal, std::string("libzstd: ") + ZSTD_getErrorName(code));
  return {};
}

}  // namespace

struct ZstdPeer::Contexts {
  std::unique_ptr<ZSTD_CCtx, FreeContexts> compress{ZSTD_createCCtx()};
  std::unique_ptr<ZSTD_DCtx, FreeContexts> decompress{ZSTD_createDCtx()};
};

ZstdPeer::ZstdPeer(int level, ByteSpan plain, unsigned workers) : level_(level), plain_(plain), contexts_(workers) {
  for (const Contexts& contexts : contexts_)
    if (contexts.compress == nullptr || contexts.decompress == nullptr) throw std::bad_alloc();
  for (size_t at = 0; at < plain.size(); at += kPieceBytes) {
    const size_t bytes = std::min(kPieceBytes, plain.size() - at);
    pieces_.push_back({at, bytes, ByteVector(ZSTD_compressBound(bytes)), 0});
  }
}

ZstdPeer::~ZstdPeer() = default;
ZstdPeer::ZstdPeer(ZstdPeer&&) noexcept = default;

std::string ZstdPeer::version() { return ZSTD_versionString(); }

uint64_t ZstdPeer::packed_bytes() const {
  uint64_t sum = 0;
  for (const Piece& piece : pieces_) sum += piece.packed_bytes;
  return sum;
}

Status ZstdPeer::compress(unsigned worker, size_t number) {
  Piece& piece = pieces_[number];
  piece.packed_bytes = ZSTD_compressCCtx(contexts_[worker].compress.get(), piece.packed.data(), piece.packed.size(),
                                         plain_.data() + piece.at, piece.bytes, level_);
  return refused(piece.packed_bytes);
}

Status ZstdPeer::decompress(unsigned worker, size_t number, MutByteSpan out) {
  const Piece& piece = pieces_[number];
  return refused(ZSTD_decompressDCtx(contexts_[worker].decompress.get(), out.data() + piece.at, piece.bytes,
                                     piece.packed.data(), piece.packed_bytes));
}

}  // namespace brevis::bench
