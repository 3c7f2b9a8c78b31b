// SPDX-License-Identifier: Apache-2.0
//
// cast(kind; P): a float widened exactly, by bit moves and never by the FPU, which would quiet signalling NaNs. For
// checkpoints that were trained narrow and saved wide.
//
// Params:   kind, NARROW_WIDE.
// Children: P of the narrow width, as long as the node's stream.
// Word:     with sign s, exponent e and fraction f of P[i], E and F the exponent and fraction bits of the types and
//           B = 2^(E-1) - 1 their biases, out[i] has the same sign and
//   e = 0, f = 0           exponent 0, fraction 0
//   infinities and NaNs    exponent all ones, fraction f << (Fwide - Fnarrow)
//   e = 0, Ewide = Enarrow exponent 0, fraction f << (Fwide - Fnarrow)
//   e = 0, Ewide > Enarrow with k = position of f's highest one: exponent k - Fnarrow + 1 - Bnarrow + Bwide,
//                          fraction (f - 2^k) << (Fwide - k)
//   otherwise              exponent e - Bnarrow + Bwide, fraction f << (Fwide - Fnarrow)
//           Infinities and NaNs are e all ones, but in f8_e4m3 only e and f all ones. Every map is injective.
#include <algorithm>
#include <array>

#include "dsl/histogram.h"
#include "dsl/ops/gate.h"
#include "dsl/ops/sample.h"

