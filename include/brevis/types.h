// SPDX-License-Identifier: Apache-2.0
//
// The small value types that every face of Brevis speaks: byte spans, byte ranges, digests and dtypes.
//
// Threads: values; the dtype table is constant.
// Owns:    spans are borrowed for the call they are passed to, never kept.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace brevis {

using ByteSpan = std::span<const uint8_t>;
using MutByteSpan = std::span<uint8_t>;
using ByteVector = std::vector<uint8_t>;

// A half-open span of bytes [offset, offset + length).
struct Range {
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t end() const { return offset + length; }
  friend bool operator==(const Range&, const Range&) = default;
};

// XXH3-128 of some bytes.
struct Digest {
  uint64_t low = 0;
  uint64_t high = 0;
  friend auto operator<=>(const Digest&, const Digest&) = default;
};

using Sha256 = std::array<uint8_t, 32>;

// 32 lower-case hex digits, the high word first (the form the xxhsum program prints).
std::string to_hex(const Digest& digest);
std::string to_hex(ByteSpan bytes);

enum class Dtype : uint8_t {
  unknown = 0,  // a spelling this build does not know: its bytes are treated as u8 words
#define DTYPE(id, name, bits, sign, exponent, mantissa) name = id,
#include "brevis/dtypes.def"
#undef DTYPE
};

struct DtypeInfo {
  Dtype id;
  std::string_view name;                            // safetensors spelling
  uint8_t bits;                                     // of one element
  uint8_t sign_bits, exponent_bits, mantissa_bits;  // 0, 0, 0 where the word is no single float

  // Width of the words a tensor of this dtype is read as: `bits`, or 8 for elements smaller than a byte.
  unsigned word_bits() const { return bits < 8 ? 8 : bits; }
  bool is_float() const { return exponent_bits != 0 && bits >= 8; }
};

// Every known dtype, by ascending id.
std::span<const DtypeInfo> all_dtypes();
// `unknown` gives an entry named "unknown" of 8 bits.
const DtypeInfo& dtype_info(Dtype dtype);
// Case counts. nullopt for spellings that are not in the table.
std::optional<Dtype> dtype_from_name(std::string_view name);

}  // namespace brevis
