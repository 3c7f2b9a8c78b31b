// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <numeric>

#include "archive/layout.h"
#include "base/checksum.h"
#include "brevis/pack.h"
#include "support/safetensors_writer.h"
#include "support/temp_dir.h"
#include "support/weights.h"
#include "support/words.h"

using namespace brevis;

namespace {

PackReport pack_one(const std::string& source, const std::string& target, PackOptions options = {}) {
  options.sources = {source};
  options.target = target;
  auto report = pack_files(options);
  REQUIRE(report);
  return std::move(*report);
}

ByteVector unpacked(const std::string& archive) {
  auto file = File::open(archive);
  REQUIRE(file);
  auto reader = archive::Reader::open(std::move(*file));
  if (!reader) FAIL(reader.error().message());
  ByteVector out((*reader)->manifest().original_size);
  const auto status = archive::read_range(**reader, {0, out.size()}, out);
  if (!status) FAIL(status.error().message());
  return out;
}

void check_round_trip(const ByteVector& bytes, PackOptions options = {}, const char* name = "m.safetensors") {
  test::TempDir dir;
  test::write_file(dir / name, bytes);
  const auto report = pack_one(dir / name, dir / "x.brv", std::move(options));
  if (report.first_error() != nullptr) FAIL(report.first_error()->message());
  CHECK(unpacked(dir / "x.brv") == bytes);
  Sha256Hasher hasher;
  hasher.update(bytes);
  if (!report.files[0].sha256.empty()) CHECK(report.files[0].sha256 == to_hex(ByteSpan(hasher.finish())));
}

}  // namespace

TEST_CASE("F20: a model with every dtype comes back to the last bit") {
  check_round_trip(test::safetensors_bytes(test::mixed_model(11)));
  std::vector<test::TensorSpec> all;
  for (const DtypeInfo& info : all_dtypes())
    all.push_back(test::flat_tensor(std::string(info.name), info.id, test::random_bytes(24000, info.bits)));
  check_round_trip(test::safetensors_bytes(all));
}

TEST_CASE("Z01: empty and tiny files come back") {
  for (size_t size = 0; size <= 64; ++size) check_round_trip(test::random_bytes(size, size), {}, "data.bin");
}

TEST_CASE("frames of every legal size, several workers, and no digest come back") {
  const auto file =
      test::safetensors_bytes({test::flat_tensor("w", Dtype::BF16, test::gaussian_words(Dtype::BF16, 150001, 1)),
                               test::flat_tensor("v", Dtype::F32, test::gaussian_words(Dtype::F32, 50001, 2))});
  for (const uint64_t frame : {uint64_t{4096}, uint64_t{65536}, uint64_t{1} << 20}) {
    PackOptions options;
    options.frame_bytes = frame;
    options.sha256 = frame != 65536;
    check_round_trip(file, options);
  }
  PackOptions wrong;
  wrong.frame_bytes = 4095;
  wrong.sources = {"x"};
  CHECK_FALSE(pack_files(wrong));
}

TEST_CASE("law 6: the same input gives the same archive with any number of workers") {
  test::TempDir dir;
  test::write_file(dir / "m.safetensors", test::safetensors_bytes(test::mixed_model(5, 256)));
  ByteVector first;
  for (const unsigned jobs : {1u, 2u, 7u}) {
    PackOptions options;
    options.jobs = jobs;
    options.force = true;
    options.frame_bytes = 16384;
    pack_one(dir / "m.safetensors", dir / "m.brv", options);
    const auto bytes = test::read_file(dir / "m.brv");
    if (first.empty()) first = bytes;
    CHECK(bytes == first);
  }
}

TEST_CASE("law 6: nor does what workers foresee of streams that tell each other something") {
  std::vector<test::TensorSpec> tensors;
  for (int layer = 0; layer < 14; ++layer) {
    const auto seed = static_cast<uint64_t>(layer);
    const std::string name = "layers." + std::to_string(100 + layer);
    tensors.push_back({name + ".a.weight", Dtype::BF16, {150, 256}, test::channel_words(Dtype::BF16, 150, 256, seed)});
    tensors.push_back({name + ".b.weight", Dtype::BF16, {100, 300}, test::gaussian_words(Dtype::BF16, 30000, seed)});
    tensors.push_back({name + ".c.scale", Dtype::F32, {20000}, test::upcast_words(20000, seed)});
  }
  test::TempDir dir;
  test::write_file(dir / "m.safetensors", test::safetensors_bytes(tensors));
  ByteVector first;
  for (const unsigned jobs : {1u, 2u, 5u}) {
    PackOptions options;
    options.jobs = jobs;
    options.force = true;
    pack_one(dir / "m.safetensors", dir / "m.brv", options);
    const auto bytes = test::read_file(dir / "m.brv");
    if (first.empty()) first = bytes;
    CHECK(bytes == first);
  }
}

