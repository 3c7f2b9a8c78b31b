// SPDX-License-Identifier: Apache-2.0
//
// Packing against other archives: snapshots, equal tensors under any name, series, and making them stand alone again.
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
using test::as_bytes;

namespace {

namespace stdfs = std::filesystem;

// Every word a few steps away, now and then none.
ByteVector stepped(ByteVector words, unsigned lane, uint64_t seed) {
  const ByteVector noise = test::random_bytes(words.size(), seed);
  for (size_t i = 0; i + lane <= words.size(); i += lane) {
    uint32_t word = 0;
    std::memcpy(&word, words.data() + i, lane);
    word += noise[i] % 7;
    word -= 3;
    std::memcpy(words.data() + i, &word, lane);
  }
  return words;
}

struct Model {
  ByteVector big = test::gaussian_words(Dtype::BF16, 60000, 1), fixed = test::gaussian_words(Dtype::BF16, 20000, 2);
  ByteVector moments = test::gaussian_words(Dtype::F32, 20000, 3), half = test::gaussian_words(Dtype::F16, 30000, 4);
  ByteVector norm = test::gaussian_words(Dtype::BF16, 300, 5), bias = test::gaussian_words(Dtype::BF16, 400, 6);
  std::string prefix;

  ByteVector file() const {
    return test::safetensors_bytes({test::flat_tensor(prefix + "big", Dtype::BF16, big),
                                    test::flat_tensor(prefix + "fixed", Dtype::BF16, fixed),
                                    test::flat_tensor(prefix + "moments", Dtype::F32, moments),
                                    test::flat_tensor(prefix + "half", Dtype::F16, half),
                                    test::flat_tensor(prefix + "norm.weight", Dtype::BF16, norm),
                                    test::flat_tensor(prefix + "bias.weight", Dtype::BF16, bias)});
  }
  Model next(uint64_t seed) const {
    Model model = *this;
    model.big = stepped(big, 2, seed);
    model.moments = stepped(moments, 4, seed + 1);
    model.half = stepped(half, 2, seed + 2);
    model.bias = stepped(bias, 2, seed + 3);
    return model;
  }
};

PackReport pack(std::vector<std::string> sources, const std::string& target, PackOptions options = {}) {
  options.sources = std::move(sources);
  options.target = target;
  auto report = pack_files(options);
  if (!report) FAIL(report.error().message());
  if (report->first_error() != nullptr) FAIL(report->first_error()->message());
  return std::move(*report);
}

std::shared_ptr<const archive::Reader> opened(const std::string& path, const std::string& root = {}) {
  archive::DirectoryFinder finder(root.empty() ? std::vector<std::string>() : std::vector<std::string>{root});
  auto reader = archive::open_with_bases(path, finder);
  if (!reader) FAIL(reader.error().message());
  return *reader;
}

ByteVector unpacked(const std::string& path) {
  const auto reader = opened(path);
  ByteVector out(reader->manifest().original_size);
  REQUIRE(archive::read_range(*reader, {0, out.size()}, out));
  return out;
}

uint64_t size_of(const std::string& path) { return stdfs::file_size(path); }

PackOptions with_base(const std::string& base) {
  PackOptions options;
  options.bases = {base};
  return options;
}

}  // namespace

