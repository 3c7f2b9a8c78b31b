// SPDX-License-Identifier: Apache-2.0
//
// select(shift, bits, stride, count, ..; P0, P1, P2, P3): an `offset` that keeps what its steps leave over. Steps are
// quarters of the field's unit; whole units move the field, and the quarters that remain say which program the word
// comes from, so that words whose scale differs by part of a binade have tables of their own. Steps below a unit alone
// make classes of places (rows, columns, phases) and move nothing.
//
// Params:   those of offset.
// Slot:     a blob, the steps of offset.
// Children: P0 to P3 of the node's width.
// Frame:    three counts: words of P0, P1, P2; P3 has the others.
// Word:     with S = 2 + the sum of the axes' steps: the next word of P(S mod 4), its field increased by floor(S / 4)
//           modulo 2^bits.
// Refused:  counts other than the classes'.
#include "bits/kernels.h"
#include "dsl/ops/deal.h"
#include "dsl/ops/offset.h"

namespace brevis::dsl {
namespace {

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  BREVIS_TRY(expect_arity(arity, kHands));
  BREVIS_TRY(expect_offset_params(node));
  return std::vector<uint8_t>(arity, node.width);
}

void classes_of(std::span<const int16_t> sums, uint8_t* out) {
  for (size_t i = 0; i < sums.size(); ++i) out[i] = static_cast<uint8_t>(sums[i] & 3);
}

Status run(const NodeArgs& args, std::span<const bits::ConstWords> in, bits::Words out) {
  const bits::FieldMove field = offset_field(args.node, false);
  int16_t sums[kDealTile];
  uint8_t classes[kDealTile];
  Hands from(in);
  for (size_t at = 0; at < out.count; at += kDealTile) {
    const size_t n = std::min(kDealTile, out.count - at);
    offset_sums(*args.blob, args.position + at, {sums, n});
    classes_of({sums, n}, classes);
    const bits::Words tile = out.part(at, n);
    if (!from.take({classes, n}, tile)) return corrupt_stream("classes of places and words disagree in number");
    bits::kernels().move_field(tile, field, sums, 0);
  }
  return {};
}

Result<bool> invert(const NodeArgs& args, bits::ConstWords target, std::vector<bits::OwnedWords>& children,
                    std::vector<uint64_t>& counts) {
  const bits::FieldMove field = offset_field(args.node, true);
  bits::OwnedWords moved(target.width, target.count);
  if (target.count != 0) std::memcpy(moved.words().data, target.data, target.bytes());
  deal_out(
      moved.view(),
      [&](size_t at, std::span<uint8_t> out) {
        int16_t sums[kDealTile];
        offset_sums(*args.blob, args.position + at, {sums, out.size()});
        classes_of({sums, out.size()}, out.data());
        bits::kernels().move_field(moved.words().part(at, out.size()), field, sums, 0);
      },
      children, counts);
  return true;
}

}  // namespace

const OpSpec select_op = {
    .id = OpId::select,
    .name = "select",
    .since = 1,
    .place = Place::region,
    .slot = SlotKind::blob,
    .counts = kDealCounts,
    .child_widths = child_widths,
    .child_lengths = dealt_lengths,
    .run = run,
    .invert = invert,
    .blob_entries = offset_steps,
    .load = load_offsets,
    .fit = fit_offset,
    .feature = 1u << 3,
    .total = true,
};

}  // namespace brevis::dsl
