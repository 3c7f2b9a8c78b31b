// SPDX-License-Identifier: Apache-2.0
//
// Vectors of the three digests: a library that changed its answer would make every archive unreadable.
#include <doctest/doctest.h>

#include "base/checksum.h"
#include "support/temp_dir.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::test;

TEST_CASE("D08: known answers of XXH3 and SHA-256") {
  CHECK(xxh3_64({}) == 0x2d06800538d394c2u);
  CHECK(to_hex(xxh3_128({})) == "99aa06d3014798d86001c324468d497f");
  CHECK(to_hex(xxh3_128(as_bytes("abc"))) == "06b05ab6733a618578af5f94892f3950");
  CHECK(xxh3_64(as_bytes("abc")) == 0x78af5f94892f3950u);
  Sha256Hasher empty;
  CHECK(to_hex(ByteSpan(empty.finish())) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256Hasher abc;
  abc.update(as_bytes("abc"));
  CHECK(to_hex(ByteSpan(abc.finish())) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("streaming in any pieces gives the digest of the whole") {
  const ByteVector data = random_bytes(100000, 4);
  Sha256Hasher whole;
  whole.update(data);
  const Sha256 expected = whole.finish();
  for (const size_t step : {1u, 7u, 64u, 1000u, 99999u}) {
    DigestHasher digest;
    Sha256Hasher sha;
    for (size_t at = 0; at < data.size(); at += step) {
      const ByteSpan part = ByteSpan(data).subspan(at, std::min<size_t>(step, data.size() - at));
      digest.update(part);
      sha.update(part);
    }
    digest.update({});
    sha.update({});
    CHECK(digest.digest() == xxh3_128(data));
    CHECK(digest.digest() == xxh3_128(data));
    CHECK(sha.finish() == expected);
  }
}