TEST_CASE("a snapshot against its base is smaller, comes back, and what did not change costs nothing") {
  const test::TempDir dir;
  const Model first, second = first.next(10);
  test::write_file(dir / "a.safetensors", first.file());
  test::write_file(dir / "b.safetensors", second.file());
  pack({dir / "a.safetensors"}, dir / "a.brv");
  pack({dir / "b.safetensors"}, dir / "alone.brv");
  const auto report = pack({dir / "b.safetensors"}, dir / "b.brv", with_base(dir / "a.brv"));
  CHECK(unpacked(dir / "b.brv") == second.file());
  CHECK(size_of(dir / "b.brv") * 2 < size_of(dir / "alone.brv"));
  CHECK(report.files[0].base_bytes > 300000);
  const auto reader = opened(dir / "b.brv");
  CHECK(reader->manifest().depth() == 1);
  CHECK(reader->manifest().bases.size() == 1);
  CHECK(reader->manifest().bases[0].hint == "a.brv");
  size_t whole = 0;
  for (const archive::Record& record : reader->manifest().records)
    whole += reader->manifest().programs[record.program]->root().op == dsl::OpId::base;
  CHECK(whole == 2);  // `fixed`, and `norm.weight` out of its bundle
  // The same again gives the same bytes, with any number of workers.
  PackOptions options = with_base(dir / "a.brv");
  options.jobs = 3;
  pack({dir / "b.safetensors"}, dir / "again.brv", options);
  CHECK(test::read_file(dir / "again.brv") == test::read_file(dir / "b.brv"));
}

TEST_CASE("Z10: renamed keys cost the header") {
  const test::TempDir dir;
  Model model;
  test::write_file(dir / "a.safetensors", model.file());
  model.prefix = "model.renamed.";
  test::write_file(dir / "b.safetensors", model.file());
  pack({dir / "a.safetensors"}, dir / "a.brv");
  pack({dir / "b.safetensors"}, dir / "b.brv", with_base(dir / "a.brv"));
  CHECK(unpacked(dir / "b.brv") == model.file());
  // Only the bundle of the two small tensors has no digest of its own in the base.
  CHECK(size_of(dir / "b.brv") < model.file().size() / 100);
}

TEST_CASE("an equal tensor costs less than 100 bytes") {
  const test::TempDir dir;
  std::vector<test::TensorSpec> tensors;
  for (int i = 0; i < 20; ++i)
    tensors.push_back(test::flat_tensor("layer." + std::to_string(i), Dtype::BF16,
                                        test::gaussian_words(Dtype::BF16, 10000, uint64_t(i))));
  test::write_file(dir / "a.safetensors", test::safetensors_bytes(tensors));
  pack({dir / "a.safetensors"}, dir / "a.brv");
  pack({dir / "a.safetensors"}, dir / "b.brv", with_base(dir / "a.brv"));
  CHECK(unpacked(dir / "b.brv") == test::safetensors_bytes(tensors));
  CHECK(size_of(dir / "b.brv") < 20 * 100);
  MESSAGE("an equal tensor takes ", size_of(dir / "b.brv") / 20, " bytes, header and all");
}

TEST_CASE("a tensor that the base does not help stands alone") {
  const test::TempDir dir;
  Model first, other;
  other.big = test::gaussian_words(Dtype::BF16, 60000, 100);
  other.half = test::gaussian_words(Dtype::F16, 30000, 101);
  test::write_file(dir / "a.safetensors", first.file());
  test::write_file(dir / "b.safetensors", other.file());
  pack({dir / "a.safetensors"}, dir / "a.brv");
  pack({dir / "b.safetensors"}, dir / "b.brv", with_base(dir / "a.brv"));
  CHECK(unpacked(dir / "b.brv") == other.file());
  const auto reader = opened(dir / "b.brv");
  size_t alone = 0;
  for (const archive::Record& record : reader->manifest().records) alone += record.bases.empty();
  CHECK(alone == 3);  // header, big, half
}

