// SPDX-License-Identifier: Apache-2.0
//
// What people keep in checkpoints besides weights: `balanced`, told nothing, comes within a hundredth of the program
// that somebody who knows the data would ask for, and `dense` is no larger.
#include <doctest/doctest.h>

#include <cstring>

#include "brevis/pack.h"
#include "support/safetensors_writer.h"
#include "support/temp_dir.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::test;

namespace {

template <class T>
ByteVector bytes_of(const std::vector<T>& words) {
  ByteVector out(words.size() * sizeof(T));
  std::memcpy(out.data(), words.data(), out.size());
  return out;
}

template <class T>
std::vector<T> words_of(const ByteVector& bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

uint64_t size_of(const TempDir& dir, PackProfile profile, Dtype dtype, const char* program) {
  PackOptions options;
  options.sources = {dir / "m.safetensors"};
  options.target = dir / "m.brv";
  options.force = true;
  options.profile = profile;
  if (program != nullptr) options.programs.emplace(std::string(dtype_info(dtype).name), program);
  const auto report = pack_files(options);
  REQUIRE(report);
  REQUIRE(report->first_error() == nullptr);
  return report->files.front().bytes_out;
}

void check(Dtype dtype, std::vector<uint64_t> shape, ByteVector bytes, const char* expert) {
  CAPTURE(expert);
  const TempDir dir;
  TensorSpec spec = flat_tensor("weight", dtype, std::move(bytes));
  spec.shape = std::move(shape);
  write_file(dir / "m.safetensors", safetensors_bytes({spec}));
  const uint64_t told = size_of(dir, PackProfile::balanced, dtype, expert);
  const uint64_t balanced = size_of(dir, PackProfile::balanced, dtype, nullptr);
  const uint64_t dense = size_of(dir, PackProfile::dense, dtype, nullptr);
  CHECK(balanced <= told + told / 100);
  CHECK(dense <= balanced + balanced / 1024 + 32);
}

struct Drawn {
  uint64_t state;
  uint64_t operator()(uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  }
};

}  // namespace

TEST_CASE("expert: four-bit weights packed in wider integers") {
  // Sums of draws are bell-shaped.
  Drawn draw{1};
  std::vector<uint32_t> eight(40000);
  for (uint32_t& word : eight)
    for (unsigned i = 0; i < 8; ++i) word = word << 4 | static_cast<uint32_t>(draw(6) + draw(6) + draw(6));
  check(Dtype::I32, {200, 200}, bytes_of(eight),
        "merge(4, 4, 4, 4, 4, 4, 4, 4; literal, literal, literal, literal, literal, literal, literal, literal)");
  std::vector<uint8_t> two(100000);
  for (uint8_t& word : two)
    word = static_cast<uint8_t>((draw(6) + draw(6) + draw(6)) << 4 | (draw(6) + draw(6) + draw(6)));
  check(Dtype::U8, {100, 1000}, bytes_of(two), "merge(4, 4; literal, literal)");
}

TEST_CASE("expert: floats of few bits, and half of them nothing") {
  auto words = words_of<uint32_t>(gaussian_words(Dtype::F32, 60000, 2));
  for (uint32_t& word : words) word &= 0xfffff000u;
  check(Dtype::F32, {200, 300}, bytes_of(words),
        "merge(1, 10, 9, 12; literal, rank(63; literal, literal, literal), literal, constant(0))");
  auto rows = words_of<uint16_t>(gaussian_words(Dtype::BF16, 120000, 3));
  Drawn draw{3};
  for (size_t r = 0; r < 300; ++r)
    if (draw(2) == 0) std::fill_n(rows.begin() + static_cast<ptrdiff_t>(r * 400), 400, uint16_t{0});
  check(Dtype::BF16, {300, 400}, bytes_of(rows),
        "zeros(literal, merge(1, 10, 5; literal, rank(63; literal, literal, literal), literal))");
}

TEST_CASE("expert: indices, labels and places") {
  Drawn draw{4};
  std::vector<uint64_t> sorted(60000), labels(60000), places(60000);
  uint64_t sum = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    sorted[i] = sum += draw(200) * draw(3);
    labels[i] = i % 300 < 120 ? draw(50000) : ~uint64_t{99};
    places[i] = i % 2 == 0 ? i / 600 : i / 2 % 300;
  }
  check(Dtype::I64, {60000}, bytes_of(sorted), "scan(add, 1; literal, merge(48, 16; literal, literal))");
  check(Dtype::I64, {200, 300}, bytes_of(labels), "merge(48, 16; literal, literal)");
  check(Dtype::I64, {30000, 2}, bytes_of(places), "interleave(literal, literal)");
}

TEST_CASE("expert: scales by row, tied halves, masks") {
  check(Dtype::BF16, {256, 512}, channel_words(Dtype::BF16, 256, 512, 5),
        "offset(7, 8, 512, 256; merge(1, 10, 5; literal, rank(63; literal, literal, literal), literal))");
  ByteVector tied = gaussian_words(Dtype::F32, 40000, 6);
  const ByteVector half = tied;
  tied.insert(tied.end(), half.begin(), half.end());
  check(Dtype::F32, {400, 200}, tied,
        "repeat(2; merge(1, 10, 21; literal, rank(63; literal, literal, literal), literal))");
  std::vector<uint8_t> mask(90000);
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = i % 300 <= i / 300;
  check(Dtype::BOOL, {300, 300}, bytes_of(mask), "runs(literal, literal)");
}
