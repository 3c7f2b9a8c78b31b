// SPDX-License-Identifier: Apache-2.0
//
// The stored form of the index: one zstd frame with its content size declared. The bound on how far it may unfold
// (format.h) protects readers; an index that compresses better than that is put into raw blocks, which is legal zstd
// and about never happens (a million equal constant tensors).
#include <zstd.h>

#include <memory>

#include "archive/format.h"
#include "archive/manifest.h"
#include "base/coding.h"

namespace brevis::archive {

namespace {

constexpr uint64_t kNegligible = 256;

bool within_bounds(uint64_t content, uint64_t stored) {
  return content <= kMaxIndexBytes && content <= kIndexFloor + kIndexExpansion * stored;
}

// RFC 8878: magic, descriptor (single segment, 8-byte content size), blocks of at most 128 KiB of type raw.
ByteVector raw_frame(ByteSpan content) {
  constexpr size_t kBlock = size_t{128} << 10;
  ByteVector stored;
  ByteWriter out(stored);
  out.fixed<uint32_t>(0xfd2fb528);
  out.fixed<uint8_t>(0xe0);
  out.fixed<uint64_t>(content.size());
  for (size_t at = 0; at < content.size(); at += kBlock) {
    const ByteSpan block = content.subspan(at, std::min(kBlock, content.size() - at));
    const uint32_t header = static_cast<uint32_t>(block.size()) << 3 | (at + block.size() == content.size() ? 1 : 0);
    out.fixed<uint16_t>(static_cast<uint16_t>(header));
    out.fixed<uint8_t>(static_cast<uint8_t>(header >> 16));
    out.bytes(block);
  }
  return stored;
}

}  // namespace

Result<ByteVector> pack_index(ByteSpan index, uint64_t beside) {
  if (index.size() > kMaxIndexBytes)
    return make_error(Errc::invalid_argument, "the index would have " + std::to_string(index.size()) +
                                                  " bytes, above the limit of " + std::to_string(kMaxIndexBytes) +
                                                  ": take larger frames or split the file");
  // The slow level makes some 2 MB/s and saves a twentieth. Where the index is so little beside the frames that this is
  // lost in them, and above 8 MiB, time counts more.
  const bool slow = index.size() <= size_t{8} << 20 && index.size() >= beside / kNegligible;
  const int level = slow ? 18 : 9;
  ByteVector stored(ZSTD_compressBound(index.size()));
  const std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(), ZSTD_freeCCtx);
  if (!context) return make_error(Errc::internal, "no memory for a zstd context");
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, level);
  const size_t size = ZSTD_compress2(context.get(), stored.data(), stored.size(), index.data(), index.size());
  if (ZSTD_isError(size) != 0)
    return make_error(Errc::internal, std::string("zstd, index: ") + ZSTD_getErrorName(size));
  stored.resize(size);
  if (!within_bounds(index.size(), stored.size())) return raw_frame(index);
  return stored;
}

Result<ByteVector> unpack_index(ByteSpan stored) {
  const auto corrupt = [](const std::string& what) { return make_error(Errc::corrupt, "index: " + what); };
  const unsigned long long content = ZSTD_getFrameContentSize(stored.data(), stored.size());
  if (content == ZSTD_CONTENTSIZE_ERROR || content == ZSTD_CONTENTSIZE_UNKNOWN)
    return corrupt("no zstd frame that declares its size");
  if (!within_bounds(content, stored.size()))
    return corrupt("unfolds to " + std::to_string(content) + " bytes from " + std::to_string(stored.size()) +
                   ", beyond the limit");
  if (ZSTD_findFrameCompressedSize(stored.data(), stored.size()) != stored.size())
    return corrupt("not exactly one zstd frame");
  ByteVector index(content);
  const size_t size = ZSTD_decompress(index.data(), index.size(), stored.data(), stored.size());
  if (ZSTD_isError(size) != 0) return corrupt(std::string("zstd: ") + ZSTD_getErrorName(size));
  if (size != content) return corrupt("zstd frame shorter than it declares");
  return index;
}

}  // namespace brevis::archive
