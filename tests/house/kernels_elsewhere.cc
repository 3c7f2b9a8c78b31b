// SPDX-License-Identifier: Apache-2.0
//
// The kernels that a CPU of another kind has beside the scalar ones, held to those: a program of src/bits alone, which
// can be built for that CPU without any of its libraries and run under an emulator. The laws of the kernels say the
// same in full where they can run.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "bits/kernels.h"

using namespace brevis::bits;

namespace {

uint64_t next_random() {
  static uint64_t state = 1;
  state = state * 6364136223846793005 + 1442695040888963407;
  return state >> 24;
}

std::vector<uint8_t> random_bytes(size_t count) {
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(next_random());
  return bytes;
}

bool unpacks_alike(const Kernels& kernels, unsigned b, unsigned width, size_t count) {
  const std::vector<uint8_t> in = random_bytes((count * b + 7) / 8);
  OwnedWords out(width, count), truth(width, count);
  kernels.unpack(in.data(), b, out.words());
  all_kernels().front().unpack(in.data(), b, truth.words());
  return count == 0 || std::memcmp(out.view().data, truth.view().data, truth.view().bytes()) == 0;
}

bool merges_alike(const Kernels& kernels, size_t by_width, size_t count) {
  const unsigned width = 8u << by_width;
  FieldMerge merge{};
  std::vector<std::vector<uint8_t>> packed;
  std::vector<OwnedWords> lanes;
  unsigned at = static_cast<unsigned>(next_random() % 3);
  merge.fixed = next_random() & low_mask(at);
  packed.reserve(FieldMerge::kMaxFields);
  lanes.reserve(FieldMerge::kMaxFields);
  while (at < width && packed.size() < FieldMerge::kMaxFields && lanes.size() < FieldMerge::kMaxFields) {
    const unsigned b = 1 + static_cast<unsigned>(next_random() % (width - at));
    if (next_random() % 2 == 0 && b != width) {
      packed.push_back(random_bytes((count * b + 7) / 8));
      merge.packed[merge.packed_count++] = {packed.back().data(), packed.back().size(), b, at};
    } else {
      lanes.emplace_back(b, count);
      for (size_t i = 0; i < count; ++i) lanes.back().words().set(i, next_random() & low_mask(b));
      merge.lanes[merge.lane_count++] = {lanes.back().view(), at};
    }
    at += b;
  }
  std::vector<uint8_t> out(count * width / 8 + 1), truth(out.size());
  kernels.merge_fields[by_width](merge, out.data(), count);
  all_kernels().front().merge_fields[by_width](merge, truth.data(), count);
  return out == truth;
}

}  // namespace

int main() {
  size_t wrong = 0;
  for (const Kernels& kernels : all_kernels()) {
    for (unsigned width = 1; width <= 64; ++width)
      for (unsigned b = 1; b <= width; ++b) wrong += !unpacks_alike(kernels, b, width, next_random() % 200);
    for (unsigned trial = 0; trial < 3000; ++trial) wrong += !merges_alike(kernels, trial % 3, next_random() % 200);
    std::printf("%s\n", std::string(kernels.name).c_str());
  }
  if (wrong != 0) std::fprintf(stderr, "%zu results differ from scalar code\n", wrong);
  return wrong == 0 ? 0 : 1;
}
