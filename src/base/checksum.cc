// SPDX-License-Identifier: Apache-2.0
#include "base/checksum.h"

#include <new>

#include <openssl/evp.h>
#include <xxhash.h>
#ifdef BREVIS_HAS_XXH_DISPATCH
#include <xxh_x86dispatch.h>  // lets the functions below use the widest vectors of the CPU
#endif

namespace brevis {

uint64_t xxh3_64(ByteSpan bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

Digest xxh3_128(ByteSpan bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

struct DigestHasher::State {
  State() : xxh(XXH3_createState()) {
    if (xxh == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  XXH3_state_t* xxh;
};

DigestHasher::DigestHasher() : state_(std::make_unique<State>()) {}
DigestHasher::~DigestHasher() = default;
DigestHasher::DigestHasher(DigestHasher&&) noexcept = default;
DigestHasher& DigestHasher::operator=(DigestHasher&&) noexcept = default;

void DigestHasher::update(ByteSpan bytes) {
  if (!bytes.empty()) XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

Digest DigestHasher::digest() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return {hash.low64, hash.high64};
}

struct Sha256Hasher::State {
  State() : context(EVP_MD_CTX_new()) {
    if (context == nullptr) throw std::bad_alloc();
    if (EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1) return;
    EVP_MD_CTX_free(context);
    throw std::bad_alloc();
  }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  EVP_MD_CTX* context;
};

Sha256Hasher::Sha256Hasher() : state_(std::make_unique<State>()) {}
Sha256Hasher::~Sha256Hasher() = default;
Sha256Hasher::Sha256Hasher(Sha256Hasher&&) noexcept = default;
Sha256Hasher& Sha256Hasher::operator=(Sha256Hasher&&) noexcept = default;

void Sha256Hasher::update(ByteSpan bytes) {
  if (EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) != 1) throw std::bad_alloc();
}

Sha256 Sha256Hasher::finish() {
  Sha256 out{};
  if (EVP_DigestFinal_ex(state_->context, out.data(), nullptr) != 1) throw std::bad_alloc();
  return out;
}

}  // namespace brevis
