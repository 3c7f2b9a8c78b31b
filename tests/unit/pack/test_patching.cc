// SPDX-License-Identifier: Apache-2.0
//
// Streams that differ from a base in few words become patches, where those are smaller than differences.
#include "pack/patching.h"

#include <doctest/doctest.h>

#include <cstring>

#include "against.h"
#include "support/weights.h"

using namespace brevis;

namespace {

// Every so many-th word, on average, becomes one of `others`.
ByteVector replaced(ByteVector words, const ByteVector& others, unsigned lane, uint64_t every, uint64_t seed) {
  test::Rng rng(seed);
  for (size_t i = 0; i + lane <= words.size(); i += lane)
    if (rng.below(every) == 0) std::memcpy(words.data() + i, others.data() + i, lane);
  return words;
}

}  // namespace

TEST_CASE("patch: a handful of changed words costs a handful of bytes") {
  for (const Dtype dtype : {Dtype::BF16, Dtype::F32, Dtype::F8_E4M3, Dtype::I32}) {
    CAPTURE(dtype_info(dtype).name);
    const unsigned lane = dtype_info(dtype).bits / 8;
    const ByteVector base = test::gaussian_words(dtype, 300000, 1);
    ByteVector next = base;
    // The first and the last word, one that becomes zero, some in between.
    for (const size_t word : {size_t{0}, size_t{1}, size_t{1000}, size_t{1001}, size_t{250000}, size_t{299999}})
      next[word * lane] ^= 0x55;
    std::memset(next.data() + 2000 * lane, 0, lane);
    const test::Against outcome = test::pack_against(dtype, base, next);
    CHECK(outcome.root == dsl::OpId::patch);
    CHECK(outcome.bytes < 700);  // header, index and footer included
  }
}

TEST_CASE("patch: sparse changes to unrelated words cost their places and themselves") {
  for (const uint64_t every : {1000, 100, 30})
    for (const Dtype dtype : {Dtype::BF16, Dtype::F16, Dtype::F32}) {
      CAPTURE(dtype_info(dtype).name);
      CAPTURE(every);
      const size_t words = 200000;
      const ByteVector base = test::gaussian_words(dtype, words, 1), other = test::gaussian_words(dtype, words, 2);
      const test::Against outcome =
          test::pack_against(dtype, base, replaced(base, other, dtype_info(dtype).bits / 8, every, 3));
      CHECK(outcome.root == dsl::OpId::patch);
      // A place takes the logarithm of the mean gap and a bit and a half, a word what it takes by itself, at most.
      double gap = 1.5;
      for (uint64_t n = every; n > 1; n /= 2) gap += 1;
      const double bound =
          static_cast<double>(words) / static_cast<double>(every) * (gap + 1 + dtype_info(dtype).bits) / 8;
      CHECK(static_cast<double>(outcome.bytes) < bound + 1500);
      MESSAGE(dtype_info(dtype).name, ", one word in ", every, ": ", outcome.bytes, " bytes, alone ", outcome.alone);
    }
}

TEST_CASE("patch: steps of many words stay differences") {
  const ByteVector base = test::gaussian_words(Dtype::BF16, 200000, 1);
  CHECK(test::pack_against(Dtype::BF16, base, test::perturbed(base, 16, 2, 500)).root == dsl::OpId::combine);
  CHECK(test::pack_against(Dtype::BF16, base, test::perturbed(base, 16, 2, 1000)).root == dsl::OpId::combine);
}

TEST_CASE("patch: streams that are equal, or differ in nothing that a codec serves, give none") {
  Pool pool(2);
  const auto stream_of = [](const ByteVector& bytes) {
    synth::Stream stream;
    stream.dtype = Dtype::BF16;
    stream.width = 16;
    stream.words = bytes.size() / 2;
    stream.read = [&bytes](uint64_t first, bits::Words out) -> Status {
      std::memcpy(out.data, bytes.data() + 2 * first, out.bytes());
      return {};
    };
    return stream;
  };
  const ByteVector base = test::gaussian_words(Dtype::BF16, 5000, 1);
  ByteVector next = base;
  const auto same = pack::choose_patch({stream_of(next), stream_of(base).read}, 1024, pool, 4);
  REQUIRE(same);
  CHECK_FALSE(*same);
  next[4000] ^= 1;  // most frames have nothing
  const auto one = pack::choose_patch({stream_of(next), stream_of(base).read}, 1024, pool, 4);
  REQUIRE(one);
  REQUIRE(*one);
  CHECK((*one)->estimated_bytes < 100);
}
