// SPDX-License-Identifier: Apache-2.0
//
// Structure in a sample is proposed by the operator that is for it.
#include <doctest/doctest.h>

#include <algorithm>

#include "dsl/encode.h"
#include "support/words.h"

using namespace brevis;
using namespace brevis::dsl;

namespace {

// Proposals of one operator for a stream seen through three windows.
struct Asked {
  std::vector<std::vector<uint64_t>> params;
  std::vector<std::vector<Dtype>> children;
  bool has(const std::vector<uint64_t>& wanted) const { return std::ranges::count(params, wanted) == 1; }
};

template <class F>
Asked ask(OpId op, Dtype dtype, uint64_t words, std::vector<uint64_t> shape, F&& word, bool below = false) {
  const unsigned width = dtype_info(dtype).word_bits();
  std::vector<bits::OwnedWords> owned;
  std::vector<Window> windows;
  codec::Histogram histogram{width, {}};
  const uint64_t each = std::min<uint64_t>(words, 4096);
  for (const uint64_t first : {uint64_t{0}, (words - each) / 2, words - each}) {
    owned.emplace_back(width, each);
    for (uint64_t i = 0; i < each; ++i) owned.back().words().set(i, word(first + i) & bits::low_mask(width));
    windows.push_back({first, owned.back().view()});
    add_histogram(histogram, histogram_of(owned.back().view()));
  }
  std::vector<Proposal> proposals;
  spec_of(op).propose({width, dtype, words, shape, windows, &histogram, below}, proposals);
  Asked out;
  for (auto& proposal : proposals) {
    out.params.push_back(proposal.params);
    out.children.push_back(proposal.child_dtypes);
  }
  return out;
}

uint64_t noise(uint64_t i) { return test::Random(i).next(); }

}  // namespace

TEST_CASE("propose: ramps and constants, wherever windows stand") {
  CHECK(ask(OpId::ramp, Dtype::I32, 50000, {50000}, [](uint64_t i) { return 7 + 3 * i; }).has({7, 3}));
  CHECK(ask(OpId::ramp, Dtype::U8, 50000, {50000}, [](uint64_t i) { return 5 - i; }).has({5, 255}));
  CHECK(ask(OpId::ramp, Dtype::I32, 50000, {}, [](uint64_t i) { return i / 2; }).params.empty());
  CHECK(ask(OpId::constant, Dtype::F32, 50000, {}, [](uint64_t) { return 0x3f800000; }).has({0x3f800000}));
  CHECK(ask(OpId::constant, Dtype::F32, 50000, {}, [](uint64_t i) { return i == 49999; }).params.empty());
}

TEST_CASE("propose: rows like the row above make scan take the row for its stride") {
  const auto rows = [](uint64_t i) { return (noise(i % 300) & 0x7fff) + i / 300 + noise(i) % 3; };
  const auto scans = ask(OpId::scan, Dtype::BF16, 60000, {200, 300}, rows);
  REQUIRE_FALSE(scans.params.empty());
  CHECK(scans.params.front() == std::vector<uint64_t>{1, 300});
  CHECK(ask(OpId::scan, Dtype::I64, 60000, {60000}, [](uint64_t i) {
          return 1000000 + i * 5 + noise(i) % 4;
        }).has({1, 1}));
  CHECK(ask(OpId::scan, Dtype::BF16, 60000, {200, 300}, noise).params.empty());
}

TEST_CASE("propose: fields of floats, two mantissa bits with the exponent first") {
  const auto cuts = ask(OpId::merge, Dtype::BF16, 9000, {}, noise);
  REQUIRE(cuts.params.size() > 4);
  CHECK(cuts.params.front() == std::vector<uint64_t>{1, 10, 5});
  CHECK(ask(OpId::merge, Dtype::F16, 9000, {}, noise).params.front() == std::vector<uint64_t>{1, 7, 8});
  CHECK(ask(OpId::merge, Dtype::F8_E4M3, 9000, {}, noise).params.front() == std::vector<uint64_t>{1, 6, 1});
  CHECK(ask(OpId::merge, Dtype::I32, 9000, {}, noise).has({8, 8, 8, 8}));
  // Bits that never change are cut off.
  CHECK(ask(OpId::merge, Dtype::I32, 9000, {}, [](uint64_t i) { return noise(i) % 4096 << 4 | 1; }).has({16, 12, 4}));
}

