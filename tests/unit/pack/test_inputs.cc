// SPDX-License-Identifier: Apache-2.0
//
// What checkpoints hold beside trained weights, each with a bound on its size: what a program written by hand for it
// takes, and a little more. Under the usual profile, without being told.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "one_tensor.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::test;

namespace {

PackedTensor pack(Dtype dtype, std::vector<uint64_t> shape, ByteVector words,
                  PackProfile profile = PackProfile::balanced) {
  PackOptions options;
  options.profile = profile;
  return pack_tensor(dtype, std::move(shape), std::move(words), options);
}

constexpr size_t kRows = 1000, kColumns = 256;

// An embedding; give(row) says whose words a row has: a row's, or -1 for zeros.
template <class Give>
ByteVector embedding(Give&& give) {
  const ByteVector words = gaussian_words(Dtype::BF16, kRows * kColumns, 11);
  ByteVector out;
  for (size_t row = 0; row < kRows; ++row) {
    const int from = give(static_cast<int>(row));
    const ByteSpan source =
        ByteSpan(words).subspan(static_cast<size_t>(std::max(from, 0)) * 2 * kColumns, 2 * kColumns);
    out.insert(out.end(), source.begin(), source.end());
    if (from < 0) std::fill(out.end() - 2 * kColumns, out.end(), uint8_t{0});
  }
  return out;
}

// Bits a word of those rows that have words of their own.
double bits_a_word(const PackedTensor& packed, size_t rows) {
  return 8.0 * static_cast<double>(packed.bytes) / static_cast<double>(rows * kColumns);
}

// Weights quantised to so many levels and widened again, with a scale a row.
std::vector<float> dequantised(size_t rows, size_t columns, int most, bool scale_a_row) {
  Rng rng(12);
  std::vector<float> words(rows * columns);
  for (size_t r = 0; r < rows; ++r) {
    const auto scale = static_cast<float>(0.001 + (scale_a_row ? 0.001 * static_cast<double>(rng.below(1000)) : 0.0));
    for (size_t c = 0; c < columns; ++c) {
      const double level = std::round(rng.gaussian() * most / 4);
      words[r * columns + c] = scale * static_cast<float>(std::clamp<double>(level, -most, most));
    }
  }
  return words;
}

}  // namespace

TEST_CASE("inputs: rows of an embedding that are all the same at an end are stored once") {
  for (const auto& [name, give, rows] : std::vector<std::tuple<const char*, std::function<int(int)>, size_t>>{
           {"padded by a row", [](int row) { return row < 900 ? row : 5; }, 900},
           {"padded by zeros", [](int row) { return row < 900 ? row : -1; }, 900},
           {"first rows unused", [](int row) { return row >= 200 ? row : 300; }, 800},
           {"at both ends", [](int row) { return row < 100   ? -1
                                                 : row < 800 ? row
                                                             : 7; }, 700}}) {
    const PackedTensor packed = pack(Dtype::BF16, {kRows, kColumns}, embedding(give));
    INFO(name, ": ", packed.program);
    CHECK(packed.program.find("concat(") != std::string::npos);
    CHECK(bits_a_word(packed, rows) < 10.62);
  }
}

TEST_CASE("inputs: rows that are zero here and there cost next to nothing") {
  const PackedTensor packed =
      pack(Dtype::BF16, {kRows, kColumns}, embedding([](int row) { return row * 7919 % 1009 < 60 ? -1 : row; }));
  INFO(packed.program);
  CHECK(bits_a_word(packed, kRows - 60) < 10.6);
}

TEST_CASE("inputs: two of four weights pruned cost a bit each and what is left its own tables") {
  ByteVector bytes = gaussian_words(Dtype::BF16, 200000, 13);
  std::vector<uint16_t> words(200000);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  for (size_t i = 0; i < words.size(); i += 4) {
    std::array<size_t, 4> order{i, i + 1, i + 2, i + 3};
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return (words[a] & 0x7fff) < (words[b] & 0x7fff); });
    words[order[0]] = words[order[1]] = 0;
  }
  const PackedTensor packed = pack(Dtype::BF16, {400, 500}, bytes_of(words));
  INFO(packed.program);
  CHECK(8.0 * static_cast<double>(packed.bytes) / 200000 < 5.95);
}

