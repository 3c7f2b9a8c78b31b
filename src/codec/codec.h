// SPDX-License-Identifier: Apache-2.0
//
// How the words of a literal rest on disk. A codec turns one frame of one stream into payload bytes and back, helped by
// a table where it needs one (tables live in the archive's pool and are shared). docs/format.md defines every codec
// bit for bit; the scalar code is that definition, carried out.
//
// decode() is a gate on every call: a disk can rot after the archive was opened. It never reads outside the payload,
// never writes outside `out`, and gives `corrupt` whenever payload and end check disagree.
// Threads: specs are constants; a Table is immutable once loaded and shared freely.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "bits/words.h"
#include "brevis/error.h"
#include "brevis/types.h"

namespace brevis::codec {

enum class CodecId : uint8_t {
#define CODEC(id, name, since) name = id,
#include "codec/codecs.def"
#undef CODEC
};

// How often each word of a stream occurs: (word, count), ascending words, counts > 0.
struct Histogram {
  unsigned width = 8;
  std::vector<std::pair<uint64_t, uint64_t>> counts;

  uint64_t total() const;
};

// A table past its gate: what decode and encode of one codec need. Each codec derives its own.
class Table {
 public:
  virtual ~Table() = default;
};
using TablePtr = std::shared_ptr<const Table>;

struct CodecSpec {
  CodecId id;
  std::string_view name;
  uint16_t since;
  bool needs_table;

  // Whether streams of this width can be coded at all.
  bool (*accepts)(unsigned width);

  // --- reading side. `table` is null exactly when !needs_table.
  // The gate of a table's stored bytes, for streams of `width` bits. Errors: corrupt.
  Result<TablePtr> (*load)(ByteSpan stored, unsigned width);
  // Fills out.count words from exactly the payload. Errors: corrupt.
  Status (*decode)(const Table* table, ByteSpan payload, bits::Words out);

  // --- packing side.
  // The stored form of a table that suits the histogram, or not_found when this codec cannot serve it (for example a
  // single word of probability 1 under alias). Deterministic, integer arithmetic only.
  Result<ByteVector> (*train)(const Histogram& histogram);
  // Appends the payload of `in` (any count, also 0). Errors: invalid_argument when the table lacks a word of `in`.
  Status (*encode)(const Table* table, bits::ConstWords in, ByteVector& out);
  // Expected payload size in 1/256 bits of words drawn as in the histogram, all frame overheads (lane states, end
  // checks) left out; UINT64_MAX when the table lacks one of them. Integer arithmetic only.
  uint64_t (*estimate)(const Table* table, const Histogram& histogram);

  // Whether it lives on the order of words, of which a histogram tells nothing.
  bool by_order = false;
  // The required-feature bit of archives that use the codec (docs/format.md), 0 for those of the first version.
  uint32_t feature = 0;
};

// Every codec, by ascending id.
std::span<const CodecSpec* const> all_codecs();
// nullptr for ids and names that this build does not know.
const CodecSpec* find_codec(uint64_t id);
const CodecSpec* find_codec(std::string_view name);

#define CODEC(id, name, since) extern const CodecSpec name##_codec;
#include "codec/codecs.def"
#undef CODEC

// load and train of codecs without tables: corrupt, not_found.
Result<TablePtr> no_table_load(ByteSpan stored, unsigned width);
Result<ByteVector> no_table_train(const Histogram& histogram);

}  // namespace brevis::codec
