// SPDX-License-Identifier: Apache-2.0
//
// The ratio ledger: what the packer makes of seeded weights, held against ratio.csv. A change of sizes or programs is
// a change of that file, to be looked at like any other; `tools/dev/accept.sh --ratio` writes it anew.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <algorithm>
#include <sstream>

#include "archive/reader.h"
#include "brevis/pack.h"
#include "dsl/text.h"
#include "support/golden.h"
#include "support/safetensors_writer.h"
#include "support/temp_dir.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::test;

namespace {

constexpr size_t kBytes = size_t{1} << 20;  // of a tensor: two frames
constexpr const char* kHead = "file,seed,bytes_in,bytes_out,program";

struct Entry {
  std::string file;
  uint64_t seed;
  std::vector<TensorSpec> tensors;
};

Entry one(std::string file, Dtype dtype, uint64_t seed, ByteVector words) {
  return {std::move(file), seed, {flat_tensor("weight", dtype, std::move(words))}};
}

Entry gaussian(std::string file, Dtype dtype, uint64_t seed) {
  return one(std::move(file), dtype, seed, gaussian_words(dtype, kBytes * 8 / dtype_info(dtype).bits, seed));
}

Entry channels(std::string file, Dtype dtype, uint64_t seed) {
  const size_t columns = 512, rows = kBytes * 8 / dtype_info(dtype).bits / columns;
  return one(std::move(file), dtype, seed, channel_words(dtype, rows, columns, seed));
}

// Layers of different deviation, a repeated one, and biases.
Entry model(uint64_t seed) {
  std::vector<TensorSpec> tensors;
  for (uint64_t i = 0; i < 6; ++i) {
    const std::string layer = "layers." + std::to_string(i);
    tensors.push_back(flat_tensor(layer + ".weight", Dtype::BF16,
                                  gaussian_words(Dtype::BF16, 96 * 1024, seed + i, 0.01 * double(i + 1))));
    tensors.push_back(flat_tensor(layer + ".bias", Dtype::BF16, gaussian_words(Dtype::BF16, 256, seed + 10 + i)));
  }
  tensors.push_back(tensors[0]);
  tensors.back().name = "head.weight";
  return {"bf16-model", seed, std::move(tensors)};
}

std::vector<Entry> entries() {
  std::vector<Entry> all = {
      gaussian("bf16-gaussian", Dtype::BF16, 1),
      channels("bf16-channels", Dtype::BF16, 2),
      gaussian("f16-gaussian", Dtype::F16, 3),
      channels("f16-channels", Dtype::F16, 4),
      gaussian("f32-gaussian", Dtype::F32, 5),
      one("f32-from-bf16", Dtype::F32, 6, upcast_words(kBytes / 4, 6)),
      gaussian("f64-gaussian", Dtype::F64, 7),
      channels("f8-e4m3-channels", Dtype::F8_E4M3, 8),
      channels("f8-e5m2-channels", Dtype::F8_E5M2, 9),
      channels("i8-channels", Dtype::I8, 10),
      channels("i16-channels", Dtype::I16, 11),
      one("u8-palette-16", Dtype::U8, 12, palette_words(8, kBytes, 16, 12)),
      one("f16-palette-200", Dtype::F16, 13, palette_words(16, kBytes / 2, 200, 13)),
      one("bf16-zeros-90", Dtype::BF16, 14, zero_heavy_words(Dtype::BF16, kBytes / 2, 14)),
      one("f32-zeros-50", Dtype::F32, 15, zero_heavy_words(Dtype::F32, kBytes / 4, 15, 500)),
      one("i64-ramp", Dtype::I64, 16, ramp_words(64, kBytes / 8, 0, 1)),
      one("f32-zero", Dtype::F32, 17, constant_words(32, kBytes / 4, 0)),
      one("u8-random", Dtype::U8, 18, random_bytes(kBytes, 18)),
      model(19),
      {"mixed-model", 20, mixed_model(20, 128)},
  };
  return all;
}

// Packs the file; the program is that of the largest stream.
std::string line_of(const Entry& entry) {
  const TempDir dir;
  const ByteVector bytes = safetensors_bytes(entry.tensors);
  write_file(dir / "m.safetensors", bytes);
  PackOptions options;
  options.sources = {dir / "m.safetensors"};
  options.target = dir / "m.brv";
  const auto report = pack_files(options);
  REQUIRE(report);
  if (report->first_error() != nullptr) FAIL(report->first_error()->message());
  auto file = File::open(dir / "m.brv");
  REQUIRE(file);
  const auto reader = archive::Reader::open(std::move(*file));
  REQUIRE(reader);
  const archive::Manifest& manifest = (*reader)->manifest();
  const auto largest =
      std::max_element(manifest.records.begin(), manifest.records.end(),
                       [&](const auto& a, const auto& b) { return manifest.bytes_of(a) < manifest.bytes_of(b); });
  return entry.file + "," + std::to_string(entry.seed) + "," + std::to_string(bytes.size()) + "," +
         std::to_string(report->bytes_out) + ",\"" + dsl::print(*manifest.programs[largest->program]) + "\"";
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  const ByteVector bytes = read_file(path);
  std::istringstream text(std::string(bytes.begin(), bytes.end()));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("ratio ledger: sizes and programs are those of ratio.csv") {
  const std::string path = test_data("bench/ratio.csv");
  std::vector<std::string> lines = {kHead};
  for (const Entry& entry : entries()) lines.push_back(line_of(entry));
  const char* accept = ::getenv("BREVIS_ACCEPT");
  if (accept != nullptr && std::string_view(accept) == "ratio") {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    write_file(path, text);
  }
  INFO("tools/dev/accept.sh --ratio writes what is found now; the difference is for review");
  const std::vector<std::string> ledger = lines_of(path);
  CHECK(ledger.size() == lines.size());
  for (size_t i = 0; i < std::min(ledger.size(), lines.size()); ++i) CHECK(lines[i] == ledger[i]);
}