TEST_CASE("inputs: dequantised weights are seen to be few different ones") {
  const PackedTensor one = pack(Dtype::F32, {256, 512}, bytes_of(dequantised(256, 512, 60, false)));
  INFO(one.program);
  CHECK(8.0 * static_cast<double>(one.bytes) / (256 * 512) < 6.3);  // 5.95 bits and a table
  const PackedTensor many = pack(Dtype::F32, {1024, 512}, bytes_of(dequantised(1024, 512, 60, true)));
  INFO(many.program);
  CHECK(8.0 * static_cast<double>(many.bytes) / (1024 * 512) < 14.5);  // 26 as plain floats
}

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

TEST_CASE("inputs: a program asked for is used where a sample shows it nothing") {
  PackOptions options;
  options.programs["F32"] = "merge(16, 16; literal(zstd), literal(zstd))";
  const PackedTensor packed = pack_tensor(Dtype::F32, {200, 500}, gaussian_words(Dtype::F32, 100000, 15), options);
  CHECK(packed.program == "u32 = merge(16, 16; literal(zstd), literal(zstd))");
}

namespace {

// Cosines of positions times frequencies, `times` the same columns, or each column so often.
ByteVector cosines(size_t rows, size_t columns, size_t times, bool pairs) {
  std::vector<uint16_t> words;
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < columns * times; ++c) {
      const size_t frequency = pairs ? c / times : c % columns;
      const double angle =
          static_cast<double>(r) * std::pow(10000.0, -static_cast<double>(frequency) / static_cast<double>(columns));
      words.push_back(static_cast<uint16_t>(to_float_word(Dtype::BF16, std::cos(angle))));
    }
  return bytes_of(words);
}

}  // namespace

TEST_CASE("inputs: a rotary table that has everything twice takes what one half takes") {
  const size_t rows = 2048, columns = 64;
  const PackedTensor half = pack(Dtype::BF16, {rows, columns}, cosines(rows, columns, 1, false));
  const auto most = half.bytes + half.bytes / 50;
  INFO(half.bytes, " ", half.program);
  for (const bool pairs : {false, true}) {
    const ByteVector bytes = cosines(rows, columns, 2, pairs);
    const PackedTensor twice = pack(Dtype::BF16, {1, rows, 2 * columns}, bytes);
    INFO(twice.program);
    CHECK(twice.program.find(pairs ? "transpose(131072, 2; scan(xor, 131072; "
                                   : "transpose(2048, 128; scan(xor, 131072; ") == 6);
    CHECK(twice.bytes <= most);
    ByteVector other = bytes;
    other[other.size() / 3] ^= 1;
    CHECK(pack(Dtype::BF16, {1, rows, 2 * columns}, other).program.find("scan(xor, 131072") == std::string::npos);
  }
}

TEST_CASE("inputs: the words of a windowed transform stand above in their columns") {
  const size_t size = 512, rows = size / 2 + 1;
  std::vector<float> words;
  for (size_t part = 0; part < 2; ++part)
    for (size_t r = 0; r < rows; ++r)
      for (size_t c = 0; c < size; ++c) {
        const double turn = 6.283185307179586 / static_cast<double>(size);
        const double angle = turn * static_cast<double>(r * c % size),
                     window = 0.5 - 0.5 * std::cos(turn * static_cast<double>(c));
        words.push_back(static_cast<float>(window * (part == 0 ? std::cos(angle) : -std::sin(angle))));
      }
  const PackedTensor packed = pack(Dtype::F32, {2 * rows, 1, size}, bytes_of(words));
  INFO(packed.program, " ", packed.bytes);
  CHECK(packed.program.find("transpose(") != std::string::npos);
  CHECK(packed.bytes < 260000);
}
