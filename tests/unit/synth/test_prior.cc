// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "base/checksum.h"
#include "base/coding.h"
#include "synth/prior_file.h"

using namespace brevis;
using synth::Context;
using synth::Prior;
using synth::Production;

namespace {

const Production kSplit{dsl::OpId::merge, {8, 8}, {}};
const Production kOtherSplit{dsl::OpId::merge, {1, 15}, {}};
const Production kZeros{dsl::OpId::zeros, {}, {}};

Context context(uint8_t depth, uint8_t entropy) {
  Context out;
  out.depth = depth;
  out.width = 16;
  out.entropy = entropy;
  return out;
}

Prior taught() {
  Prior prior;
  for (int i = 0; i < 6; ++i) prior.learn(context(0, 5), &kSplit, 600, 1000);
  prior.learn(context(0, 5), nullptr, 1000, 1000);
  prior.learn(context(1, 2), &kZeros, 100, 1000);
  return prior;
}

ByteVector resealed(ByteVector bytes) {
  bytes.resize(bytes.size() - 8);
  const uint64_t checksum = xxh3_64(bytes);
  ByteWriter(bytes).fixed<uint64_t>(checksum);
  return bytes;
}

}  // namespace

TEST_CASE("without counts every production is as likely as the literal") {
  const std::vector<Production> all{kSplit, kOtherSplit, kZeros};
  const auto costs = Prior{}.costs(context(0, 5), all);
  REQUIRE(costs.size() == 4);
  for (const uint32_t cost : costs) CHECK(cost == 2 * Prior::kBit);
}

TEST_CASE("what was counted is likely, the same operator with other parameters is not") {
  const Prior prior = taught();
  const std::vector<Production> all{kSplit, kOtherSplit, kZeros};
  const auto costs = prior.costs(context(0, 5), all);
  CHECK(costs[1] < Prior::kBit);
  CHECK(costs[1] < costs[0]);
  CHECK(costs[0] < costs[2]);
  CHECK(costs[2] >= costs[3] - 1);
  for (const uint32_t cost : costs) CHECK(cost < 20 * Prior::kBit);  // nothing is impossible
}

TEST_CASE("an unknown context asks coarser ones") {
  const Prior prior = taught();
  const std::vector<Production> all{kSplit, kOtherSplit};
  const auto near = prior.costs(context(3, 5), all);  // another depth
  CHECK(near[1] < near[2]);
  Context far = context(0, 5);
  far.width = 7;
  const auto even = prior.costs(far, all);
  CHECK(even[0] == even[1]);
}

TEST_CASE("the expected share of a hole is the mean of what was seen") {
  const Prior prior = taught();
  CHECK(prior.expected(context(0, 5)) > 600);
  CHECK(prior.expected(context(0, 5)) < 720);
  CHECK(prior.expected(context(1, 2)) == 102);
  CHECK(Prior{}.expected(context(4, 0)) <= Prior::kWhole);
}

TEST_CASE("a prior comes back from its file as it was") {
  for (const Prior& prior : {Prior{}, taught()}) {
    const ByteVector bytes = synth::write_prior(prior);
    const auto again = synth::read_prior(bytes);
    REQUIRE(again);
    CHECK(again->nodes() == prior.nodes());
    CHECK(synth::write_prior(*again) == bytes);
  }
}

TEST_CASE("priors of two files add up") {
  Prior sum = taught();
  sum.add(taught());
  const Prior one = taught();
  for (const auto& [key, node] : one.nodes()) {
    CHECK(sum.nodes().at(key).total == 2 * node.total);
    CHECK(sum.nodes().at(key).share == 2 * node.share);
  }
}

TEST_CASE("a damaged prior is refused") {
  const ByteVector good = synth::write_prior(taught());
  for (size_t i = 0; i < good.size(); ++i) {
    ByteVector bad = good;
    bad[i] ^= 0x10;
    CHECK(!synth::read_prior(bad));
    // Whatever a false checksum would let through is a prior or is refused, and comes back the same.
    bad = resealed(bad);
    const auto read = synth::read_prior(bad);
    if (read) CHECK(synth::write_prior(*read) == bad);
  }
  for (size_t n = 0; n < good.size(); ++n) CHECK(!synth::read_prior(ByteSpan(good).first(n)));
  ByteVector longer = good;
  longer.push_back(0);  // resealed() puts the checksum over the last eight bytes
  CHECK(!synth::read_prior(resealed(longer)));
  ByteVector later = good;
  later[8] = 2;
  CHECK(synth::read_prior(resealed(later)).error().kind() == Errc::unsupported);
}
