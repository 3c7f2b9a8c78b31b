// SPDX-License-Identifier: Apache-2.0
//
// ref(offset): the bytes of the original file from `offset` on, as many as the stream needs, read as little-endian
// words of w bits, w a multiple of 8. That those bytes lie inside the file and are themselves free of refs is the
// archive's rule: this gate sees no file.
#include "dsl/op.h"
#include "dsl/plan.h"

namespace brevis::dsl {
namespace {

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  if (arity != 0) return make_error(Errc::invalid_argument, "has no children");
  if (node.params.size() != 1) return make_error(Errc::invalid_argument, "needs one parameter: a byte offset");
  if (node.width % 8 != 0)
    return make_error(Errc::invalid_argument, "words of " + std::to_string(node.width) + " bits are not whole bytes");
  return std::vector<uint8_t>{};
}

Status child_lengths(const Node& node, uint64_t n, std::span<const uint64_t>, std::span<uint64_t>) {
  if (n > (UINT64_MAX - node.params[0]) / (node.width / 8u))
    return make_error(Errc::corrupt, std::to_string(n) + " words from byte " + std::to_string(node.params[0]) +
                                         " on reach beyond 64 bits");
  return {};
}

Status plan(const Node& node, uint64_t n, uint64_t first, uint64_t count, PlanSink& sink) {
  BREVIS_TRY(child_lengths(node, n, {}, {}));
  const uint64_t bytes = node.width / 8u;
  if (count > 0) sink.ref(node.params[0] + first * bytes, count * bytes);
  return {};
}

}  // namespace

const OpSpec ref_op = {
    .id = OpId::ref,
    .name = "ref",
    .since = 1,
    .place = Place::skeleton,
    .child_widths = child_widths,
    .child_lengths = child_lengths,
    .feature = 1u << 0,
    .plan = plan,
};

}  // namespace brevis::dsl
