// SPDX-License-Identifier: Apache-2.0
//
// The three digests of the format: XXH3-64 for a frame, XXH3-128 for a tensor's content and an archive's id, SHA-256
// for a whole original file. The only place that names libxxhash and libcrypto.
//
// Errors:  none: a libcrypto that cannot make a SHA-256 context is a broken machine and ends in bad_alloc.
// Threads: a hasher belongs to one thread at a time. Owns: its state.
#pragma once

#include <memory>

#include "brevis/types.h"

namespace brevis {

uint64_t xxh3_64(ByteSpan bytes);
Digest xxh3_128(ByteSpan bytes);

// Streaming XXH3-128.
class DigestHasher {
 public:
  DigestHasher();
  ~DigestHasher();
  DigestHasher(DigestHasher&&) noexcept;
  DigestHasher& operator=(DigestHasher&&) noexcept;
  void update(ByteSpan bytes);
  // Of everything so far; more may follow.
  Digest digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Streaming SHA-256.
class Sha256Hasher {
 public:
  Sha256Hasher();
  ~Sha256Hasher();
  Sha256Hasher(Sha256Hasher&&) noexcept;
  Sha256Hasher& operator=(Sha256Hasher&&) noexcept;
  void update(ByteSpan bytes);
  // Once, at the end.
  Sha256 finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace brevis
