// SPDX-License-Identifier: Apache-2.0
//
// Tensors that have another name in the base and are changed, too: found by their words.
#include "pack/likeness.h"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>

#include "archive/bases.h"
#include "archive/layout.h"
#include "brevis/pack.h"
#include "support/safetensors_writer.h"
#include "support/temp_dir.h"
#include "support/weights.h"

using namespace brevis;
using pack::Sketch;

namespace {

Sketch sketch_of(Dtype dtype, const ByteVector& bytes) {
  auto sketch = Sketch::take(dtype, bytes.size(), [&](uint64_t offset, MutByteSpan out) -> Status {
    REQUIRE(offset + out.size() <= bytes.size());
    std::memcpy(out.data(), bytes.data() + offset, out.size());
    return {};
  });
  REQUIRE(sketch);
  return std::move(*sketch);
}

using Tensors = std::vector<test::TensorSpec>;

ByteVector tuned(const ByteVector& words, unsigned bits, uint64_t seed) {
  return test::perturbed(words, bits, seed, 700);
}

// Many of a few shapes and sizes, some of them small.
Tensors model(size_t layers, uint64_t seed) {
  Tensors out;
  for (size_t i = 0; i < layers; ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    out.push_back(
        test::flat_tensor(layer + "weight", Dtype::BF16, test::gaussian_words(Dtype::BF16, 9000, seed + 3 * i)));
    out.push_back(
        test::flat_tensor(layer + "scale", Dtype::F32, test::gaussian_words(Dtype::F32, 5000, seed + 3 * i + 1)));
    out.push_back(
        test::flat_tensor(layer + "norm", Dtype::BF16, test::gaussian_words(Dtype::BF16, 600, seed + 3 * i + 2)));
  }
  return out;
}

// Each tensor changed, under a name that rename(i) gives.
template <class Rename>
Tensors changed(Tensors tensors, Rename&& rename) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].name = rename(i, tensors[i].name);
    tensors[i].bytes = tuned(tensors[i].bytes, dtype_info(tensors[i].dtype).bits, 1000 + i);
  }
  return tensors;
}

struct Packed {
  std::shared_ptr<const archive::Reader> reader;
  uint64_t bytes = 0, alone = 0;
};

Packed pack_against(const test::TempDir& dir, const Tensors& tensors, const std::string& base) {
  const ByteVector file = test::safetensors_bytes(tensors);
  test::write_file(dir / "new.safetensors", file);
  PackOptions options;
  options.force = true;
  options.search = PackSearch::off;
  options.sources = {dir / "new.safetensors"};
  Packed out;
  for (const bool alone : {true, false}) {
    options.target = dir / (alone ? "alone.brv" : "new.brv");
    if (!alone) options.bases = {base};
    const auto report = pack_files(options);
    REQUIRE(report);
    if (report->first_error() != nullptr) FAIL(report->first_error()->message());
    (alone ? out.alone : out.bytes) = std::filesystem::file_size(options.target);
  }
  archive::DirectoryFinder finder;
  auto reader = archive::open_with_bases(dir / "new.brv", finder);
  REQUIRE(reader);
  out.reader = *reader;
  ByteVector back(file.size());
  REQUIRE(archive::read_range(*out.reader, {0, back.size()}, back));
  CHECK(back == file);
  return out;
}

std::string base_of(const test::TempDir& dir, const std::string& name, const Tensors& tensors) {
  test::write_file(dir / (name + ".safetensors"), test::safetensors_bytes(tensors));
  PackOptions options;
  options.search = PackSearch::off;
  options.sources = {dir / (name + ".safetensors")};
  options.target = dir / (name + ".brv");
  REQUIRE(pack_files(options));
  return options.target;
}

size_t records_alone(const archive::Reader& reader) {
  size_t alone = 0;
  for (const archive::Record& record : reader.manifest().records) alone += record.bases.empty();
  return alone;
}

}  // namespace

