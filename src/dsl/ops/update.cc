// SPDX-License-Identifier: Apache-2.0
//
// update(function, shift, bits; Q, P0, P1, P2, P3): Q, a base, and what changed since, each step from one of four
// programs by a field of Q's word. A step of training moves a large weight by fewer units of its last place than a
// small one: steps of small weights have tables of their own.
//
// Params:   function: combine's; shift, bits: the field of Q's words that says the class, bits 2..16, shift + bits <=
//           width.
// Slot:     a blob: varints, where the classes 1 to 3 begin, the first as it is, the others less the one before less 1;
//           below 2^bits.
// Children: Q of the node's width, as long as its stream; P0 to P3 of the node's width.
// Frame:    three counts, as for select.
// Word:     the class of word i is how many of the classes 1 to 3 begin at or below the field of Q[i]; with p the next
//           word, in turn, of that class's program, and p' = p for `xor`, map(zigzag) of p for the others, the word is
//           what combine makes of p' and Q[i].
// Refused:  counts other than the classes'.
#include "base/coding.h"
#include "bits/combine.h"
#include "dsl/ops/deal.h"
#include "dsl/update_fit.h"

namespace brevis::dsl {
namespace {

using bits::Combine;

constexpr std::string_view kFunctions[] = {"xor", "add", "sub", "order"};
constexpr uint64_t kMostBits = 16;

bool is_folded(Combine combine) { return combine != Combine::exclusive_or; }

struct Classes : Blob {
  std::array<uint32_t, kDealCounts> begins{};
  uint64_t bytes() const override { return sizeof(Classes); }
};

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  BREVIS_TRY(expect_params(node, 3));
  BREVIS_TRY(expect_arity(arity, 1 + kHands));
  const uint64_t shift = node.params[1], bits = node.params[2];
  if (node.params[0] >= std::size(kFunctions)) return gate_error("unknown function " + std::to_string(node.params[0]));
  if (bits < 2 || bits > kMostBits || bits > node.width || shift > node.width - bits)
    return gate_error("a field of " + std::to_string(bits) + " bits above bit " + std::to_string(shift) +
                      ": 2 to 16 bits of a word of " + std::to_string(node.width) + " are possible");
  return std::vector<uint8_t>(arity, node.width);
}

Status child_lengths(const Node& node, uint64_t n, std::span<const uint64_t> counts, std::span<uint64_t> lengths) {
  lengths[0] = n;
  return dealt_lengths(node, n, counts, lengths.subspan(1));
}

Result<std::shared_ptr<const Blob>> load(const Node& node, ByteSpan stored) {
  auto out = std::make_shared<Classes>();
  ByteReader reader(stored);
  const uint64_t most = bits::low_mask(static_cast<unsigned>(node.params[2]));
  uint64_t next = 0;
  for (uint32_t& begin : out->begins) {
    if (next > most) return corrupt_stream("classes of an update go on after the largest field");
    BREVIS_ASSIGN(const uint64_t step, reader.varint_up_to(most - next, "begin of an update's class"));
    begin = static_cast<uint32_t>(next + step);
    next += step + 1;
  }
  if (!reader.at_end()) return corrupt_stream("classes of an update do not end with their stored bytes");
  return std::shared_ptr<const Blob>(std::move(out));
}

void classify(const NodeArgs& args, bits::ConstWords base, uint8_t* out) {
  const auto& begins = static_cast<const Classes&>(*args.blob).begins;
  bits::kernels().classify(base, static_cast<unsigned>(args.node.params[1]),
                           bits::low_mask(static_cast<unsigned>(args.node.params[2])), begins.data(), out);
}

Status run(const NodeArgs& args, std::span<const bits::ConstWords> in, bits::Words out) {
  const Combine combine = static_cast<Combine>(args.node.params[0]);
  uint8_t classes[kDealTile];
  Hands from(in.subspan(1));
  for (size_t at = 0; at < out.count; at += kDealTile) {
    const size_t n = std::min(kDealTile, out.count - at);
    const bits::ConstWords base = in[0].part(at, n);
    const bits::Words tile = out.part(at, n);
    classify(args, base, classes);
    if (!from.take({classes, n}, tile)) return corrupt_stream("classes of steps and words disagree in number");
    bits::combine(combine, tile, base, tile, is_folded(combine));
  }
  return {};
}

// With no base at hand Q is all zeros.
Result<bool> invert(const NodeArgs& args, bits::ConstWords target, std::vector<bits::OwnedWords>& children,
                    std::vector<uint64_t>& counts) {
  const Combine combine = static_cast<Combine>(args.node.params[0]);
  bits::OwnedWords zeros(target.width, args.base.data == nullptr ? target.count : 0);
  const bits::ConstWords base = args.base.data == nullptr ? zeros.view() : args.base;
  bits::OwnedWords steps(target.width, target.count);
  bits::uncombine(combine, target, base, steps.words(), is_folded(combine));
  deal_out(
      steps.view(), [&](size_t at, std::span<uint8_t> out) { classify(args, base.part(at, out.size()), out.data()); },
      children, counts);
  children.insert(children.begin(), std::move(zeros));
  return true;
}

uint64_t entries(const Node&) { return kDealCounts; }

// Without a base there is nothing to fit to.
class NoFitter final : public Fitter {
 public:
  void add(uint64_t, bits::ConstWords) override {}
  ByteVector finish() override { return stored_classes({1, 2, 3}); }
};
std::unique_ptr<Fitter> fit(const Node&) { return std::make_unique<NoFitter>(); }

}  // namespace

const OpSpec update_op = {
    .id = OpId::update,
    .name = "update",
    .since = 1,
    .place = Place::region,
    .slot = SlotKind::blob,
    .counts = kDealCounts,
    .keywords = kFunctions,
    .child_widths = child_widths,
    .child_lengths = child_lengths,
    .in_step = 1,
    .run = run,
    .invert = invert,
    .blob_entries = entries,
    .load = load,
    .fit = fit,
    .feature = 1u << 7,
    .total = true,
};

}  // namespace brevis::dsl
