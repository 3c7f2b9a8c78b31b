// SPDX-License-Identifier: Apache-2.0
#include "synth/targets.h"

#include <doctest/doctest.h>

#include "codec/codec.h"
#include "support/weights.h"

using namespace brevis;

namespace {

constexpr size_t kWords = 65536, kSampled = 16384;

// A pool that sees a quarter of the words, which must outlive it.
synth::TargetPool pool_of(const ByteVector& bytes) {
  const bits::ConstWords all{bytes.data(), kWords, 32};
  return synth::TargetPool(Dtype::F32, kWords, {{0, all.part(0, kSampled)}}, {});
}

bool needs_table(const dsl::Expr& literal) { return codec::find_codec(literal.params.front())->needs_table; }

}  // namespace

TEST_CASE("tables are priced with the words that a sample does not show") {
  // No word is there twice, so that a table has four times as many as the sample.
  const ByteVector different = test::random_bytes(4 * kWords, 1), colours = test::palette_words(32, kWords, 500, 2);
  auto pool = pool_of(different);
  CHECK_FALSE(needs_table(pool.leaf(synth::TargetPool::kRoot).expr));
  // Here it shows them all.
  auto few = pool_of(colours);
  CHECK(needs_table(few.leaf(synth::TargetPool::kRoot).expr));
  CHECK(few.leaf(synth::TargetPool::kRoot).cost < pool.leaf(synth::TargetPool::kRoot).cost / 3);
}
