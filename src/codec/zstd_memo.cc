// SPDX-License-Identifier: Apache-2.0
#include "codec/zstd_memo.h"

#include <algorithm>

namespace brevis::codec {
namespace {

constexpr size_t kLeast = 1024;  // bytes; fewer are coded as fast as they are found

thread_local ZstdMemo* last = nullptr;

}  // namespace

ZstdMemo::ZstdMemo() : before_(last) { last = this; }

ZstdMemo::~ZstdMemo() { last = before_; }

ZstdMemo* ZstdMemo::mine() { return last; }

std::optional<ByteSpan> ZstdMemo::find(ByteSpan bytes, unsigned lane) const {
  if (bytes.size() < kLeast) return std::nullopt;
  for (const Entry& entry : entries_)
    if (entry.lane == lane && std::equal(bytes.begin(), bytes.end(), entry.bytes.begin(), entry.bytes.end()))
      return ByteSpan(entry.payload);
  return std::nullopt;
}

void ZstdMemo::keep(ByteSpan bytes, unsigned lane, ByteSpan payload) {
  if (bytes.size() < kLeast || held_ + bytes.size() + payload.size() > kBytes) return;
  held_ += bytes.size() + payload.size();
  entries_.push_back({{bytes.begin(), bytes.end()}, {payload.begin(), payload.end()}, lane});
}

}  // namespace brevis::codec
