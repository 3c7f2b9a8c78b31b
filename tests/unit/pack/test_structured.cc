// SPDX-License-Identifier: Apache-2.0
//
// Structured tensors that the search must find without being told: packed as files, each with a bound on its size.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "one_tensor.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::test;

namespace {

using Packed = PackedTensor;

Packed pack(Dtype dtype, std::vector<uint64_t> shape, ByteVector words) {
  PackOptions options;
  options.profile = PackProfile::dense;
  options.search = PackSearch::prior;
  return pack_tensor(dtype, std::move(shape), std::move(words), options);
}

Packed pack_usually(Dtype dtype, std::vector<uint64_t> shape, ByteVector words) {
  return pack_tensor(dtype, std::move(shape), std::move(words), PackOptions{});
}

}  // namespace

TEST_CASE("structured: an alternating pattern and tied halves are stored once") {
  std::vector<uint32_t> alternating(90000);
  for (size_t i = 0; i < alternating.size(); ++i) alternating[i] = 0x3f800000u + static_cast<uint32_t>(i % 3) * 77777;
  CHECK(pack(Dtype::F32, {300, 300}, bytes_of(alternating)).bytes < 300);
  const ByteVector half = gaussian_words(Dtype::BF16, 60000, 1);
  ByteVector both = half;
  both.insert(both.end(), half.begin(), half.end());
  const Packed tied = pack(Dtype::BF16, {2, 60000}, both);
  INFO(tied.program);
  CHECK(tied.bytes < 60000 * 10.7 / 8);
}

TEST_CASE("structured: position ids, constants and mostly zeros") {
  CHECK(pack(Dtype::I64, {1, 40000}, ramp_words(64, 40000, 0, 1)).bytes == 0);
  CHECK(pack(Dtype::F32, {200, 200}, constant_words(32, 40000, 0x3f800000)).bytes == 0);
  const Packed sparse = pack(Dtype::BF16, {400, 500}, zero_heavy_words(Dtype::BF16, 200000, 3, 950));
  INFO(sparse.program);
  CHECK(sparse.bytes < 200000 / 8 * 0.9);  // 0.29 bits for where, 0.53 for what
}

TEST_CASE("structured: integers kept in floats") {
  std::vector<float> words(120000);
  Rng rng(5);
  for (float& word : words) word = static_cast<float>(static_cast<int>(rng.below(200)) - 100);
  const Packed packed = pack(Dtype::F32, {300, 400}, bytes_of(words));
  INFO(packed.program);
  CHECK(static_cast<double>(packed.bytes) < static_cast<double>(words.size()) * 0.98);  // 7.64 bits each
}

TEST_CASE("structured: floats that were narrower once") {
  const size_t n = 100000;
  CHECK(pack(Dtype::F32, {250, 400}, upcast_words(n, 6)).bytes < n * 10.6 / 8);
  const ByteVector narrow = gaussian_words(Dtype::F32, n, 7);
  std::vector<double> wide(n);
  for (size_t i = 0; i < n; ++i) {
    float value;
    std::memcpy(&value, narrow.data() + 4 * i, 4);
    wide[i] = value;
  }
  const Packed packed = pack(Dtype::F64, {250, 400}, bytes_of(wide));
  INFO(packed.program);
  CHECK(packed.bytes < n * 26.7 / 8);
}

TEST_CASE("structured: a convolution with batch-norm folded in") {
  const size_t out = 96, in = 64, k = 9;
  Rng rng(8);
  std::vector<uint16_t> words;
  std::vector<double> rows(out), columns(in);
  for (double& row : rows) row = 1.2 * rng.gaussian();
  for (double& column : columns) column = 1.2 * rng.gaussian();
  for (size_t o = 0; o < out; ++o)
    for (size_t i = 0; i < in; ++i)
      for (size_t j = 0; j < k; ++j)
        words.push_back(
            static_cast<uint16_t>(to_float_word(Dtype::BF16, 0.02 * std::exp2(rows[o] + columns[i]) * rng.gaussian())));
  const Packed packed = pack(Dtype::BF16, {out, in, 3, 3}, bytes_of(words));
  INFO(packed.program);
  CHECK(static_cast<double>(packed.bytes) < static_cast<double>(words.size()) * 10.8 / 8);
}