TEST_CASE("Z04: tied tensors are stored once and both come back") {
  const auto weights = test::gaussian_words(Dtype::BF16, 100000, 3);
  const auto one = test::safetensors_bytes({test::flat_tensor("embed", Dtype::BF16, weights)});
  const auto two = test::safetensors_bytes(
      {test::flat_tensor("embed", Dtype::BF16, weights), test::flat_tensor("head", Dtype::BF16, weights)});
  test::TempDir dir;
  test::write_file(dir / "1.safetensors", one);
  test::write_file(dir / "2.safetensors", two);
  const auto a = pack_one(dir / "1.safetensors", dir / "1.brv");
  const auto b = pack_one(dir / "2.safetensors", dir / "2.brv");
  CHECK(b.bytes_out < a.bytes_out + 200);
  CHECK(b.files[0].duplicate_tensors == 1);
  CHECK(b.files[0].duplicate_bytes == weights.size());
  CHECK(unpacked(dir / "2.brv") == two);
}

TEST_CASE("a target is overwritten only when asked, mode and times are the source's") {
  test::TempDir dir;
  test::write_file(dir / "m.safetensors", test::safetensors_bytes(test::mixed_model(1)));
  REQUIRE(chmod((dir / "m.safetensors").c_str(), 0640) == 0);
  CHECK(pack_one(dir / "m.safetensors", "").first_error() == nullptr);
  CHECK(pack_one(dir / "m.safetensors", "").first_error() != nullptr);
  PackOptions force;
  force.force = true;
  CHECK(pack_one(dir / "m.safetensors", "", force).first_error() == nullptr);
  const auto source = stat_at(AT_FDCWD, dir / "m.safetensors", true);
  const auto target = stat_at(AT_FDCWD, dir / "m.safetensors.brv", true);
  REQUIRE(source);
  REQUIRE(target);
  CHECK(source->mtime_ns == target->mtime_ns);
  CHECK((target->mode & 07777) == 0640);
}

TEST_CASE("a dry run writes nothing and tells the size that packing gives") {
  test::TempDir dir;
  test::write_file(dir / "m.safetensors", test::safetensors_bytes(test::mixed_model(2)));
  PackOptions options;
  options.dry_run = true;
  const auto dry = pack_one(dir / "m.safetensors", dir / "m.brv", options);
  CHECK_FALSE(test::exists(dir / "m.brv"));
  CHECK(dry.bytes_out == pack_one(dir / "m.safetensors", dir / "m.brv").bytes_out);
}

TEST_CASE("verdicts: what is refused leaves no archive, what is lenient is packed with a warning") {
  test::TempDir dir;
  auto good = test::safetensors_bytes(test::mixed_model(3));
  auto cut = good;
  cut.resize(good.size() - 10);
  test::write_file(dir / "cut.safetensors", cut);
  auto report = pack_one(dir / "cut.safetensors", "");
  REQUIRE(report.first_error() != nullptr);
  CHECK(to_exit_code(*report.first_error()) == 65);
  CHECK(report.first_error()->message().find("10 bytes short of what its header declares") != std::string::npos);
  CHECK_FALSE(test::exists(dir / "cut.safetensors.brv"));
  PackOptions allow;
  allow.allow_truncated = true;
  check_round_trip(cut, allow);

  test::write_file(dir / "lfs.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n");
  report = pack_one(dir / "lfs.safetensors", "");
  REQUIRE(report.first_error() != nullptr);
  CHECK(report.first_error()->message().find("Git LFS pointer") != std::string::npos);
  CHECK(to_exit_code(*report.first_error()) == 65);

  auto tail = good;
  tail.insert(tail.end(), {1, 2, 3, 4});
  test::write_file(dir / "tail.safetensors", tail);
  report = pack_one(dir / "tail.safetensors", "");
  CHECK(report.first_error() == nullptr);
  CHECK_FALSE(report.files[0].warning.empty());
  PackOptions strict;
  strict.strict = strict.force = true;
  CHECK(pack_one(dir / "tail.safetensors", "", strict).first_error() != nullptr);
}