TEST_CASE("a series in a chain: every fifth stands alone, all come back") {
  const test::TempDir dir;
  std::vector<std::string> sources;
  std::vector<Model> models{Model()};
  for (int i = 0; i < 7; ++i) {
    if (i > 0) models.push_back(models.back().next(uint64_t(100 * i)));
    const std::string step = dir / ("run/step-" + std::to_string(i));
    test::write_file(step + "/model.safetensors", models.back().file());
    test::write_file(step + "/config.json", "{}");
    sources.push_back(step);
  }
  PackOptions options;
  options.chain = true;
  pack(sources, dir / "out", options);
  for (size_t i = 0; i < models.size(); ++i) {
    const std::string path = dir / ("out/step-" + std::to_string(i) + "/model.safetensors.brv");
    CHECK(opened(path)->manifest().depth() == i % 5);
    CHECK(unpacked(path) == models[i].file());
  }
  CHECK(test::exists(dir / "out/step-3/config.json"));
  // Nothing more can stand on the fourth; the error says what to do.
  options = with_base(dir / "out/step-4/model.safetensors.brv");
  options.sources = {sources[5]};
  options.target = dir / "more";
  const auto refused = pack_files(options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message().find("--flatten") != std::string::npos);

  // A base that others need is not packed anew under their feet.
  options = {};
  options.from_archives = true;
  options.sources = {dir / "out/step-3/model.safetensors.brv"};
  stdfs::copy_file(dir / "out/step-4/model.safetensors.brv", dir / "out/step-3/next.brv");
  auto flattened = pack_files(options);
  REQUIRE(flattened);
  REQUIRE(flattened->first_error() != nullptr);
  CHECK(flattened->first_error()->message().find("next.brv") != std::string::npos);
  stdfs::remove(dir / "out/step-3/next.brv");

  // All of a tree at once: those first that nobody needs.
  options.sources = {dir / "out"};
  flattened = pack_files(options);
  REQUIRE(flattened);
  if (flattened->first_error() != nullptr) FAIL(flattened->first_error()->message());
  CHECK(flattened->files.size() == 5);
  for (size_t i = 0; i < models.size(); ++i) {
    const std::string path = dir / ("out/step-" + std::to_string(i) + "/model.safetensors.brv");
    CHECK(opened(path)->manifest().depth() == 0);
    CHECK(unpacked(path) == models[i].file());
  }

  // And against another base.
  options = with_base(dir / "out/step-0/model.safetensors.brv");
  options.from_archives = true;
  options.sources = {dir / "out/step-2/model.safetensors.brv"};
  options.target = dir / "rebased.brv";
  const auto rebased = pack_files(options);
  REQUIRE(rebased);
  if (rebased->first_error() != nullptr) FAIL(rebased->first_error()->message());
  CHECK(opened(dir / "rebased.brv")->manifest().depth() == 1);
  CHECK(unpacked(dir / "rebased.brv") == models[2].file());
}

TEST_CASE("repeated shards of one run are stored once, when asked") {
  const test::TempDir dir;
  const Model model;
  test::write_file(dir / "tree/a/model.safetensors", model.file());
  test::write_file(dir / "tree/b/weights.safetensors", model.file());
  const ByteVector vocabulary = test::random_bytes(200000, 9);
  test::write_file(dir / "tree/a/vocabulary.bin", vocabulary);
  test::write_file(dir / "tree/b/vocabulary.bin", vocabulary);
  pack({dir / "tree"}, dir / "plain");
  PackOptions options;
  options.dedupe = true;
  pack({dir / "tree"}, dir / "deduped", options);
  CHECK(size_of(dir / "plain/b/weights.safetensors.brv") > 200000);
  CHECK(size_of(dir / "deduped/b/weights.safetensors.brv") < 4000);
  CHECK(size_of(dir / "deduped/b/vocabulary.bin.brv") < 1000);
  CHECK(unpacked(dir / "deduped/b/weights.safetensors.brv") == model.file());
  CHECK(unpacked(dir / "deduped/b/vocabulary.bin.brv") == vocabulary);
}

