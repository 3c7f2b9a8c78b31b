// SPDX-License-Identifier: Apache-2.0
#include "codec/codec.h"

#include <array>

namespace brevis::codec {
namespace {

constexpr std::array kCodecs = {
#define CODEC(id, name, since) &name##_codec,
#include "codec/codecs.def"
#undef CODEC
};

}  // namespace

uint64_t Histogram::total() const {
  uint64_t sum = 0;
  for (const auto& [word, count] : counts) sum += count;
  return sum;
}

std::span<const CodecSpec* const> all_codecs() { return kCodecs; }

const CodecSpec* find_codec(uint64_t id) {
  for (const CodecSpec* spec : kCodecs)
    if (static_cast<uint64_t>(spec->id) == id) return spec;
  return nullptr;
}

const CodecSpec* find_codec(std::string_view name) {
  for (const CodecSpec* spec : kCodecs)
    if (spec->name == name) return spec;
  return nullptr;
}

Result<TablePtr> no_table_load(ByteSpan, unsigned) {
  return make_error(Errc::corrupt, "a table for a codec that has none");
}

Result<ByteVector> no_table_train(const Histogram&) {
  return make_error(Errc::not_found, "this codec works without a table");
}

}  // namespace brevis::codec
