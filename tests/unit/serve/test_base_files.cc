// SPDX-License-Identifier: Apache-2.0
//
// A volume over archives that stand on others: the same bytes from every thread and in every order, bases found where
// they went, and refusals that name what is missing.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "archive/reader.h"
#include "base/io.h"
#include "brevis/living.h"
#include "brevis/pack.h"
#include "served_tree.h"
#include "support/safetensors_writer.h"
#include "support/simple_pack.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::test;

namespace {

namespace stdfs = std::filesystem;

constexpr int kSteps = 5;

ByteVector snapshot(int step) {
  ByteVector words = gaussian_words(Dtype::BF16, 150000, 1);
  for (int s = 1; s <= step; ++s) {
    const ByteVector noise = random_bytes(words.size(), uint64_t(s));
    for (size_t i = 0; i < words.size(); i += 2) words[i] = static_cast<uint8_t>(words[i] ^ (noise[i] & 3));
  }
  return safetensors_bytes({flat_tensor("w", Dtype::BF16, words),
                            flat_tensor("same", Dtype::BF16, gaussian_words(Dtype::BF16, 90000, 2)),
                            flat_tensor("small", Dtype::BF16, gaussian_words(Dtype::BF16, 100, 3))});
}

// step-0 .. step-4, each on the one before; frames of several sizes, so that they do not lie on each other, or of one.
std::vector<ByteVector> make_series(ServedTree& tree, std::optional<uint64_t> frame_bytes = {}) {
  std::vector<ByteVector> originals;
  const TempDir plain;
  for (int i = 0; i < kSteps; ++i) {
    const std::string name = "step-" + std::to_string(i);
    originals.push_back(snapshot(i));
    write_file(plain / name, originals.back());
    PackOptions options;
    options.sources = {plain / name};
    options.target = tree / (name + ".brv");
    options.frame_bytes = frame_bytes.value_or(i % 2 == 0 ? 16384 : 20000);
    if (i > 0) options.bases = {tree / ("step-" + std::to_string(i - 1) + ".brv")};
    const auto report = pack_files(options);
    REQUIRE(report);
    if (report->first_error() != nullptr) FAIL(report->first_error()->message());
  }
  return originals;
}

void check_random_reads(Volume& volume, const std::shared_ptr<FileHandle>& file, const ByteVector& all, uint64_t seed) {
  Rng rng(seed);
  for (int i = 0; i < 120; ++i) {
    const uint64_t offset = rng.below(all.size()), length = 1 + rng.below(rng.below(2) ? 4096 : 200000);
    const auto got = read_now(volume, file, {offset, length});
    if (!got) FAIL(got.error().message());
    const uint64_t want = std::min<uint64_t>(length, all.size() - offset);
    REQUIRE(got->size() == want);
    REQUIRE(std::equal(got->begin(), got->end(), all.begin() + ptrdiff_t(offset)));
  }
}

}  // namespace

TEST_CASE("a chain is served: every byte, and random reads from several threads under a small cap") {
  ServedTree tree;
  const auto originals = make_series(tree);
  for (const uint64_t memory : {uint64_t{4} << 20, uint64_t{256} << 20}) {
    VolumeOptions options;
    options.memory = memory;
    Volume& volume = tree.serve(options);
    for (int i = kSteps - 1; i >= 0; --i) CHECK(tree.contents("step-" + std::to_string(i)) == originals[size_t(i)]);
    tree.serve(options);
    std::vector<std::shared_ptr<FileHandle>> files;
    for (int i = 0; i < kSteps; ++i) files.push_back(tree.open("step-" + std::to_string(i)));
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        const size_t step = (t + 4) % kSteps;
        check_random_reads(tree.volume(), files[step], originals[step], t);
      });
    for (std::thread& thread : threads) thread.join();
    static_cast<void>(volume);
  }
}

TEST_CASE("a random read of a difference decodes one frame here and its range in each base") {
  ServedTree tree;
  const auto originals = make_series(tree);
  tree.serve();
  const auto file = tree.open("step-1");
  const uint64_t before = tree.volume().counters().frames_decoded;
  REQUIRE(read_now(tree.volume(), file, {50000, 100}));
  CHECK(tree.volume().counters().frames_decoded - before <= 3);
}