TEST_CASE("propose: few words, zeros, runs, widened floats, pairs, signs and periods") {
  CHECK(ask(OpId::palette, Dtype::F32, 9000, {}, [](uint64_t i) { return noise(noise(i) % 12); }).has({12}));
  CHECK(ask(OpId::palette, Dtype::F32, 9000, {}, noise).params.empty());
  CHECK(ask(OpId::zeros, Dtype::BF16, 9000, {}, [](uint64_t i) { return i % 3 ? 0 : noise(i) | 1; }).params.size() ==
        1);
  CHECK(ask(OpId::zeros, Dtype::BF16, 9000, {}, [](uint64_t i) { return noise(i) | 1; }).params.empty());
  CHECK(ask(OpId::runs, Dtype::BF16, 9000, {}, [](uint64_t i) { return noise(i / 9); }).params.size() == 1);
  CHECK(ask(OpId::runs, Dtype::BF16, 9000, {}, noise).params.empty());
  CHECK(ask(OpId::cast, Dtype::F32, 9000, {}, [](uint64_t i) { return (noise(i) & 0x7eff) << 16; }).has({1}));
  CHECK(ask(OpId::cast, Dtype::F32, 9000, {}, noise).params.empty());
  const auto pairs =
      ask(OpId::interleave, Dtype::U8, 9000, {}, [](uint64_t i) { return i % 2 ? noise(i) % 4 : 90 + noise(i) % 20; });
  REQUIRE_FALSE(pairs.children.empty());
  CHECK(pairs.children.front().size() == 2);
  CHECK(ask(OpId::interleave, Dtype::U8, 9000, {}, noise).children.empty());
  CHECK(ask(OpId::map, Dtype::I8, 9000, {}, [](uint64_t i) { return noise(i) % 5 - 2; }).has({4, 0}));
  CHECK(ask(OpId::map, Dtype::I32, 9000, {}, [](uint64_t i) { return 100000 + noise(i) % 50; }).params.size() == 1);
  CHECK(ask(OpId::repeat, Dtype::I64, 70000, {}, [](uint64_t i) { return noise(i % 35); }).has({2000}));
  CHECK(ask(OpId::concat, Dtype::F32, 90000, {}, [](uint64_t i) { return i < 80000 ? 0 : noise(i); }).has({47048}));
  const auto ranks = ask(OpId::rank, Dtype::BF16, 9000, {},
                         [](uint64_t i) { return noise(i) % 100 ? noise(i) / 100 % 40 : noise(i); });
  CHECK(ranks.has({63}));
}

TEST_CASE("propose: columns that are more alike than rows are transposed") {
  const auto columns = [](uint64_t i) { return noise(i % 50) & 0xffff; };
  CHECK(ask(OpId::transpose, Dtype::BF16, 20000, {400, 50}, columns).has({400, 50}));
  CHECK(ask(OpId::transpose, Dtype::BF16, 20000, {400, 50}, noise).params.empty());
  CHECK(ask(OpId::transpose, Dtype::BF16, 20000, {}, columns).params.empty());
}

TEST_CASE("propose: neighbours of a like size make a context, but not of what another operator leaves") {
  // Exponents that change every 64 words.
  const auto sizes = [](uint64_t i) { return (100 + noise(i / 64) % 16) << 7 | (noise(i) & 0x7f); };
  CHECK_FALSE(ask(OpId::context, Dtype::BF16, 60000, {60000}, sizes).params.empty());
  CHECK(ask(OpId::context, Dtype::BF16, 60000, {60000}, sizes, true).params.empty());
  CHECK(ask(OpId::context, Dtype::BF16, 60000, {60000}, noise).params.empty());
}