TEST_CASE("structured: a causal mask") {
  const size_t n = 512;
  std::vector<float> mask(n * n);
  for (size_t r = 0; r < n; ++r)
    for (size_t c = 0; c < n; ++c) mask[r * n + c] = c > r ? -INFINITY : 0.0f;
  const Packed packed = pack(Dtype::F32, {1, 1, n, n}, bytes_of(mask));
  INFO(packed.program);
  CHECK(packed.bytes < 3000);
}

TEST_CASE("structured: a sorted table of indices") {
  Rng rng(9);
  std::vector<int64_t> table(60000);
  int64_t at = 0;
  for (int64_t& entry : table) entry = at += static_cast<int64_t>(1 + rng.below(16));
  const Packed packed = pack(Dtype::I64, {60000}, bytes_of(table));
  INFO(packed.program);
  CHECK(static_cast<double>(packed.bytes) < static_cast<double>(table.size()) * 4.3 / 8);
}

TEST_CASE("structured: quantised integers and eight-bit floats") {
  for (const auto& [dtype, most] : std::vector<std::pair<Dtype, double>>{{Dtype::I8, 0.76}, {Dtype::F8_E4M3, 0.60}}) {
    const Packed packed = pack(dtype, {256, 1024}, channel_words(dtype, 256, 1024, 10));
    INFO(packed.program);
    CHECK(static_cast<double>(packed.bytes) < most * 256 * 1024);
  }
}

TEST_CASE("structured: a table of positions as sines, by the usual profile") {
  constexpr size_t kPositions = 8192, kColumns = 32;
  std::vector<uint16_t> words;
  for (size_t p = 0; p < kPositions; ++p)
    for (size_t c = 0; c < kColumns; ++c) {
      const double angle = static_cast<double>(p) * std::pow(10000.0, -static_cast<double>(c) / kColumns);
      words.push_back(static_cast<uint16_t>(to_float_word(Dtype::BF16, std::sin(angle))));
    }
  const Packed packed = pack_usually(Dtype::BF16, {kPositions, kColumns}, bytes_of(words));
  INFO(packed.program);
  CHECK(static_cast<double>(packed.bytes) < static_cast<double>(words.size()) * 0.22);  // 1.5 bits each
}

TEST_CASE("structured: few levels times a scale a row, kept in halves, by the usual profile") {
  Rng rng(12);
  std::vector<uint16_t> words;
  for (size_t r = 0; r < 1024; ++r) {
    const double scale = 0.01 * std::exp(rng.gaussian());
    for (size_t c = 0; c < 1024; ++c)
      words.push_back(
          static_cast<uint16_t>(to_float_word(Dtype::F16, scale * (static_cast<double>(rng.below(16)) - 8))));
  }
  const Packed packed = pack_usually(Dtype::F16, {1024, 1024}, bytes_of(words));
  INFO(packed.program);
  CHECK(packed.bytes < 1024 * 1024 * 4.2 / 8);  // 4 bits each and the levels of the rows
}

TEST_CASE("structured: integers times scales that were halves, by groups and by columns, by the usual profile") {
  const auto packed_share = [](Dtype dtype, unsigned bits, size_t group, bool columns) {
    constexpr size_t kRows = 512, kRow = 1024;
    Rng rng(14 + bits);
    std::vector<double> scales(columns ? kRow : kRows * kRow / group);
    for (double& scale : scales) {  // an F16 each
      const uint64_t word = to_float_word(Dtype::F16, 0.004 * std::exp(0.5 * rng.gaussian()));
      scale = std::ldexp(static_cast<double>(word % 1024 + 1024), static_cast<int>(word / 1024) - 25);
    }
    std::vector<uint16_t> words(kRows * kRow);
    for (size_t i = 0; i < words.size(); ++i) {
      // A fourth of the range is a deviation, as with weights.
      const double most = std::ldexp(1, static_cast<int>(bits) - 1);
      const double integer = std::clamp(std::nearbyint(rng.gaussian() * most / 4), -most, most - 1);
      words[i] = static_cast<uint16_t>(to_float_word(dtype, integer * scales[columns ? i % kRow : i / group]));
    }
    const Packed packed = pack_usually(dtype, {kRows, kRow}, bytes_of(words));
    INFO(packed.program);
    CHECK(packed.program.find("dequantise(integer") != std::string::npos);
    return static_cast<double>(packed.bytes) / static_cast<double>(2 * words.size());
  };
  CHECK(packed_share(Dtype::F16, 4, 32, false) <= 0.27);  // 3 bits each, and 16 for each group
  CHECK(packed_share(Dtype::BF16, 8, 1, true) <= 0.47);   // 7 bits each, and 16 for each column of a frame
}