TEST_CASE("a random read of 4 KiB costs one frame here and one on each level below") {
  ServedTree tree;
  const auto originals = make_series(tree, 32768);
  Rng rng(1);
  for (int step = 0; step < kSteps; ++step) {
    tree.serve();
    const auto file = tree.open("step-" + std::to_string(step));
    REQUIRE(read_now(tree.volume(), file, {0, 8}));
    const ByteVector& all = originals[size_t(step)];
    for (int i = 0; i < 3; ++i) {
      // The tensor that changes comes first, its frames begin where the header ends.
      const uint64_t header = 8 + (all[0] | uint64_t{all[1]} << 8), frame = 2 * uint64_t(i) + uint64_t(step % 2);
      const uint64_t at = header + frame * 32768 + rng.below(32768 - 4096);
      const uint64_t before = tree.volume().counters().frames_decoded;
      const auto got = read_now(tree.volume(), file, {at, 4096});
      REQUIRE(got);
      CHECK(std::equal(got->begin(), got->end(), all.begin() + ptrdiff_t(at)));
      CHECK(tree.volume().counters().frames_decoded - before == uint64_t(step) + 1);
    }
  }
}

TEST_CASE("who reads on through differences finds them decoded ahead") {
  ServedTree tree;
  const auto originals = make_series(tree, 32768);
  tree.serve();
  const ByteVector& all = originals[4];
  const auto file = tree.open("step-4");
  constexpr uint64_t kPiece = 16384;
  for (uint64_t at = 0; at < all.size(); at += kPiece) {
    const auto got = read_now(tree.volume(), file, {at, kPiece});
    REQUIRE(got);
    REQUIRE(std::equal(got->begin(), got->end(), all.begin() + ptrdiff_t(at)));
    // The workers come along in their own time.
    const auto awaited = [&] {
      const auto counters = tree.volume().counters();
      return counters.ahead_streams != 0 && counters.ahead_frames == 0 && at + 2 * kPiece < all.size();
    };
    for (int wait = 0; wait < 500 && awaited(); ++wait) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(tree.volume().counters().ahead_frames > 0);
}

TEST_CASE("a difference that the kernel reads through is decoded ahead, too") {
  ServedTree tree;
  const TempDir plain;
  ByteVector words = gaussian_words(Dtype::BF16, 5'500'000, 1), all;
  for (const std::string name : {"base", "step"}) {
    for (size_t i = 0; i < words.size(); i += 64) words[i] = static_cast<uint8_t>(words[i] ^ 1);
    all = safetensors_bytes({flat_tensor("w", Dtype::BF16, words)});
    write_file(plain / name, all);
    PackOptions options;
    options.sources = {plain / name};
    options.target = tree / (name + ".brv");
    if (name == "step") options.bases = {tree / "base.brv"};
    const auto report = pack_files(options);
    REQUIRE(report);
    REQUIRE(report->first_error() == nullptr);
  }
  Volume& volume = tree.serve({.memory = uint64_t{64} << 20});
  const auto file = tree.open("step");
  constexpr uint64_t kPiece = uint64_t{1} << 20;
  for (uint64_t at = 0; at < all.size(); at += kPiece) {
    const auto got = read_now(volume, file, {at, kPiece});
    REQUIRE(got);
    REQUIRE(std::equal(got->begin(), got->end(), all.begin() + ptrdiff_t(at)));
    for (int wait = 0; at == 8 * kPiece && wait < 500 && volume.counters().ahead_frames == 0; ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(volume.counters().ahead_frames > 0);
}

TEST_CASE("Z09: bases that moved are found, bases that are gone are named") {
  ServedTree tree;
  const auto originals = make_series(tree);
  stdfs::create_directories(tree / "old/deep");
  stdfs::rename(tree / "step-0.brv", tree / "old/deep/renamed.brv");
  tree.serve();
  CHECK(tree.contents("step-4") == originals[4]);

  // Out of the tree: refused, and found again under a path that is named.
  const TempDir apart;
  stdfs::rename(tree / "old/deep/renamed.brv", apart / "renamed.brv");
  tree.serve();
  const NodeAttr attr = tree.look("step-4");
  auto opened = tree.volume().open_file(attr.id);
  REQUIRE_FALSE(opened);
  CHECK(to_errno(opened.error()) == EIO);
  CHECK(opened.error().message().find("step-0.brv") != std::string::npos);
  CHECK(opened.error().message().find("--base-path") != std::string::npos);
  VolumeOptions options;
  options.base_paths = {apart.path()};
  tree.serve(options);
  CHECK(tree.contents("step-4") == originals[4]);

  // Another archive in its place.
  tree.serve();
  tree.pack("step-0", random_bytes(100000, 5));
  opened = tree.volume().open_file(tree.look("step-4").id);
  REQUIRE_FALSE(opened);
  CHECK(opened.error().message().find("another archive") != std::string::npos);

  // Back again, while the volume runs. Whoever has a file open keeps its bases.
  stdfs::rename(apart / "renamed.brv", tree / "step-0.brv");
  tree.volume().rescan();
  const auto file = tree.open("step-4");
  stdfs::remove(tree / "step-0.brv");
  const auto got = read_now(tree.volume(), file, {0, originals[4].size()});
  REQUIRE(got);
  CHECK(*got == originals[4]);
}

TEST_CASE("a damaged frame of a base fails what stands on it and nothing else") {
  ServedTree tree;
  const auto originals = make_series(tree);
  ByteVector bytes = read_file(tree / "step-0.brv");
  const size_t second_half = bytes.size() / 4;
  bytes[second_half] ^= 1;
  tree.put("step-0.brv", bytes);
  tree.serve();
  const auto file = tree.open("step-3");
  size_t failed = 0;
  for (uint64_t at = 0; at < originals[3].size(); at += 8192) {
    const auto got = read_now(tree.volume(), file, {at, 8192});
    if (!got) {
      CHECK(to_errno(got.error()) == EIO);
      ++failed;
      continue;
    }
    REQUIRE(std::equal(got->begin(), got->end(), originals[3].begin() + ptrdiff_t(at)));
  }
  CHECK(failed >= 1);
  CHECK(failed <= 12);
}

TEST_CASE("Z09: a base that is not as deep or as large as it was is refused") {
  using enum archive::SegmentKind;
  ServedTree tree;
  const PackPart words{opaque, random_bytes(5000, 1), "u8 = literal(raw)"};
  REQUIRE(simple_pack(tree / "base.brv", {words}));
  for (const int lie : {0, 1, 2}) {
    archive::Base base{archive::Reader::open(File::open(tree / "base.brv").value()).value()->header().id, 5000, 0, ""};
    if (lie == 1) base.depth = 1;
    if (lie == 2) base.original_size += 5;
    SimplePackOptions options;
    options.bases = {base};
    REQUIRE(simple_pack(tree / "on.brv", {{opaque, words.bytes, "u8 = base", 0, -1, {{0, {0, 5000}}}, {}}}, options));
    tree.serve();
    const auto opened = tree.volume().open_file(tree.look("on").id);
    if (lie == 0) {
      REQUIRE(opened);
      CHECK(tree.contents("on") == words.bytes);
      continue;
    }
    REQUIRE_FALSE(opened);
    CHECK(opened.error().message().find("not the base") != std::string::npos);
  }
}

TEST_CASE("an archive is no way to a base that its owner may not read") {
  if (::geteuid() != 0) return;
  ServedTree tree;
  const auto originals = make_series(tree);
  REQUIRE(::chmod((tree / "step-0.brv").c_str(), 0600) == 0);
  REQUIRE(::chown((tree / "step-1.brv").c_str(), 12345, 12345) == 0);
  tree.serve();
  const auto refused = tree.volume().open_file(tree.look("step-1").id);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message().find("owner") != std::string::npos);
  REQUIRE(::chmod((tree / "step-0.brv").c_str(), 0644) == 0);
  tree.volume().rescan();
  CHECK(tree.contents("step-1") == originals[1]);
}

TEST_CASE("a base that others need is neither removed nor replaced") {
  ServedTree tree;
  const auto originals = make_series(tree);
  const auto source = open_directory(tree / ".");
  REQUIRE(source);
  const auto refused = remove_file(source->get(), "models", "step-1");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message().find("is the base of 'models/step-2.brv'") != std::string::npos);
  CHECK(exists(tree / "step-1.brv"));
  CHECK(remove_file(source->get(), "models", "step-4"));
  CHECK_FALSE(exists(tree / "step-4.brv"));

  const TempDir apart;
  write_file(apart / "other.brv", packed_bytes(random_bytes(1000, 1)));
  const File other = File::open(apart / "other.brv").value(), same = File::open(tree / "step-1.brv").value();
  PutRequest request;
  request.source_fd = source->get();
  request.source_path = "models";
  request.path = "step-1.brv";
  request.replace = true;
  request.file_fd = other.fd();
  CHECK_FALSE(put_file(request));
  request.file_fd = same.fd();
  CHECK(put_file(request));

  // Nothing in the tree stands on this one, but what would take its place does.
  stdfs::rename(tree / "step-3.brv", apart / "step-3.brv");
  const File dependent = File::open(apart / "step-3.brv").value();
  request.path = "step-2.brv";
  request.file_fd = dependent.fd();
  const auto itself = put_file(request);
  REQUIRE_FALSE(itself);
  CHECK(itself.error().message().find("is the base of what would take its place") != std::string::npos);
  stdfs::rename(apart / "step-3.brv", tree / "step-3.brv");
  tree.serve();
  CHECK(tree.contents("step-3") == originals[3]);
}