TEST_CASE("I04: a second run with --resume packs what the first did not") {
  const test::TempDir dir;
  const Model model;
  test::write_file(dir / "tree/a.safetensors", model.file());
  test::write_file(dir / "tree/b.safetensors", model.next(1).file());
  test::write_file(dir / "tree/config.json", "{}");
  pack({dir / "tree"}, dir / "out");
  stdfs::remove(dir / "out/b.safetensors.brv");
  PackOptions options;
  options.resume = true;
  auto report = pack({dir / "tree"}, dir / "out", options);
  size_t resumed = 0, packed = 0;
  for (const PackedFile& file : report.files) {
    resumed += file.resumed;
    packed += file.action == PackAction::packed;
  }
  CHECK(resumed == 2);
  CHECK(packed == 1);
  // Another source or other options are no reason to skip.
  test::write_file(dir / "tree/a.safetensors", model.next(7).file());
  options.force = true;
  options.frame_bytes = 65536;
  report = pack({dir / "tree"}, dir / "out", options);
  for (const PackedFile& file : report.files)
    if (file.action != PackAction::skipped) CHECK(file.action == PackAction::packed);
  CHECK(unpacked(dir / "out/a.safetensors.brv") == model.next(7).file());
}

TEST_CASE("--resume --replace removes what an earlier run packed, and only where all of it is there") {
  const test::TempDir dir;
  const Model model;
  for (const char* name : {"a", "b"})
    test::write_file(dir / (std::string("tree/") + name + ".safetensors"), model.file());
  pack({dir / "tree"}, dir / "out");
  // Same size and time, other bytes: what --resume takes for packed, and what must not go.
  const std::string other = dir / "tree/b.safetensors";
  const auto time = stdfs::last_write_time(other);
  ByteVector changed = model.file();
  changed.back() ^= 1;
  test::write_file(other, changed);
  stdfs::last_write_time(other, time);
  PackOptions options;
  options.resume = options.replace = options.dry_run = true;
  options.sources = {dir / "tree"};
  options.target = dir / "out";
  REQUIRE(pack_files(options));
  CHECK(stdfs::exists(dir / "tree/a.safetensors"));  // a rehearsal takes nothing away
  options.dry_run = false;
  const auto report = pack_files(options);
  REQUIRE(report);
  REQUIRE(report->first_error() != nullptr);
  CHECK(report->first_error()->message().find("b.safetensors") != std::string::npos);
  CHECK_FALSE(stdfs::exists(dir / "tree/a.safetensors"));
  CHECK(stdfs::exists(other));
  CHECK(unpacked(dir / "out/a.safetensors.brv") == model.file());
}

TEST_CASE("shards of a run are its files, each once") {
  const test::TempDir dir;
  for (int i = 0; i < 5; ++i)
    test::write_file(dir / ("tree/" + std::to_string(i) + ".safetensors"), Model().next(uint64_t(i)).file());
  test::write_file(dir / "tree/config.json", "{}");
  for (unsigned shard = 0; shard < 3; ++shard) {
    PackOptions options;
    options.shard = shard;
    options.shards = 3;
    const auto report = pack({dir / "tree"}, dir / "out", options);
    CHECK(report.files.size() == (shard == 0 ? 3 : shard == 1 ? 2 : 1));
  }
  CHECK(test::names_in(dir / "out").size() == 6);
  PackOptions wrong;
  wrong.sources = {dir / "tree"};
  wrong.shard = wrong.shards = 2;
  CHECK_FALSE(pack_files(wrong));
}

TEST_CASE("--replace removes a source once its archive was read back") {
  const test::TempDir dir;
  const Model model;
  test::write_file(dir / "tree/a.safetensors", model.file());
  test::write_file(dir / "tree/config.json", "{}");
  PackOptions options;
  options.replace = true;
  options.sources = {dir / "tree"};
  const auto report = pack_files(options);
  REQUIRE(report);
  CHECK(report->first_error() == nullptr);
  CHECK(test::names_in(dir / "tree") == std::vector<std::string>{"a.safetensors.brv", "config.json"});
  CHECK(unpacked(dir / "tree/a.safetensors.brv") == model.file());
  options.sha256 = false;
  CHECK_FALSE(pack_files(options));
}
