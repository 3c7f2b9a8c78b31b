// SPDX-License-Identifier: Apache-2.0
//
// map(f, arg; P): a bijection of words of w bits, applied to each word alone: out[i] = f(P[i]), modulo 2^w.
//
// Params:   f and its argument, 0 where it takes none.
//   xor c         p ^ c                                  c < 2^w
//   add c         p + c                                  c < 2^w
//   rotate r      p rotated left by r bits               r < w
//   gray          p ^ (p >> 1)                           P is the binary number of a Gray code
//   zigzag        (p >> 1) ^ -(p & 1)                    P is 0, 1, 2, 3, 4.. for 0, -1, 1, -2, 2..
//   reverse       bit 0 becomes bit w-1, and so on
//   sign_fold     p ^ 2^(w-1) if p has bit w-1, else ~p  P orders as the sign-magnitude floats out[i] do
// Children: P of the node's width, as long as its stream.
#include "dsl/histogram.h"
#include "dsl/ops/gate.h"
#include "dsl/ops/sample.h"

namespace brevis::dsl {
namespace {

enum Function : uint64_t { kXor, kAdd, kRotate, kGray, kZigzag, kReverse, kSignFold };
constexpr std::string_view kFunctions[] = {"xor", "add", "rotate", "gray", "zigzag", "reverse", "sign_fold"};

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  BREVIS_TRY(expect_params(node, 2));
  BREVIS_TRY(expect_arity(arity, 1));
  const uint64_t f = node.params[0], arg = node.params[1];
  if (f >= std::size(kFunctions)) return gate_error("unknown function " + std::to_string(f));
  const bool fits = f == kXor || f == kAdd ? arg <= bits::low_mask(node.width)
                    : f == kRotate         ? arg < node.width
                                           : arg == 0;
  if (!fits)
    return gate_error(std::string(kFunctions[f]) + " of " + std::to_string(node.width) + "-bit words does not take " +
                      std::to_string(arg));
  return std::vector<uint8_t>{node.width};
}

template <class T>
T reverse_bits(T word, unsigned width) {
  uint64_t x = word;
  x = (x >> 1 & 0x5555555555555555u) | (x & 0x5555555555555555u) << 1;
  x = (x >> 2 & 0x3333333333333333u) | (x & 0x3333333333333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0f0f0f0f0fu) | (x & 0x0f0f0f0f0f0f0f0fu) << 4;
  return static_cast<T>(__builtin_bswap64(x) >> (64 - width));
}

template <class T, class F>
void each(const T* in, T* out, size_t n, F f) {
  for (size_t i = 0; i < n; ++i) out[i] = f(in[i]);
}

// out[i] = f(in[i]), or f's inverse.
template <class T>
void apply(uint64_t f, uint64_t argument, unsigned width, bool inverse, const T* in, T* out, size_t n) {
  const T mask = static_cast<T>(bits::low_mask(width));
  const T sign = static_cast<T>(uint64_t{1} << (width - 1));
  const T arg = static_cast<T>(argument);
  switch (f) {
    case kXor: return each(in, out, n, [=](T p) { return static_cast<T>(p ^ arg); });
    case kAdd: {
      const T addend = inverse ? static_cast<T>(T{0} - arg) : arg;
      return each(in, out, n, [=](T p) { return static_cast<T>(static_cast<T>(p + addend) & mask); });
    }
    case kRotate: {
      const unsigned left = static_cast<unsigned>(inverse && argument != 0 ? width - argument : argument);
      if (left == 0) return each(in, out, n, [](T p) { return p; });
      return each(in, out, n, [=](T p) {
        return static_cast<T>(static_cast<T>(static_cast<T>(p << left) | static_cast<T>(p >> (width - left))) & mask);
      });
    }
    case kGray:
      if (!inverse) return each(in, out, n, [](T p) { return static_cast<T>(p ^ static_cast<T>(p >> 1)); });
      return each(in, out, n, [](T p) {
        for (unsigned s = 1; s < sizeof(T) * 8; s *= 2) p = static_cast<T>(p ^ static_cast<T>(p >> s));
        return p;
      });
    case kZigzag:
      if (!inverse)
        return each(in, out, n, [=](T p) {
          return static_cast<T>(static_cast<T>(p >> 1) ^ static_cast<T>(static_cast<T>(T{0} - (p & 1)) & mask));
        });
      return each(in, out, n, [=](T x) {
        const T negative = static_cast<T>(T{0} - static_cast<T>(x >> (width - 1)));
        return static_cast<T>(static_cast<T>(static_cast<T>(x << 1) ^ negative) & mask);
      });
    case kReverse: return each(in, out, n, [=](T p) { return reverse_bits(p, width); });
    default: {
      // Forward: the sign bit of p set means a positive float. Backward: of x, a negative one.
      const T flip_when_clear = inverse ? sign : mask, flip_when_set = inverse ? mask : sign;
      return each(in, out, n, [=](T p) {
        const T set = static_cast<T>(T{0} - static_cast<T>(p >> (width - 1)));
        return static_cast<T>(p ^ static_cast<T>((flip_when_set & set) | (flip_when_clear & static_cast<T>(~set))));
      });
    }
  }
}

void apply(const Node& node, bool inverse, bits::ConstWords in, bits::Words out) {
  bits::visit_lane(node.width, [&]<class T>(T) {
    apply(node.params[0], node.params[1], node.width, inverse, in.as<T>().data(), out.as<T>().data(), in.count);
  });
}

Status run(const NodeArgs& args, std::span<const bits::ConstWords> in, bits::Words out) {
  apply(args.node, false, in[0], out);
  return {};
}

Result<bool> invert(const NodeArgs& args, bits::ConstWords target, std::vector<bits::OwnedWords>& children,
                    std::vector<uint64_t>&) {
  children.clear();
  children.emplace_back(target.width, target.count);
  apply(args.node, true, target, children[0].words());
  return true;
}

bool push_down(const NodeArgs& args, const codec::Histogram& target,
               std::vector<std::optional<codec::Histogram>>& children) {
  Counter child(target.width);
  for (const auto& [word, count] : target.counts) {
    uint64_t image = 0;
    apply<uint64_t>(args.node.params[0], args.node.params[1], target.width, true, &word, &image, 1);
    child.add(image, count);
  }
  children.clear();
  children.emplace_back(child.histogram());
  return true;
}

void propose(const Target& target, std::vector<Proposal>& out) {
  const auto& counts = target.histogram->counts;
  const unsigned w = target.width;
  if (w < 2 || counts.size() < 2) return;
  const DtypeInfo& info = dtype_info(float_of(target));
  if (info.sign_bits != 0) out.push_back(proposal({kSignFold, 0}, 1));
  const uint64_t top = uint64_t{1} << (w - 1);
  uint64_t least = UINT64_MAX, most = 0, folded = 0;
  for (const auto& [word, count] : counts) {
    least = std::min(least, word);
    most = std::max(most, word);
    folded = std::max(folded, zigzag_of(word, w));
  }
  const auto size = [](uint64_t word) { return static_cast<unsigned>(std::bit_width(word)); };
  // Small numbers of both signs; small numbers far from zero.
  if (most >= top && least < top && size(folded) + 1 < w) out.push_back(proposal({kZigzag, 0}, 1));
  if (least != 0 && size(most - least) < size(most)) out.push_back(proposal({kAdd, least}, 1));
}

}  // namespace

const OpSpec map_op = {
    .id = OpId::map,
    .name = "map",
    .since = 1,
    .place = Place::region,
    .keywords = kFunctions,
    .child_widths = child_widths,
    .child_lengths = equal_lengths,
    .in_step = 1,
    .run = run,
    .invert = invert,
    .push_down = push_down,
    .propose = propose,
    .total = true,
};

}  // namespace brevis::dsl
