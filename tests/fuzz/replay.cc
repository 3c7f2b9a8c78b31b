// SPDX-License-Identifier: Apache-2.0
//
// A plain driver for fuzz targets where there is no libFuzzer: runs the target over every file of the folders named,
// each file also cut short and with single bytes changed, so that a compiler without a fuzzer still walks the paths
// next to the corpus. Fails when a folder holds no file, since then it tested nothing.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "fuzz/fuzz.h"

namespace {

using Bytes = std::vector<uint8_t>;

void feed(const Bytes& bytes) { LLVMFuzzerTestOneInput(bytes.data(), bytes.size()); }

void feed_around(const Bytes& bytes) {
  feed(bytes);
  // Of a large input only some positions: replay belongs to the short tests.
  const size_t step = std::max<size_t>(1, bytes.size() / 256);
  for (size_t at = 0; at < bytes.size(); at += step) {
    feed(Bytes(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(at)));
    Bytes changed = bytes;
    for (const int value : {bytes[at] ^ 1, bytes[at] ^ 0x80, 0, 0xff}) {
      changed[at] = static_cast<uint8_t>(value);
      feed(changed);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  size_t files = 0;
  for (int i = 1; i < argc; ++i)
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream in(entry.path(), std::ios::binary);
      feed_around(Bytes(std::istreambuf_iterator<char>(in), {}));
      ++files;
    }
  std::printf("%zu inputs\n", files);
  return files == 0;
}
