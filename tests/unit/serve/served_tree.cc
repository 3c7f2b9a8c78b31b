// SPDX-License-Identifier: Apache-2.0
#include "served_tree.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <future>

#include "brevis/pack.h"

namespace brevis::test {

ByteVector packed_bytes(ByteSpan original, uint64_t frame_bytes) {
  const TempDir dir;
  write_file(dir / "original", original);
  PackOptions options;
  options.sources = {dir / "original"};
  options.target = dir / "packed.brv";
  options.jobs = 1;
  options.frame_bytes = frame_bytes;
  const auto report = pack_files(options);
  REQUIRE(report.has_value());
  if (const Error* error = report->first_error()) FAIL(error->message());
  return read_file(dir / "packed.brv");
}

ServedTree::ServedTree() {
  write_file(*this / "first", "x");
  REQUIRE(remove_file(*this / "first"));
  source_ = open_directory(dir_ / "source").value();
}

void ServedTree::pack(const std::string& name, ByteSpan original, uint64_t frame_bytes) {
  const std::string final_name = *this / (name + ".brv");
  write_file(final_name + ".new", packed_bytes(original, frame_bytes));
  REQUIRE(std::rename((final_name + ".new").c_str(), final_name.c_str()) == 0);
}

Volume& ServedTree::serve(VolumeOptions options) {
  volume_.reset();
  options.source_fd = source_.get();
  options.source_path = dir_ / "source";
  auto volume = Volume::open(options);
  REQUIRE(volume.has_value());
  volume_ = std::move(*volume);
  return *volume_;
}

Result<NodeAttr> walk(Volume& volume, std::string_view path) {
  BREVIS_ASSIGN(NodeAttr at, volume.attributes(kRootNode));
  while (!path.empty()) {
    const size_t slash = path.find('/');
    BREVIS_ASSIGN(at, volume.lookup(at.id, path.substr(0, slash)));
    path.remove_prefix(slash == path.npos ? path.size() : slash + 1);
  }
  return at;
}

NodeAttr ServedTree::look(std::string_view path) {
  auto found = walk(*volume_, path);
  if (!found) FAIL((std::string(path) + ": " + found.error().message()));
  return *found;
}

int ServedTree::look_errno(std::string_view path) {
  const auto found = walk(*volume_, path);
  return found ? 0 : to_errno(found.error());
}

std::vector<std::string> ServedTree::names(std::string_view path) {
  const auto listed = volume_->list(look(path).id);
  REQUIRE(listed.has_value());
  std::vector<std::string> names;
  for (const VolumeEntry& entry : *listed) names.push_back(entry.name);
  return names;
}

std::shared_ptr<FileHandle> ServedTree::open(std::string_view path) {
  auto file = volume_->open_file(look(path).id);
  if (!file) FAIL((std::string(path) + ": " + file.error().message()));
  return *file;
}

ByteVector ServedTree::contents(std::string_view path) {
  const auto file = open(path);
  auto bytes = read_now(*volume_, file, {0, volume_->handle_attributes(*file).size});
  if (!bytes) FAIL((std::string(path) + ": " + bytes.error().message()));
  return *bytes;
}

Result<ByteVector> read_now(Volume& volume, const std::shared_ptr<FileHandle>& file, Range range, bool direct) {
  // Shared: whoever answers may still be inside set_value() when the waiter has its value and goes.
  const auto answer = std::make_shared<std::promise<Result<ByteVector>>>();
  auto future = answer->get_future();
  volume.read(
      file, range,
      [answer](Result<ReadResult> result) {
        if (!result) return answer->set_value(std::move(result).error());
        ByteVector bytes;
        for (const ByteSpan part : result->parts) bytes.insert(bytes.end(), part.begin(), part.end());
        answer->set_value(std::move(bytes));
      },
      direct);
  return future.get();
}

}  // namespace brevis::test
