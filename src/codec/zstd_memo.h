// SPDX-License-Identifier: Apache-2.0
//
// What zstd made of bytes, remembered while one of these stands. Candidates for a stream's program are encoded one
// after the other and have most of their literals in common, which zstd takes longer over than all else.
//
// Threads: one stands for the thread that made it, and the encoder looks for it there. They may be nested; the last one
// serves. Memory: bounded by kBytes; what finds no room is not remembered. Determinism: a payload is that of the very
// same bytes, which are compared.
#pragma once

#include <optional>
#include <vector>

#include "brevis/types.h"

namespace brevis::codec {

class ZstdMemo {
 public:
  static constexpr size_t kBytes = size_t{32} << 20;

  ZstdMemo();
  ~ZstdMemo();
  ZstdMemo(const ZstdMemo&) = delete;
  ZstdMemo& operator=(const ZstdMemo&) = delete;

  // That of the calling thread, nullptr where there is none.
  static ZstdMemo* mine();

  // `lane`: of the words that the bytes are. nullopt: not remembered.
  std::optional<ByteSpan> find(ByteSpan bytes, unsigned lane) const;
  void keep(ByteSpan bytes, unsigned lane, ByteSpan payload);

 private:
  struct Entry {
    ByteVector bytes, payload;
    unsigned lane;
  };
  ZstdMemo* const before_;
  size_t held_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace brevis::codec
