// SPDX-License-Identifier: Apache-2.0
//
// zstd: one zstd frame of the lanes' bytes. For text, repeats and structure that no other node caught.
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "bits/kernels.h"
#include "bits/log2.h"
#include "codec/codec.h"
#include "codec/zstd_frame.h"
#include "codec/zstd_memo.h"

namespace brevis::codec {
namespace {

// Part of what makes archives reproducible. Readers do not care.
constexpr int kLevel = 12;
// Long matches of words of several bytes are found as well without looking so deep, in a third of the time.
constexpr int kWideLevel = 9;
constexpr size_t kWideFrom = 65536;  // bytes
int level_for(bits::ConstWords words) { return words.lane() > 1 && words.bytes() >= kWideFrom ? kWideLevel : kLevel; }

constexpr int kFastLevel = 1, kNearLevel = 5;  // of looks

struct FreeContexts {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

// Where words of four bytes recur, a match of one word is all there is, and the level by itself looks for five bytes.
constexpr unsigned kWordLane = 4;

// Appends one zstd frame; libzstd's result.
size_t compress(ByteSpan bytes, int level, unsigned lane, ByteVector& out) {
  thread_local const std::unique_ptr<ZSTD_CCtx, FreeContexts> context(ZSTD_createCCtx());
  if (context == nullptr) return static_cast<size_t>(-ZSTD_error_memory_allocation);
  ZSTD_CCtx* const zstd = context.get();
  ZSTD_CCtx_reset(zstd, ZSTD_reset_session_and_parameters);
  ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, level);
  if (lane == kWordLane) ZSTD_CCtx_setParameter(zstd, ZSTD_c_minMatch, kWordLane);
  ZSTD_CCtx_setParameter(zstd, ZSTD_c_contentSizeFlag, 1);
  ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 0);
  const size_t at = out.size();
  out.resize(at + ZSTD_compressBound(bytes.size()));
  const size_t size = ZSTD_compress2(zstd, out.data() + at, out.size() - at, bytes.data(), bytes.size());
  out.resize(ZSTD_isError(size) ? at : at + size);
  return size;
}

size_t size_at(bits::ConstWords words, int level) {
  thread_local ByteVector scratch;
  scratch.clear();
  const size_t size = compress(words.byte_span(), level, words.lane(), scratch);
  return ZSTD_isError(size) ? words.bytes() : size;
}

bool accepts(unsigned width) { return width >= 1 && width <= 64; }

Status decode(const Table*, ByteSpan payload, bits::Words out) {
  if (out.count == 0) return payload.empty() ? Status{} : make_error(Errc::corrupt, "zstd payload: bytes but no words");
  BREVIS_TRY(unpack_zstd_frame(payload, out.byte_span()));
  if (out.width < 8 * out.lane() && bits::kernels().any_bits(out) > bits::low_mask(out.width))
    return make_error(Errc::corrupt, "zstd payload: words of more than " + std::to_string(out.width) + " bits");
  return {};
}

Status encode(const Table*, bits::ConstWords in, ByteVector& out) {
  if (in.count == 0) return {};
  ZstdMemo* const memo = ZstdMemo::mine();
  if (memo != nullptr)
    if (const auto known = memo->find(in.byte_span(), in.lane())) {
      out.insert(out.end(), known->begin(), known->end());
      return {};
    }
  const size_t at = out.size();
  BREVIS_TRY(append_zstd_frame(in.byte_span(), level_for(in), out, in.lane()));
  if (memo != nullptr) memo->keep(in.byte_span(), in.lane(), ByteSpan(out).subspan(at));
  return {};
}

// What zstd's literals cost when it finds no repeats: the order-0 entropy of all bytes together.
uint64_t estimate(const Table*, const Histogram& histogram) {
  std::array<uint64_t, 256> counts{};
  uint64_t total = 0;
  for (const auto& [word, count] : histogram.counts)
    for (unsigned byte = 0; byte < bits::lane_bytes(histogram.width); ++byte, total += count)
      counts[word >> 8 * byte & 0xff] += count;
  if (total == 0) return 0;
  uint64_t cost = 0;
  for (const uint64_t count : counts)
    if (count != 0) cost += count * (bits::log2_fixed(total) - bits::log2_fixed(count)) >> 8;
  return std::min(cost, total * 8 * 256);
}

}  // namespace

Result<uint64_t> zstd_frame_content(ByteSpan payload) {
  // The magic, since libzstd may also know frames of the years before its format settled.
  uint32_t magic = 0;
  if (payload.size() >= sizeof magic) std::memcpy(&magic, payload.data(), sizeof magic);
  if (magic != ZSTD_MAGICNUMBER) return make_error(Errc::corrupt, "zstd payload: no zstd frame");
  const auto size = ZSTD_getFrameContentSize(payload.data(), payload.size());
  if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR)
    return make_error(Errc::corrupt, "zstd payload: a frame that does not tell its size");
  return uint64_t{size};
}

Status unpack_zstd_frame(ByteSpan payload, MutByteSpan out) {
  auto corrupt = [&](const std::string& why) { return make_error(Errc::corrupt, "zstd payload: " + why); };
  // The size first, so that a frame which says it is larger is not unpacked at all.
  BREVIS_ASSIGN(const uint64_t size, zstd_frame_content(payload));
  if (size != out.size()) return corrupt("not a frame of " + std::to_string(out.size()) + " bytes");
  if (ZSTD_findFrameCompressedSize(payload.data(), payload.size()) != payload.size())
    return corrupt("not exactly one frame");
  thread_local const std::unique_ptr<ZSTD_DCtx, FreeContexts> context(ZSTD_createDCtx());
  if (context == nullptr) return make_error(Errc::internal, "zstd: no memory to decode");
  const size_t got = ZSTD_decompressDCtx(context.get(), out.data(), out.size(), payload.data(), payload.size());
  if (ZSTD_isError(got)) return corrupt(ZSTD_getErrorName(got));
  if (got != out.size()) return corrupt("gives " + std::to_string(got) + " bytes");
  return {};
}

Status append_zstd_frame(ByteSpan bytes, int level, ByteVector& out, unsigned lane) {
  const size_t size = compress(bytes, level, lane, out);
  if (ZSTD_isError(size)) return make_error(Errc::internal, std::string("zstd: ") + ZSTD_getErrorName(size));
  return {};
}

size_t zstd_fast_size(bits::ConstWords words) { return size_at(words, kFastLevel); }
size_t zstd_near_size(bits::ConstWords words) { return size_at(words, kNearLevel); }

const CodecSpec zstd_codec = {.id = CodecId::zstd,
                              .name = "zstd",
                              .since = 1,
                              .needs_table = false,
                              .accepts = accepts,
                              .load = no_table_load,
                              .decode = decode,
                              .train = no_table_train,
                              .encode = encode,
                              .estimate = estimate,
                              .by_order = true};

}  // namespace brevis::codec
