// SPDX-License-Identifier: Apache-2.0
//
// A directory of a test's own, removed with everything in it at the end; and whole files in one call.
//
// Errors:  std::runtime_error, which ends the test case. Threads: one. Owns: the directory.
#pragma once

#include <string>
#include <string_view>

#include "brevis/types.h"

namespace brevis::test {

class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  // dir / "name": a path inside.
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

// Creates or replaces a file; missing parent directories are made.
void write_file(const std::string& path, ByteSpan bytes);
void write_file(const std::string& path, std::string_view text);
ByteVector read_file(const std::string& path);
bool exists(const std::string& path);
// Names in a directory, sorted.
std::vector<std::string> names_in(const std::string& path);

inline ByteSpan as_bytes(std::string_view text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }

}  // namespace brevis::test