TEST_CASE("I04: a full target, a failing read and a failing sync leave nothing under the final name") {
  test::TempDir dir;
  test::write_file(dir / "m.safetensors", test::safetensors_bytes(test::mixed_model(4, 128)));
  for (const auto& [call, error] :
       std::vector<std::pair<std::string, int>>{{"write", ENOSPC}, {"read", EIO}, {"fsync", EIO}, {"rename", EIO}}) {
    int passes = call == "write" || call == "read" ? 3 : 0;
    set_fault_hook([&, call = call, error = error](const char* name, const std::string&, uint64_t) {
      return name == call && passes-- <= 0 ? error : 0;
    });
    PackOptions options;
    options.jobs = 1;
    options.sha256 = false;
    const auto report = pack_one(dir / "m.safetensors", dir / "m.brv", options);
    set_fault_hook({});
    CHECK(report.first_error() != nullptr);
    CHECK(test::names_in(dir.path()).size() == 1);
  }
}

TEST_CASE("a source that changes while it is packed is refused as temporary") {
  test::TempDir dir;
  const auto path = dir / "m.safetensors";
  test::write_file(path, test::safetensors_bytes(test::mixed_model(6, 256)));
  PackOptions options;
  options.frame_bytes = 16384;
  int calls = 0;
  options.progress = [&](const PackProgress&) {
    if (++calls != 4) return;
    auto bytes = test::read_file(path);
    bytes.back() ^= 1;
    test::write_file(path, bytes);
  };
  const auto report = pack_one(path, dir / "m.brv", options);
  REQUIRE(report.first_error() != nullptr);
  CHECK(to_exit_code(*report.first_error()) == 75);
  CHECK_FALSE(test::exists(dir / "m.brv"));
}

TEST_CASE("a tree: archives, copies, links kept, links out of it refused or followed") {
  test::TempDir dir;
  const auto model = test::safetensors_bytes(test::mixed_model(7));
  REQUIRE(make_directories(dir / "in/sub"));
  test::write_file(dir / "in/sub/model.safetensors", model);
  test::write_file(dir / "in/blob", model);  // no extension: recognised by content
  test::write_file(dir / "in/config.json", "{}");
  test::write_file(dir / "in/tokenizer.json", std::string(100000, 'x'));
  test::write_file(dir / "in/old.brv", "whatever");
  test::write_file(dir / "outside", "here");
  REQUIRE(make_symlink("sub/model.safetensors", dir / "in/link"));
  REQUIRE(chmod((dir / "in/sub").c_str(), 0750) == 0);
  auto report = pack_one(dir / "in", dir / "out");
  CHECK(report.first_error() == nullptr);
  CHECK(unpacked(dir / "out/sub/model.safetensors.brv") == model);
  CHECK(unpacked(dir / "out/blob.brv") == model);
  CHECK(unpacked(dir / "out/tokenizer.json.brv") == ByteVector(100000, 'x'));
  CHECK(test::read_file(dir / "out/config.json") == ByteVector{'{', '}'});
  CHECK(test::read_file(dir / "out/old.brv").size() == 8);
  const auto before = stat_at(AT_FDCWD, dir / "in/sub", true), after = stat_at(AT_FDCWD, dir / "out/sub", true);
  REQUIRE(before);
  REQUIRE(after);
  CHECK((after->mode & 07777) == 0750);
  CHECK(after->mtime_ns == before->mtime_ns);
  const auto link = read_link_at(AT_FDCWD, dir / "out/link");
  REQUIRE(link);
  CHECK(*link == "sub/model.safetensors");

  REQUIRE(make_symlink("../outside", dir / "in/away"));
  report = pack_one(dir / "in", dir / "out2");
  REQUIRE(report.first_error() != nullptr);
  CHECK(report.first_error()->message().find("--follow") != std::string::npos);
  CHECK(unpacked(dir / "out2/blob.brv") == model);  // the others are packed all the same
  PackOptions follow;
  follow.follow_links = true;
  CHECK(pack_one(dir / "in", dir / "out3", follow).first_error() == nullptr);
  CHECK(test::read_file(dir / "out3/away").size() == 4);
}

