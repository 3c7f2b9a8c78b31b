// SPDX-License-Identifier: Apache-2.0
//
// What checkpoints hold beside trained weights, each with a bound on its size: what a program written by hand for it
// takes, and a little more. Under the usual profile, without being told.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "support/weights.h"
#include "one_tensor.h"

using namespace brevis;
using namespace brevis::test;

namespace {

PackedTensor pack(Dtype dtype, std::vector<uint64_t> shape, ByteVector words,
                  PackProfile profile = PackProfile::balanced) {
  PackOptions options;
  options.profile = profile;
  return pack_tensor(dtype, std::move(shape), std::move(words), options);
}

}  // namespace

TEST_CASE("inputs: more effort never makes a larger file") {
  std::vector<uint8_t> mask(512 * 512);
  for (size_t r = 0; r < 512; ++r)
    for (size_t c = 0; c < 512; ++c) mask[r * 512 + c] = c <= r;
  std::vector<float> slopes(32 * 2048);
  for (size_t h = 0; h < 32; ++h)
    for (size_t i = 0; i < 2048; ++i) slopes[h * 2048 + i] = static_cast<float>(i) / static_cast<float>(h + 3);
  std::vector<std::tuple<Dtype, std::vector<uint64_t>, ByteVector>> inputs;
  inputs.emplace_back(Dtype::U8, std::vector<uint64_t>{512, 512}, mask);
  inputs.emplace_back(Dtype::F32, std::vector<uint64_t>{32, 1, 2048}, bytes_of(slopes));
  inputs.emplace_back(Dtype::BF16, std::vector<uint64_t>{500, 400}, zero_heavy_words(Dtype::BF16, 200000, 14));
  for (const auto& [dtype, shape, bytes] : inputs) {
    const PackedTensor usual = pack(dtype, shape, bytes), dense = pack(dtype, shape, bytes, PackProfile::dense);
    INFO(usual.program, " and ", dense.program);
    CHECK(dense.archive <= usual.archive);
  }
}
