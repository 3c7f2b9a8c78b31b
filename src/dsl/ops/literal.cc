// SPDX-License-Identifier: Apache-2.0
//
// literal(codec): words stored under a literal codec. The universal fallback: it expresses every stream, and every
// region ends in literals (or in nodes that store nothing).
//
// Params:   [codec id]; none at all makes a template, whose codec the packer chooses.
// Children: none.
// Frame:    payload length and payload, as the codec defines it (docs/format.md); the node has a slot when the codec
//           needs a table. exec decodes and encode encodes: run and invert stay empty here.
#include "dsl/ops/gate.h"

namespace brevis::dsl {
namespace {

constexpr std::string_view kCodecNames[] = {
#define CODEC(id, name, since) #name,
#include "codec/codecs.def"
#undef CODEC
};

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  BREVIS_TRY(expect_arity(arity, 0));
  if (node.params.empty()) return std::vector<uint8_t>{};
  BREVIS_TRY(expect_params(node, 1));
  const codec::CodecSpec* codec = codec::find_codec(node.params[0]);
  if (!codec)
    return make_error(Errc::unsupported,
                      "codec " + std::to_string(node.params[0]) + " is unknown to this build; a newer one may read it");
  if (!codec->accepts(node.width))
    return gate_error(std::string(codec->name) + " does not code words of " + std::to_string(node.width) + " bits");
  return std::vector<uint8_t>{};
}

}  // namespace

const OpSpec literal_op = {
    .id = OpId::literal,
    .name = "literal",
    .since = 1,
    .place = Place::region,
    .slot = SlotKind::codec_table,
    .keywords = kCodecNames,
    .child_widths = child_widths,
    .child_lengths = equal_lengths,
    .total = true,
};

}  // namespace brevis::dsl
