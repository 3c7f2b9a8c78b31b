// SPDX-License-Identifier: Apache-2.0
#include "support/golden.h"

#include <stdlib.h>

#include <algorithm>
#include <stdexcept>

#include "support/temp_dir.h"

namespace brevis::test {

std::string test_data(std::string_view relative) {
  const char* folder = ::getenv("BREVIS_TEST_DATA");
  if (folder == nullptr) throw std::runtime_error("BREVIS_TEST_DATA is not set: run the tests with `meson test`");
  return std::string(folder).append("/").append(relative);
}

std::string golden_difference(const std::string& name, ByteSpan bytes) {
  const std::string path = test_data("golden/v1/" + name);
  if (!exists(path)) {
    if (::getenv("BREVIS_ACCEPT") == nullptr) return "golden " + name + " is missing: tools/dev/accept.sh writes it";
    write_file(path, bytes);
    return "";
  }
  const ByteVector golden = read_file(path);
  const auto [a, b] = std::mismatch(golden.begin(), golden.end(), bytes.begin(), bytes.end());
  if (a == golden.end() && b == bytes.end()) return "";
  return "differs from golden " + name + " at byte " + std::to_string(a - golden.begin()) + " (" +
         std::to_string(golden.size()) + " bytes in the golden, " + std::to_string(bytes.size()) + " here)";
}

}  // namespace brevis::test
