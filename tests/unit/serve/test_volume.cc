// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <future>
#include <map>

#include "served_tree.h"
#include "support/safetensors_writer.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::test;

namespace {

using Names = std::vector<std::string>;

ByteVector slice(const ByteVector& all, Range range) {
  if (range.offset >= all.size()) return {};
  const uint64_t end = range.offset + std::min<uint64_t>(range.length, all.size() - range.offset);
  return {all.begin() + static_cast<ptrdiff_t>(range.offset), all.begin() + static_cast<ptrdiff_t>(end)};
}

Result<std::shared_ptr<FileHandle>> open_then(Volume& volume, NodeId node) {
  const auto answer = std::make_shared<std::promise<Result<std::shared_ptr<FileHandle>>>>();
  auto future = answer->get_future();
  volume.open_file_then(node, [answer](auto file) { answer->set_value(std::move(file)); });
  return future.get();
}

}  // namespace

TEST_CASE("model: a served tree equals a plain one") {
  ServedTree tree;
  std::map<std::string, ByteVector> expected;
  const auto add = [&](const std::string& name, ByteVector bytes, bool packed) {
    if (packed) {
      tree.pack(name, bytes);
    } else {
      tree.put(name, bytes);
    }
    expected[name] = std::move(bytes);
  };
  add("model.safetensors", safetensors_bytes(mixed_model(1)), true);
  add("sub/deep/other.safetensors", safetensors_bytes(mixed_model(2, 16), {}, 1), true);
  add("sub/random.bin", random_bytes(100'001, 3), true);
  add("sub/zeros.bin", constant_words(16, 40'000, 0), true);
  add("sub/ramp.bin", ramp_words(32, 20'000, 7, 3), true);
  add("empty", {}, true);
  add("one", {42}, true);
  add("config.json", random_bytes(333, 4), false);
  add("sub/plain.bin", random_bytes(50'000, 5), false);
  tree.serve({.memory = uint64_t{1} << 20});

  CHECK(tree.names() == Names{"config.json", "empty", "model.safetensors", "one", "sub"});
  CHECK(tree.names("sub") == Names{"deep", "plain.bin", "ramp.bin", "random.bin", "zeros.bin"});
  std::vector<std::string> names;
  std::map<std::string, std::shared_ptr<FileHandle>> open;
  for (const auto& [name, bytes] : expected) {
    names.push_back(name);
    const NodeAttr attr = tree.look(name);
    CHECK(attr.size == bytes.size());
    CHECK(S_ISREG(attr.mode));
    open[name] = tree.open(name);
    CHECK_MESSAGE(tree.contents(name) == bytes, name);
  }
  Rng random(6);
  for (int i = 0; i < 3000; ++i) {
    const std::string& name = names[random.below(names.size())];
    const ByteVector& bytes = expected[name];
    const Range range{random.below(bytes.size() + 10), random.below(uint64_t{1} << random.below(18))};
    const auto got = read_now(tree.volume(), open[name], range);
    REQUIRE(got.has_value());
    if (*got != slice(bytes, range)) FAIL(name << " at " << range.offset << " + " << range.length);
  }
  const VolumeCounters counters = tree.volume().counters();
  CHECK(counters.reads >= 3000);
  CHECK(counters.open_files == names.size());
  CHECK(counters.damaged_frames == 0);
}

TEST_CASE("attributes: the original's size, the archive's mode and times") {
  ServedTree tree;
  tree.pack("m", random_bytes(100'000, 1));
  tree.put("p", "plain");
  REQUIRE(::chmod((tree / "m.brv").c_str(), 0640) == 0);
  const timespec times[2] = {{1'500'000'000, 5}, {1'600'000'000, 123}};
  REQUIRE(::utimensat(AT_FDCWD, (tree / "m.brv").c_str(), times, 0) == 0);
  tree.serve();
  const NodeAttr attr = tree.look("m");
  CHECK(attr.mode == (S_IFREG | 0640));
  CHECK(attr.mtime_ns == 1'600'000'000'000'000'123);
  CHECK(attr.size == 100'000);
  CHECK(attr.blocks == 196);
  CHECK(attr.links == 1);
  CHECK(attr.uid == ::getuid());
  CHECK(tree.look("").id == kRootNode);
  CHECK(S_ISDIR(tree.look("").mode));
  // What list() says is what lookup() says.
  const auto listed = tree.volume().list(kRootNode).value();
  for (const VolumeEntry& entry : listed) {
    CHECK(entry.inode == tree.look(entry.name).inode);
    CHECK(entry.mode == S_IFREG);
  }
  // A chmod is seen, and changes neither node nor inode number.
  REQUIRE(::chmod((tree / "m.brv").c_str(), 0600) == 0);
  const NodeAttr again = tree.volume().attributes(attr.id).value();
  CHECK(again.mode == (S_IFREG | 0600));
  CHECK(again.inode == attr.inode);
  CHECK(tree.volume().handle_attributes(*tree.open("p")).size == 5);
}

TEST_CASE("M20: the header's bytes and the size are had without decoding data") {
  ServedTree tree;
  const ByteVector bytes = safetensors_bytes(mixed_model(1));
  tree.pack("m", bytes);
  tree.serve();
  tree.names();
  tree.look("m");
  CHECK(tree.volume().counters().open_archives == 0);
  const auto file = tree.open("m");
  CHECK(tree.volume().counters().frames_decoded == 0);
  CHECK(read_now(tree.volume(), file, {0, 8}).value() == slice(bytes, {0, 8}));
  uint64_t header = 0;
  for (int i = 7; i >= 0; --i) header = header << 8 | bytes[static_cast<size_t>(i)];
  CHECK(read_now(tree.volume(), file, {8, header}).value() == slice(bytes, {8, header}));
  CHECK(tree.volume().counters().frames_decoded == 1);
}

TEST_CASE("a replaced archive is a new file; whoever has the old one open keeps it") {
  ServedTree tree;
  const ByteVector before = random_bytes(80'000, 1), after = random_bytes(90'000, 2);
  tree.pack("m", before);
  Volume& volume = tree.serve();
  const NodeAttr old_attr = tree.look("m");
  auto file = tree.open("m");
  CHECK(read_now(volume, file, {0, 1000}).value() == slice(before, {0, 1000}));

  tree.pack("m", after);
  const NodeAttr new_attr = tree.look("m");
  CHECK(new_attr.id != old_attr.id);
  CHECK(new_attr.inode != old_attr.inode);
  CHECK(new_attr.size == 90'000);
  CHECK(tree.contents("m") == after);
  CHECK(read_now(volume, file, {0, 100'000}).value() == before);
  CHECK(volume.handle_attributes(*file).size == 80'000);
  // fstat asks for the node, without the handle.
  CHECK(volume.attributes(old_attr.id).value().size == 80'000);
  auto second = volume.open_file(old_attr.id);
  CHECK(second.has_value());
  second = make_error(Errc::cancelled, "closed");
  file.reset();
  CHECK(to_errno(volume.attributes(old_attr.id).error()) == ESTALE);
  CHECK(to_errno(volume.open_file(old_attr.id).error()) == ESTALE);
  volume.forget(old_attr.id, 2);
  CHECK(tree.contents("m") == after);
}

TEST_CASE("files that vanish: open ones read on, names are gone") {
  ServedTree tree;
  const ByteVector bytes = random_bytes(80'000, 1);
  tree.pack("m", bytes);
  tree.put("p", bytes);
  Volume& volume = tree.serve();
  for (const char* name : {"m", "p"}) {
    const NodeAttr attr = tree.look(name);
    auto file = tree.open(name);
    REQUIRE(::unlink((tree / (std::string(name) == "m" ? "m.brv" : "p")).c_str()) == 0);
    CHECK(tree.look_errno(name) == ENOENT);
    CHECK(read_now(volume, file, {70'000, 20'000}).value() == slice(bytes, {70'000, 20'000}));
    CHECK(volume.attributes(attr.id).value().size == 80'000);
    file.reset();
    CHECK(to_errno(volume.attributes(attr.id).error()) == ENOENT);
  }
  CHECK(tree.names().empty());
}

TEST_CASE("plain files are read as they are now") {
  ServedTree tree;
  tree.put("log", "one");
  Volume& volume = tree.serve();
  const NodeAttr attr = tree.look("log");
  const auto file = tree.open("log");
  CHECK(read_now(volume, file, {0, 100}).value().size() == 3);
  tree.put("log", "one two");  // in place: the same inode
  CHECK(read_now(volume, file, {3, 100}).value() == slice(ByteVector{' ', 't', 'w', 'o'}, {0, 4}));
  CHECK(volume.handle_attributes(*file).size == 7);
  CHECK(volume.attributes(attr.id).value().size == 7);
  CHECK(tree.look("log").inode == attr.inode);
  tree.put("log", "");
  CHECK(read_now(volume, file, {0, 100}).value().empty());
}

TEST_CASE(".brevis shows the raw tree, hidden from listings") {
  ServedTree tree;
  const ByteVector bytes = random_bytes(5'000, 1);
  tree.pack("sub/m", bytes);
  tree.put("plain", "text");
  tree.serve();
  CHECK(tree.names() == Names{"plain", "sub"});
  CHECK(tree.names(".brevis") == Names{"plain", "sub"});
  CHECK(tree.names(".brevis/sub") == Names{"m.brv"});
  CHECK(tree.contents(".brevis/sub/m.brv") == read_file(tree / "sub/m.brv"));
  CHECK(tree.look_errno(".brevis/sub/m") == ENOENT);
  CHECK(tree.look_errno("sub/m.brv") == ENOENT);
  CHECK(tree.look_errno("sub/.brevis") == ENOENT);
  CHECK(tree.look_errno(".brevis/.brevis") == ENOENT);
  CHECK(tree.look(".brevis/sub/m.brv").inode != tree.look("sub/m").inode);
  CHECK(tree.look(".brevis").inode != tree.look("").inode);
  CHECK(S_ISDIR(tree.look(".brevis").mode));
}

TEST_CASE("a damaged index: listed with size, EIO on open, both ways to open") {
  ServedTree tree;
  ByteVector archive = packed_bytes(random_bytes(50'000, 1));
  archive[archive.size() - 40] ^= 1;
  tree.put("m.brv", archive);
  Volume& volume = tree.serve();
  CHECK(tree.names() == Names{"m"});
  const NodeAttr attr = tree.look("m");
  CHECK(attr.size == 50'000);
  CHECK(to_errno(volume.open_file(attr.id).error()) == EIO);
  const auto opened = open_then(volume, attr.id);
  CHECK(to_errno(opened.error()) == EIO);
}

TEST_CASE("the nodes of a directory are found by its path, in both views") {
  ServedTree tree;
  tree.put("sub/file", "x");
  Volume& volume = tree.serve();
  CHECK(volume.known_directories("") == std::vector<NodeId>{kRootNode});
  CHECK(volume.known_directories("sub").empty());  // nobody looked it up
  const NodeId shown = tree.look("sub").id;
  CHECK(volume.known_directories("sub") == std::vector<NodeId>{shown});
  const NodeId raw = tree.look(".brevis/sub").id;
  CHECK(volume.known_directories("sub") == std::vector<NodeId>{shown, raw});
  CHECK(volume.known_directories("").size() == 2);
  CHECK(volume.known_directories("nowhere").empty());
  CHECK(volume.known_directories("sub/file").empty());
}

TEST_CASE("opening without waiting gives the same as waiting") {
  ServedTree tree;
  const ByteVector bytes = random_bytes(50'000, 1);
  tree.pack("m", bytes);
  tree.put("p", bytes);
  Volume& volume = tree.serve();
  for (const char* name : {"m", "p", "m"}) {
    const auto file = open_then(volume, tree.look(name).id).value();
    CHECK(read_now(volume, file, {0, 50'000}).value() == bytes);
  }
}

TEST_CASE("what cannot be opened, listed or found says so") {
  ServedTree tree;
  tree.put("sub/file", "x");
  REQUIRE(::symlink("sub/file", (tree / "link").c_str()) == 0);
  REQUIRE(::mkfifo((tree / "pipe").c_str(), 0600) == 0);
  Volume& volume = tree.serve();
  CHECK(to_errno(volume.open_file(tree.look("sub").id).error()) == EISDIR);
  CHECK(to_errno(volume.open_file(tree.look("link").id).error()) == EINVAL);
  CHECK(to_errno(volume.open_file(tree.look("pipe").id).error()) == EINVAL);
  CHECK(to_errno(volume.open_file(999).error()) == ENOENT);
  CHECK(to_errno(volume.list(tree.look("sub/file").id).error()) == ENOTDIR);
  CHECK(to_errno(volume.lookup(tree.look("sub/file").id, "x").error()) == ENOTDIR);
  CHECK(volume.link_target(tree.look("link").id).value() == "sub/file");
  CHECK_FALSE(volume.link_target(tree.look("sub").id));
  CHECK(volume.space().value().block_size > 0);
  CHECK(Volume::open({}).error().kind() == Errc::invalid_argument);
}

TEST_CASE("extended attributes tell what is behind a file") {
  ServedTree tree;
  const ByteVector bytes = constant_words(32, 30'000, 7);
  tree.pack("sub/m", bytes);
  tree.put("plain", "x");
  Volume& volume = tree.serve();
  const NodeId m = tree.look("sub/m").id;
  CHECK(volume.attribute_names(m).value().size() == 4);
  CHECK(volume.attribute(m, "user.brevis.archive").value() == "sub/m.brv");
  CHECK(volume.attribute(m, "user.brevis.format").value() == "1");
  CHECK(volume.attribute(m, "user.brevis.ratio").value().starts_with("0.0"));
  CHECK(volume.attribute(m, "user.brevis.sha256").value().size() == 64);
  CHECK(volume.attribute(m, "user.other").error().kind() == Errc::not_found);
  const NodeId plain = tree.look("plain").id;
  CHECK(volume.attribute_names(plain).value().empty());
  CHECK(volume.attribute(plain, "user.brevis.sha256").error().kind() == Errc::not_found);
}

TEST_CASE("handles may outlive the volume") {
  ServedTree tree;
  tree.pack("m", random_bytes(50'000, 1));
  tree.put("p", "x");
  tree.serve();
  const auto archive = tree.open("m"), plain = tree.open("p");
  tree.stop();
}

TEST_CASE("archives that appear and disappear while served") {
  ServedTree tree;
  tree.serve();
  CHECK(tree.names().empty());
  const ByteVector bytes = random_bytes(3'000, 1);
  tree.pack("m", bytes);
  CHECK(tree.contents("m") == bytes);
  tree.put("m", "the plain file wins");
  CHECK(tree.look("m").size == 19);
  REQUIRE(::unlink((tree / "m").c_str()) == 0);
  CHECK(tree.contents("m") == bytes);
  REQUIRE(::unlink((tree / "m.brv").c_str()) == 0);
  CHECK(tree.look_errno("m") == ENOENT);
  tree.volume().rescan();
  CHECK(tree.names().empty());
}

TEST_CASE("what was removed and is read by nobody leaves its room") {
  ServedTree tree;
  const ByteVector bytes = gaussian_words(Dtype::BF16, 4096, 1);
  for (const char* name : {"read", "left", "stays"}) tree.pack(name, bytes, 4096);
  Volume& volume = tree.serve();
  const auto open_and_gone = [] {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code failed;
      count += std::filesystem::read_symlink(entry.path(), failed).string().find("(deleted)") != std::string::npos;
    }
    return count;
  };
  const size_t before = open_and_gone();
  auto read = tree.open("read");
  for (const char* name : {"left", "stays"}) CHECK(tree.contents(name) == bytes);
  for (const char* name : {"read.brv", "left.brv"}) REQUIRE(::unlink((tree / name).c_str()) == 0);
  CHECK(open_and_gone() >= before + 2);
  volume.close_removed();
  CHECK(open_and_gone() >= before + 1);  // somebody has it open
  CHECK(read_now(volume, read, {0, bytes.size()}).value() == bytes);
  read.reset();
  volume.close_removed();
  CHECK(open_and_gone() == before);
  CHECK(tree.contents("stays") == bytes);
}
