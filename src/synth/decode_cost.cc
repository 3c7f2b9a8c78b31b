// SPDX-License-Identifier: Apache-2.0
#include "synth/decode_cost.h"

#include "dsl/op.h"

namespace brevis::synth {
namespace {

struct Row {
  std::string_view op;
  uint64_t price;
};

// By name, so that operators may come and go: one that is missing costs kUnknown.
constexpr Row kTable[] = {
    {"literal", 0},    {"constant", 0}, {"ramp", 0},       {"merge", 0},     {"rank", 0},     {"palette", 1},
    {"map", 1},        {"cast", 1},     {"interleave", 2}, {"transpose", 3}, {"offset", 1},   {"scan", 4},
    {"zeros", 12},     {"runs", 8},     {"select", 10},    {"update", 10},   {"context", 30}, {"levels", 4},
    {"dequantise", 2}, {"concat", 0},   {"repeat", 0},     {"ref", 0},
};
// Streams that are dealt out end up in a quarter of the words each, which have fewer lanes: measured at 1 ns a word for
// `select`, 3 for `context`, whose classes also wait for words before them.
constexpr uint64_t kUnknown = 8;
constexpr uint64_t kOneByOne = 96;  // on top: a dozen nanoseconds instead of one or two

}  // namespace

uint64_t decode_cost(dsl::OpId op, const std::vector<uint64_t>& params) {
  const dsl::OpSpec& spec = dsl::spec_of(op);
  const uint64_t slow = spec.one_by_one != nullptr && spec.one_by_one({op, 64, params, {}}) ? kOneByOne : 0;
  for (const Row& row : kTable)
    if (row.op == spec.name) return row.price + slow;
  return kUnknown + slow;
}

uint64_t codec_decode_cost(codec::CodecId codec) {
  switch (codec) {
    case codec::CodecId::rans: return 26;
    case codec::CodecId::huffman: return 26;
    case codec::CodecId::zstd:
    case codec::CodecId::text: return 24;
    default: return 0;
  }
}

}  // namespace brevis::synth
