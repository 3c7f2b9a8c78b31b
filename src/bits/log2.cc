// SPDX-License-Identifier: Apache-2.0
#include "bits/log2.h"

namespace brevis::bits {

constinit const std::array<uint32_t, (size_t{1} << kLog2TableBits) + 1> log2_table = [] {
  std::array<uint32_t, (size_t{1} << kLog2TableBits) + 1> logs{};
  for (size_t i = 1; i < logs.size(); ++i) logs[i] = log2_fixed(i);
  return logs;
}();

constinit const std::array<uint32_t, (size_t{1} << kLog2TableBits) + 1> weighed_log2_table = [] {
  std::array<uint32_t, (size_t{1} << kLog2TableBits) + 1> out{};
  for (size_t i = 1; i < out.size(); ++i) out[i] = static_cast<uint32_t>(i * log2_fixed(i));
  return out;
}();
static_assert((size_t{1} << kLog2TableBits) * kLog2TableBits << kLog2Bits <= UINT32_MAX);

}  // namespace brevis::bits