TEST_CASE("links that lead back above themselves end, and what they lead to beside the tree is packed once") {
  test::TempDir dir;
  const auto model = test::safetensors_bytes(test::mixed_model(7));
  REQUIRE(make_directories(dir / "top/in/sub"));
  test::write_file(dir / "top/in/sub/m.safetensors", model);
  test::write_file(dir / "top/beside", "here");
  for (const char* name : {"in/a", "in/sub/b"}) REQUIRE(make_symlink(dir / "top", dir / ("top/" + std::string(name))));
  REQUIRE(make_symlink("/dev/null", dir / "top/in/device"));
  PackOptions follow;
  follow.follow_links = true;
  const auto report = pack_one(dir / "top/in", dir / "out", follow);
  REQUIRE(report.first_error() != nullptr);
  CHECK(report.first_error()->message().find("above itself") != std::string::npos);
  CHECK(unpacked(dir / "out/sub/m.safetensors.brv") == model);
  CHECK(test::read_file(dir / "out/a/beside").size() == 4);
  CHECK(test::read_file(dir / "out/sub/b/beside").size() == 4);
  CHECK(report.files.size() == 6);  // each link led to a file and a loop; the model; the device, left out
  CHECK(std::count_if(report.files.begin(), report.files.end(), [](const auto& file) {
          return file.action == PackAction::skipped && !file.warning.empty();
        }) == 1);
}

TEST_CASE("side files come back, whatever their text, and numbered entries cost little") {
  std::string numbered = "{\"vocab\": {", mixed;
  test::Random random(31);
  for (unsigned i = 0; i < 20000; ++i) {
    std::string word;
    for (uint64_t n = 1 + random.below(9); n > 0; --n) word += static_cast<char>('a' + random.below(26));
    numbered += "\"" + word + "\": " + std::to_string(i) + ", ";
    mixed += word + (i % 700 == 0 ? std::string("\xff\0", 2) : i % 9 == 0 ? " " + std::to_string(i) + "\n" : "\n");
  }
  for (const std::string& text : {numbered, mixed, numbered + mixed, mixed.substr(0, 70001), std::string("42")}) {
    check_round_trip({text.begin(), text.end()}, {}, "tokenizer.json");
    PackOptions small;
    small.frame_bytes = 4096;
    check_round_trip({text.begin(), text.begin() + std::min<ptrdiff_t>(50000, std::ssize(text))}, small, "vocab.json");
  }
  test::TempDir dir;
  test::write_file(dir / "v.json", ByteVector(numbered.begin(), numbered.end()));
  // Five letters a word, 4.7 bits each, and its length: the rest is next to nothing.
  CHECK(pack_one(dir / "v.json", dir / "v.brv").bytes_out < 20000 * 9 / 2);
}

TEST_CASE("a program of the user's is used, and refused when it is none") {
  test::TempDir dir;
  const auto file =
      test::safetensors_bytes({test::flat_tensor("w", Dtype::BF16, test::gaussian_words(Dtype::BF16, 50000, 1))});
  PackOptions options;
  options.programs["BF16"] = "merge(1, 8, 7; literal, literal(huffman), literal)";
  check_round_trip(file, options);
  options.sources = {"x"};
  for (const char* none : {"merge(1, 8, 8; literal, literal, literal)", "combine(xor; literal, base)",
                           "update(order, 7, 8; base, literal, literal, literal, literal)", "map(xor, 1; base)"}) {
    CAPTURE(none);
    options.programs["BF16"] = none;
    CHECK_FALSE(pack_files(options));
  }
}

TEST_CASE("a program of the user's that does not express a tensor is passed over") {
  std::vector<uint32_t> words(100000);
  std::iota(words.begin(), words.end(), 0u);
  ByteVector bytes(words.size() * 4);
  std::memcpy(bytes.data(), words.data(), bytes.size());
  bytes[40] ^= 1;  // no ramp
  const auto file = test::safetensors_bytes({test::flat_tensor("w", Dtype::U32, bytes)});
  for (const char* program : {"patch(ramp(0, 1), literal, literal)", "combine(xor; literal, ramp(0, 1))",
                              "patch(constant(7), literal, literal)", "merge(16, 16; ramp(0, 0), literal)"}) {
    CAPTURE(program);
    PackOptions options;
    options.programs["U32"] = program;
    check_round_trip(file, options);
  }
}

TEST_CASE("a table is never shared with a stream of words of another width") {
  // The same program over few words of 16 and of 32 bits.
  ByteVector narrow(2 * 60000), wide(4 * 40000);
  for (size_t i = 0; i < narrow.size(); i += 2) narrow[i] = i % 14 == 0 ? 1 : 0, narrow[i + 1] = i % 22 == 0 ? 0x80 : 0;
  for (size_t i = 0; i < wide.size(); i += 4) wide[i] = i % 28 == 0 ? 1 : 0, wide[i + 3] = i % 44 == 0 ? 0x80 : 0;
  PackOptions options;
  for (const char* dtype : {"I16", "I32"}) options.programs[dtype] = "literal(rans)";
  check_round_trip(
      test::safetensors_bytes({test::flat_tensor("a", Dtype::I32, wide), test::flat_tensor("b", Dtype::I16, narrow)}),
      options);
  check_round_trip(
      test::safetensors_bytes({test::flat_tensor("a", Dtype::I16, narrow), test::flat_tensor("b", Dtype::I32, wide)}),
      options);
}