namespace brevis::dsl {
namespace {

struct Float {
  unsigned exponent, fraction;
  bool finite;  // exponent all ones holds numbers, but for the fraction all ones
  constexpr unsigned width() const { return 1 + exponent + fraction; }
  constexpr uint64_t top_exponent() const { return bits::low_mask(exponent); }
  constexpr uint64_t bias() const { return bits::low_mask(exponent - 1); }
  constexpr bool special(uint64_t e, uint64_t f) const {
    return e == top_exponent() && (!finite || f == bits::low_mask(fraction));
  }
};
constexpr Float kE4m3{4, 3, true}, kE5m2{5, 2, false}, kF16{5, 10, false}, kBf16{8, 7, false}, kF32{8, 23, false},
    kF64{11, 52, false};

struct Kind {
  Float narrow, wide;
};
// Index = parameter: the order is on disk.
constexpr Kind kKinds[] = {{kF16, kF32},   {kBf16, kF32}, {kF32, kF64},  {kE4m3, kF16}, {kE5m2, kF16}, {kE4m3, kBf16},
                           {kE5m2, kBf16}, {kE4m3, kF32}, {kE5m2, kF32}, {kF16, kF64},  {kBf16, kF64}};
constexpr std::string_view kNames[] = {"f16_f32",     "bf16_f32",     "f32_f64",      "f8_e4m3_f16",
                                       "f8_e5m2_f16", "f8_e4m3_bf16", "f8_e5m2_bf16", "f8_e4m3_f32",
                                       "f8_e5m2_f32", "f16_f64",      "bf16_f64"};
static_assert(std::size(kKinds) == std::size(kNames));

constexpr uint64_t widen(const Kind& kind, uint64_t word) {
  const Float &narrow = kind.narrow, &wide = kind.wide;
  const uint64_t s = word >> (narrow.width() - 1);
  const uint64_t e = word >> narrow.fraction & narrow.top_exponent();
  const uint64_t f = word & bits::low_mask(narrow.fraction);
  const unsigned gain = wide.fraction - narrow.fraction;
  uint64_t exponent = e + wide.bias() - narrow.bias(), fraction = f << gain;
  if (narrow.special(e, f)) {
    exponent = wide.top_exponent();
  } else if (e == 0 && (f == 0 || narrow.exponent == wide.exponent)) {
    exponent = 0;
  } else if (e == 0) {
    const unsigned k = static_cast<unsigned>(std::bit_width(f)) - 1;
    exponent = wide.bias() - narrow.bias() + 1 + k - narrow.fraction;
    fraction = (f - (uint64_t{1} << k)) << (wide.fraction - k);
  }
  return s << (wide.width() - 1) | exponent << wide.fraction | fraction;
}

// The one narrow word that could widen to `word`; whether it does is for the caller to see.
constexpr uint64_t narrow_candidate(const Kind& kind, uint64_t word) {
  const Float &narrow = kind.narrow, &wide = kind.wide;
  const uint64_t s = word >> (wide.width() - 1) << (narrow.width() - 1);
  const uint64_t e = word >> wide.fraction & wide.top_exponent();
  const uint64_t f = word & bits::low_mask(wide.fraction);
  const unsigned gain = wide.fraction - narrow.fraction;
  if (e == wide.top_exponent()) return s | narrow.top_exponent() << narrow.fraction | f >> gain;
  if (narrow.exponent == wide.exponent) return s | e << narrow.fraction | f >> gain;
  const uint64_t least = wide.bias() - narrow.bias() + 1;  // exponent of the smallest normal number of the narrow type
  if (e >= least) return s | (((e - least + 1) & narrow.top_exponent()) << narrow.fraction) | f >> gain;
  const uint64_t below = least - e;  // 1: the fraction's highest bit is its leading one
  if (e == 0 || below > narrow.fraction) return s;
  return s | (uint64_t{1} << wide.fraction | f) >> (gain + below);
}

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  BREVIS_TRY(expect_params(node, 1));
  BREVIS_TRY(expect_arity(arity, 1));
  if (node.params[0] >= std::size(kKinds)) return gate_error("unknown kind " + std::to_string(node.params[0]));
  const Kind& kind = kKinds[node.params[0]];
  if (kind.wide.width() != node.width)
    return gate_error(std::string(kNames[node.params[0]]) + " gives words of " + std::to_string(kind.wide.width()) +
                      " bits, not " + std::to_string(node.width));
  return std::vector<uint8_t>{static_cast<uint8_t>(kind.narrow.width())};
}

// Calls f with the kind as a constant, so that its loops know every shift.
template <size_t I = 0, class F>
decltype(auto) visit_kind(uint64_t kind, F&& f) {
  if constexpr (I + 1 < std::size(kKinds)) {
    if (kind != I) return visit_kind<I + 1>(kind, f);
  }
  return f(std::integral_constant<size_t, I>{});
}

template <size_t I>
using NarrowLane = std::conditional_t<kKinds[I].narrow.width() == 8, uint8_t,
                                      std::conditional_t<kKinds[I].narrow.width() == 16, uint16_t, uint32_t>>;
template <size_t I>
using WideLane = std::conditional_t<kKinds[I].wide.width() == 16, uint16_t,
                                    std::conditional_t<kKinds[I].wide.width() == 32, uint32_t, uint64_t>>;

Status run(const NodeArgs& args, std::span<const bits::ConstWords> in, bits::Words out) {
  visit_kind(args.node.params[0], [&]<size_t I>(std::integral_constant<size_t, I>) {
    using Narrow = NarrowLane<I>;
    using Wide = WideLane<I>;
    const std::span<const Narrow> from = in[0].as<Narrow>();
    Wide* to = out.as<Wide>().data();
    if constexpr (kKinds[I].narrow.exponent == kKinds[I].wide.exponent) {
      constexpr unsigned kGain = kKinds[I].wide.fraction - kKinds[I].narrow.fraction;
      for (size_t i = 0; i < from.size(); ++i) to[i] = static_cast<Wide>(static_cast<Wide>(from[i]) << kGain);
    } else if constexpr (sizeof(Narrow) == 1) {
      std::array<Wide, 256> table;
      for (unsigned word = 0; word < 256; ++word) table[word] = static_cast<Wide>(widen(kKinds[I], word));
      for (size_t i = 0; i < from.size(); ++i) to[i] = table[from[i]];
    } else {
      for (size_t i = 0; i < from.size(); ++i) to[i] = static_cast<Wide>(widen(kKinds[I], from[i]));
    }
  });
  return {};
}

Result<bool> invert(const NodeArgs& args, bits::ConstWords target, std::vector<bits::OwnedWords>& children,
                    std::vector<uint64_t>&) {
  return visit_kind(args.node.params[0], [&]<size_t I>(std::integral_constant<size_t, I>) {
    const std::span<const WideLane<I>> from = target.as<WideLane<I>>();
    children.clear();
    children.emplace_back(kKinds[I].narrow.width(), target.count);
    NarrowLane<I>* to = children[0].words().template as<NarrowLane<I>>().data();
    for (size_t i = 0; i < from.size(); ++i) {
      const uint64_t word = narrow_candidate(kKinds[I], from[i]);
      if (widen(kKinds[I], word) != from[i]) return false;
      to[i] = static_cast<NarrowLane<I>>(word);
    }
    return true;
  });
}

bool push_down(const NodeArgs& args, const codec::Histogram& target,
               std::vector<std::optional<codec::Histogram>>& children) {
  const Kind& kind = kKinds[args.node.params[0]];
  codec::Histogram narrow{kind.narrow.width(), {}};
  for (const auto& [word, count] : target.counts) {
    const uint64_t candidate = narrow_candidate(kind, word);
    if (widen(kind, candidate) != word) return false;
    narrow.counts.emplace_back(candidate, count);
  }
  std::sort(narrow.counts.begin(), narrow.counts.end());
  children.clear();
  children.emplace_back(std::move(narrow));
  return true;
}

constexpr Dtype kNarrow[] = {Dtype::F16,     Dtype::BF16,    Dtype::F32,     Dtype::F8_E4M3,
                             Dtype::F8_E5M2, Dtype::F8_E4M3, Dtype::F8_E5M2, Dtype::F8_E4M3,
                             Dtype::F8_E5M2, Dtype::F16,     Dtype::BF16};
constexpr Dtype kWide[] = {Dtype::F32,  Dtype::F32, Dtype::F64, Dtype::F16, Dtype::F16, Dtype::BF16,
                           Dtype::BF16, Dtype::F32, Dtype::F32, Dtype::F64, Dtype::F64};
static_assert(std::size(kNarrow) == std::size(kKinds) && std::size(kWide) == std::size(kKinds));

// The narrowest type that has all words of the sample.
void propose(const Target& target, std::vector<Proposal>& out) {
  if (target.histogram->counts.size() < 2) return;
  std::optional<uint64_t> best;
  for (uint64_t kind = 0; kind < std::size(kKinds); ++kind) {
    if (kWide[kind] != target.dtype || kKinds[kind].wide.width() != target.width) continue;
    if (best && kKinds[*best].narrow.width() <= kKinds[kind].narrow.width()) continue;
    const bool all =
        std::all_of(target.histogram->counts.begin(), target.histogram->counts.end(), [&](const auto& entry) {
          return widen(kKinds[kind], narrow_candidate(kKinds[kind], entry.first)) == entry.first;
        });
    if (all) best = kind;
  }
  if (best) out.push_back({{*best}, {kNarrow[*best]}});
}

}  // namespace

const OpSpec cast_op = {
    .id = OpId::cast,
    .name = "cast",
    .since = 1,
    .place = Place::region,
    .keywords = kNames,
    .child_widths = child_widths,
    .child_lengths = equal_lengths,
    .in_step = 1,
    .run = run,
    .invert = invert,
    .push_down = push_down,
    .propose = propose,
};

}  // namespace brevis::dsl
