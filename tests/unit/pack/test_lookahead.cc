// SPDX-License-Identifier: Apache-2.0
#include "pack/lookahead.h"

#include <doctest/doctest.h>

#include "support/temp_dir.h"
#include "support/words.h"
#include "synth/stream.h"

using namespace brevis;

namespace {

constexpr uint64_t kMiB = 1u << 20;

// Streams of these lengths, one after the other.
std::vector<pack::RecordPlan> plans_of(const std::vector<uint64_t>& lengths) {
  std::vector<pack::RecordPlan> plans;
  uint64_t at = 0;
  for (const uint64_t length : lengths) {
    pack::RecordPlan& plan = plans.emplace_back();
    plan.dtype = Dtype::BF16;
    plan.members = {{{at, length}, 0}};
    at += length;
  }
  return plans;
}

}  // namespace

TEST_CASE("what is told of streams ahead of their turn is what one pass over each tells") {
  const std::vector<uint64_t> lengths = {
      2, kMiB, 3 * kMiB + 2, 9 * kMiB + 77 * 2, 4 * kMiB, 40, 40, 40, 40, 40, 40, 40, 40, 6};
  uint64_t sum = 0;
  for (const uint64_t length : lengths) sum += length;
  ByteVector bytes(sum);
  test::Random random(5);
  for (auto& byte : bytes) byte = static_cast<uint8_t>(random.below(1 + random.below(64)));
  const test::TempDir dir;
  test::write_file(dir / "source", bytes);
  const auto source = pack::Source::open(dir / "source");
  REQUIRE(source);
  const auto plans = plans_of(lengths);
  for (const unsigned threads : {1u, 3u}) {
    Pool pool(threads);
    pack::LookAhead ahead(*source, pool, plans, 5 * kMiB);
    for (const pack::RecordPlan& plan : plans) {
      const auto looked = ahead.next();
      REQUIRE(looked);
      const ByteSpan all = ByteSpan(bytes).subspan(plan.members[0].span.offset, plan.bytes());
      REQUIRE(looked->bytes->bytes() == all.size());
      REQUIRE((looked->scan != nullptr) == (all.size() <= 5 * kMiB));
      ByteVector read(all.size());
      REQUIRE(looked->bytes->read(0, read));
      CHECK(std::equal(read.begin(), read.end(), all.begin()));
      if (!looked->scan) continue;
      CHECK(looked->bytes->held() != nullptr);
      CHECK(looked->scan->digest == xxh3_128(all));
      const synth::StreamStats stats = synth::gather({all.data(), all.size() / 2, 16});
      CHECK(looked->scan->stats.top.counts == stats.top.counts);
      CHECK(looked->scan->stats.words == stats.words);
      CHECK(looked->scan->stats.last == stats.last);
      CHECK(looked->scan->stats.ramp == stats.ramp);
      CHECK(looked->scan->parts.size() == (all.size() > 3 * kMiB ? 4 : 0));
      uint64_t words = 0;
      for (const synth::StreamStats& part : looked->scan->parts) words += part.words;
      CHECK((looked->scan->parts.empty() || words == stats.words));
    }
  }
}

TEST_CASE("a stream that cannot be read says so at its turn, and nobody waits for those behind it") {
  const test::TempDir dir;
  test::write_file(dir / "source", ByteVector(6 * kMiB));
  const auto source = pack::Source::open(dir / "source");
  REQUIRE(source);
  const auto plans = plans_of({kMiB, kMiB, 8 * kMiB, 40, kMiB});
  Pool pool(2);
  pack::LookAhead ahead(*source, pool, plans, 16 * kMiB);
  CHECK(ahead.next());
  CHECK(ahead.next());
  const auto looked = ahead.next();
  REQUIRE_FALSE(looked);
  CHECK(looked.error().kind() == Errc::changed);
}