TEST_CASE("structured: what suits the rows of one tensor is not taken for another of the same size") {
  std::vector<TensorSpec> specs;
  Rng rng(13);
  const std::vector<std::vector<uint64_t>> shapes = {{512, 1024}, {1024, 512}, {512, 1024}, {1024, 512}};
  size_t words = 0;
  for (const auto& shape : shapes) {
    std::vector<uint16_t> tensor;
    for (uint64_t r = 0; r < shape[0]; ++r) {
      const double scale = 0.01 * std::exp(rng.gaussian());
      for (uint64_t c = 0; c < shape[1]; ++c)
        tensor.push_back(
            static_cast<uint16_t>(to_float_word(Dtype::BF16, scale * (static_cast<double>(rng.below(16)) - 8))));
    }
    words += tensor.size();
    specs.push_back(flat_tensor(std::to_string(specs.size()) + ".weight", Dtype::BF16, bytes_of(tensor)));
    specs.back().shape = shape;
  }
  const TempDir dir;
  write_file(dir / "m.safetensors", safetensors_bytes(specs));
  PackOptions options;
  options.sources = {dir / "m.safetensors"};
  options.target = dir / "m.brv";
  const auto report = pack_files(options);
  REQUIRE(report);
  REQUIRE(report->first_error() == nullptr);
  CHECK(static_cast<double>(report->files.front().bytes_out) < static_cast<double>(words) * 4.4 / 8);
}

TEST_CASE("structured: smooth curves, a column each, cost a few bits a word, and like tensors share what was found") {
  // Values that drift along the rows, rounded: each difference is one that stood above, or near it.
  std::vector<TensorSpec> specs;
  uint64_t state = 9;
  const auto next = [&](uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  };
  constexpr size_t kRows = 256, kColumns = 128, kTensors = 4;
  for (size_t t = 0; t < kTensors; ++t) {
    std::vector<uint16_t> words(kRows * kColumns);
    for (size_t c = 0; c < kColumns; ++c) {
      const uint64_t start = 15000 + next(900), slope = next(5000) + t;
      for (size_t r = 0; r < kRows; ++r)
        words[r * kColumns + c] = static_cast<uint16_t>(start + slope * r / 1024 + slope * r * r / (1 << 20));
    }
    specs.push_back(flat_tensor("style." + std::string(1, static_cast<char>('a' + t)), Dtype::BF16, bytes_of(words)));
    specs.back().shape = {kRows, 1, kColumns};
  }
  const TempDir dir;
  write_file(dir / "m.safetensors", safetensors_bytes(specs));
  std::vector<uint64_t> sizes;
  for (const PackProfile profile : {PackProfile::balanced, PackProfile::dense}) {
    PackOptions options;
    options.sources = {dir / "m.safetensors"};
    options.target = dir / "m.brv";
    options.force = true;
    options.profile = profile;
    options.describe = true;
    const auto report = pack_files(options);
    REQUIRE(report);
    REQUIRE(report->first_error() == nullptr);
    sizes.push_back(report->files.front().bytes_out);
    size_t searched = 0;
    for (const PackedStream& stream : report->files.front().streams) searched += stream.search.has_value();
    CHECK(searched < kTensors);
  }
  INFO(sizes[0], " ", sizes[1]);
  CHECK(sizes[0] < kTensors * kRows * kColumns / 3);
  CHECK(sizes[0] < sizes[1] + sizes[1] / 200);
  CHECK(sizes[1] < sizes[0] + 32);
}