TEST_CASE("bundles keep the overhead of thousands of tiny tensors small") {
  std::vector<test::TensorSpec> tensors;
  const auto words = test::gaussian_words(Dtype::BF16, 512 * 3000, 9);
  for (size_t i = 0; i < 3000; ++i)
    tensors.push_back(
        test::flat_tensor("block." + std::to_string(i) + ".bias", Dtype::BF16,
                          ByteVector(words.begin() + 1024 * long(i), words.begin() + 1024 * long(i + 1))));
  const auto file = test::safetensors_bytes(tensors);
  test::TempDir dir;
  test::write_file(dir / "m.safetensors", file);
  const auto report = pack_one(dir / "m.safetensors", dir / "m.brv");
  CHECK(unpacked(dir / "m.brv") == file);
  const double weights_bits = 10.53 * 512 * 3000;
  CHECK(double(report.bytes_out) < weights_bits / 8 + 3000 * 48.0);
}

TEST_CASE("a long tensor whose scale drifts gets a set of tables, and frames pick among them") {
  ByteVector words;
  for (const double deviation : {0.02, 0.0001, 3.0, 0.5}) {
    const auto part = test::gaussian_words(Dtype::BF16, 1 << 20, 3, deviation);
    words.insert(words.end(), part.begin(), part.end());
  }
  const auto file = test::safetensors_bytes({test::flat_tensor("w", Dtype::BF16, words)});
  test::TempDir dir;
  test::write_file(dir / "m.safetensors", file);
  const auto report = pack_one(dir / "m.safetensors", dir / "m.brv");
  CHECK(unpacked(dir / "m.brv") == file);
  CHECK(8.0 * double(report.bytes_out) / double(words.size() / 2) < 10.56);
  auto opened = File::open(dir / "m.brv");
  REQUIRE(opened);
  auto reader = archive::Reader::open(std::move(*opened));
  REQUIRE(reader);
  size_t largest = 0;
  for (const auto& record : (*reader)->manifest().records)
    for (const auto& binding : record.bindings) largest = std::max(largest, binding.size());
  CHECK(largest > 1);
}

TEST_CASE("Z04: equal small tensors of a bundle are stored once, unequal ones of one length are not") {
  std::vector<test::TensorSpec> tensors;
  for (int i = 0; i < 60; ++i)
    tensors.push_back(test::flat_tensor("n." + std::to_string(i) + ".weight", Dtype::F16,
                                        test::random_bytes(4000, static_cast<uint64_t>(i % 3))));
  const auto file = test::safetensors_bytes(tensors);
  test::TempDir dir;
  test::write_file(dir / "m.safetensors", file);
  const auto report = pack_one(dir / "m.safetensors", dir / "m.brv");
  CHECK(unpacked(dir / "m.brv") == file);
  CHECK(report.files[0].duplicate_tensors == 57);
  CHECK(report.files[0].duplicate_bytes == 57 * 4000);
  CHECK(report.bytes_out < 3 * 4000 + 1500);
}

TEST_CASE("what workers foresee by another mate changes no archive") {
  test::TempDir dir;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    CAPTURE(seed);
    // Pruned weights: what samples tell of them is compared with what a mate's program would cost.
    std::vector<test::TensorSpec> tensors;
    for (uint64_t i = 0; i < 4; ++i)
      tensors.push_back({"model.layers." + std::to_string(i) + ".w.weight",
                         Dtype::BF16,
                         {100, 100},
                         test::zero_heavy_words(Dtype::BF16, 10000, 4 * seed + i, 800)});
    test::write_file(dir / "m.safetensors", test::safetensors_bytes(tensors));
    std::vector<ByteVector> archives;
    for (const unsigned jobs : {1u, 2u, 3u}) {
      PackOptions options;
      options.jobs = jobs;
      options.force = true;
      pack_one(dir / "m.safetensors", dir / "x.brv", std::move(options));
      archives.push_back(test::read_file(dir / "x.brv"));
    }
    CHECK(archives[1] == archives[0]);
    CHECK(archives[2] == archives[0]);
  }
}