TEST_CASE("likeness: changed words resemble what they were, others do not") {
  for (const Dtype dtype : {Dtype::BF16, Dtype::F16, Dtype::F32, Dtype::F64, Dtype::F8_E4M3, Dtype::I8, Dtype::I32}) {
    CAPTURE(dtype_info(dtype).name);
    const ByteVector words =
        dtype == Dtype::F64 ? test::random_bytes(160000, 1) : test::gaussian_words(dtype, 20000, 1);
    const Sketch own = sketch_of(dtype, words), next = sketch_of(dtype, tuned(words, dtype_info(dtype).bits, 2));
    CHECK(own.is_telling());
    CHECK(own.resembles(own));
    CHECK(next.resembles(own));
    CHECK(own.distance(next) > 0);
    for (uint64_t seed = 10; seed < 40; ++seed)
      CHECK_FALSE(next.resembles(sketch_of(
          dtype, dtype == Dtype::F64 ? test::random_bytes(160000, seed) : test::gaussian_words(dtype, 20000, seed))));
    size_t shared = 0;
    const auto keys = own.keys(), others = next.keys();
    for (const uint32_t key : keys) shared += std::binary_search(others.begin(), others.end(), key);
    CHECK(shared * 4 >= keys.size() / 3);
  }
}

TEST_CASE("likeness: equal words and a few words tell nothing, any length can be looked at") {
  CHECK_FALSE(sketch_of(Dtype::BF16, test::constant_words(16, 5000, 0x3f80)).is_telling());
  CHECK_FALSE(sketch_of(Dtype::BF16, test::gaussian_words(Dtype::BF16, 15, 1)).is_telling());
  for (const size_t words : {0, 1, 2, 15, 16, 127, 128, 129, 130, 255, 4097}) {
    const ByteVector bytes = test::gaussian_words(Dtype::F32, words, 1);
    const Sketch sketch = sketch_of(Dtype::F32, bytes);
    CHECK(sketch.is_telling() == (words >= 16));
    CHECK(sketch.distance(sketch) == 0);
  }
}

TEST_CASE("renamed and changed tensors are found among many of their shape") {
  for (const size_t layers : {6, 60}) {
    CAPTURE(layers);
    const test::TempDir dir;
    const Tensors first = model(layers, 1);
    const std::string base = base_of(dir, "base", first);
    Tensors next = changed(first, [&](size_t i, const std::string&) { return "tuned." + std::to_string(i); });
    std::reverse(next.begin(), next.end());
    const Packed packed = pack_against(dir, next, base);
    CHECK(packed.bytes * 100 < packed.alone * 70);
    CHECK(records_alone(*packed.reader) == 1);  // the header
    MESSAGE(layers, " layers under other names, changed: ", packed.bytes, " bytes, alone ", packed.alone);
    const std::string in_order = dir / "named.brv";
    const Packed named = pack_against(dir, changed(first, [](size_t, const std::string& name) { return name; }), base);
    CHECK(packed.bytes < named.bytes + named.bytes / 20 + 40 * 3 * layers);
  }
}

TEST_CASE("a name that moved on to another tensor is no reason to miss the one that is alike") {
  const test::TempDir dir;
  const Tensors first = model(12, 1);
  const std::string base = base_of(dir, "base", first);
  // The fourth layer is taken out, those after it move up.
  Tensors pruned;
  for (size_t i = 0; i < first.size(); ++i)
    if (i / 3 != 3) pruned.push_back(first[i]);
  for (size_t i = 0; i < pruned.size(); ++i) pruned[i].name = first[i].name;
  const Packed packed = pack_against(dir, changed(pruned, [](size_t, const std::string& name) { return name; }), base);
  CHECK(packed.bytes * 100 < packed.alone * 75);
}

TEST_CASE("of several bases the nearest serves") {
  const test::TempDir dir;
  const Tensors first = model(3, 1), far = model(3, 500);
  const auto keep = [](size_t, const std::string& name) { return name; };
  std::filesystem::create_directory(dir / "bases");
  base_of(dir, "bases/a", far);
  base_of(dir, "bases/b", first);
  const Packed packed = pack_against(dir, changed(first, keep), dir / "bases");
  REQUIRE(packed.reader->manifest().bases.size() >= 1);
  bool of_b = false;
  for (const archive::Base& one : packed.reader->manifest().bases) of_b |= one.hint == "bases/b.brv";
  CHECK(of_b);
  CHECK(packed.bytes * 100 < packed.alone * 75);
}

TEST_CASE("unrelated tensors of the same shapes stand alone") {
  const test::TempDir dir;
  const std::string base = base_of(dir, "base", model(40, 1));
  Tensors other = model(40, 5000);
  for (auto& tensor : other) tensor.name = "other." + tensor.name;
  const Packed packed = pack_against(dir, other, base);
  CHECK(packed.reader->manifest().bases.empty());
  CHECK(packed.bytes < packed.alone + 64);  // which bases were looked at
}
