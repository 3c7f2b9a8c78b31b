// SPDX-License-Identifier: Apache-2.0
#include "brevis/types.h"

#include <algorithm>

namespace brevis {
namespace {

constexpr DtypeInfo kUnknown{Dtype::unknown, "unknown", 8, 0, 0, 0};

constexpr DtypeInfo kDtypes[] = {
#define DTYPE(id, name, bits, sign, exponent, mantissa) {Dtype::name, #name, bits, sign, exponent, mantissa},
#include "brevis/dtypes.def"
#undef DTYPE
};
static_assert(std::is_sorted(std::begin(kDtypes), std::end(kDtypes),
                             [](const DtypeInfo& a, const DtypeInfo& b) { return a.id < b.id; }));

constexpr char kHex[] = "0123456789abcdef";

}  // namespace

std::string to_hex(ByteSpan bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const uint8_t byte : bytes) {
    text += kHex[byte >> 4];
    text += kHex[byte & 15];
  }
  return text;
}

std::string to_hex(const Digest& digest) {
  std::string text;
  text.reserve(32);
  for (const uint64_t word : {digest.high, digest.low}) {
    for (int shift = 60; shift >= 0; shift -= 4) text += kHex[word >> shift & 15];
  }
  return text;
}

std::span<const DtypeInfo> all_dtypes() { return kDtypes; }

const DtypeInfo& dtype_info(Dtype dtype) {
  for (const auto& info : kDtypes) {
    if (info.id == dtype) return info;
  }
  return kUnknown;
}

std::optional<Dtype> dtype_from_name(std::string_view name) {
  for (const auto& info : kDtypes) {
    if (info.name == name) return info.id;
  }
  return std::nullopt;
}

}  // namespace brevis
