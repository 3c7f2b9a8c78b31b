// SPDX-License-Identifier: Apache-2.0
#include "support/temp_dir.h"

#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>

namespace brevis::test {
namespace {

namespace fs = std::filesystem;

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

TempDir::TempDir() {
  path_ = (fs::temp_directory_path() / "brevis-test-XXXXXX").string();
  if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make " + path_);
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void write_file(const std::string& path, ByteSpan bytes) {
  if (const auto parent = fs::path(path).parent_path(); !parent.empty()) fs::create_directories(parent);
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "wb"));
  const bool written =
      file && (bytes.empty() || std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size());
  if (!written || std::fflush(file.get()) != 0) throw std::runtime_error("cannot write " + path);
}

void write_file(const std::string& path, std::string_view text) { write_file(path, as_bytes(text)); }

ByteVector read_file(const std::string& path) {
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
  if (!file) throw std::runtime_error("cannot read " + path);
  ByteVector bytes;
  uint8_t buffer[1 << 16];
  while (const size_t got = std::fread(buffer, 1, sizeof(buffer), file.get()))
    bytes.insert(bytes.end(), buffer, buffer + got);
  if (std::ferror(file.get()) != 0) throw std::runtime_error("cannot read " + path);
  return bytes;
}

bool exists(const std::string& path) { return fs::symlink_status(path).type() != fs::file_type::not_found; }

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace brevis::test
