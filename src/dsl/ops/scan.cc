// SPDX-License-Identifier: Apache-2.0
//
// scan(f, stride; H, P): running xor or sum against the word `stride` before, for slowly changing sequences and for
// rows that resemble the row above.
//
// Params:   f (xor, add) and stride, 1..2^20.
// Children: H, the frame's first min(stride, n) words as they are, apart from the rest so that they do not spoil its
//           table; P, the other n - min(stride, n) as differences. Both of the node's width.
// Word:     out[i] = H[i] for i < stride, then out[i - stride] f P[i - stride], modulo 2^w. Restarts at each frame.
#include <algorithm>
#include <cstring>
#include <tuple>

#include "dsl/ops/gate.h"
#include "dsl/ops/sample.h"
#include "dsl/verify.h"

namespace brevis::dsl {
namespace {

enum Function : uint64_t { kXor, kAdd };
constexpr std::string_view kFunctions[] = {"xor", "add"};

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  BREVIS_TRY(expect_params(node, 2));
  BREVIS_TRY(expect_arity(arity, 2));
  if (node.params[0] >= std::size(kFunctions)) return gate_error("unknown function " + std::to_string(node.params[0]));
  if (node.params[1] < 1 || node.params[1] > uint64_t{1} << kPositionBits)
    return gate_error("stride is 1..1048576, got " + std::to_string(node.params[1]));
  return std::vector<uint8_t>{node.width, node.width};
}

Status child_lengths(const Node& node, uint64_t n, std::span<const uint64_t>, std::span<uint64_t> lengths) {
  lengths[0] = std::min(node.params[1], n);
  lengths[1] = n - lengths[0];
  return {};
}

uint64_t period(const Node& node) { return node.params[1]; }

template <class T>
void run_typed(const Node& node, std::span<const T> head, std::span<const T> rest, T* out) {
  const size_t stride = head.size();
  const T mask = static_cast<T>(bits::low_mask(node.width));
  if (stride != 0) std::memcpy(out, head.data(), head.size_bytes());
  const bool add = node.params[0] == kAdd;
  if (stride == 1) {
    // One running word in a register instead of a store and a load back.
    T word = head[0];
    if (add)
      for (size_t i = 0; i < rest.size(); ++i)
        out[i + 1] = word = static_cast<T>(static_cast<T>(word + rest[i]) & mask);
    else
      for (size_t i = 0; i < rest.size(); ++i) out[i + 1] = word = static_cast<T>(word ^ rest[i]);
    return;
  }
  // Row by row: inside a row no word depends on another, so the inner loops are vector loops.
  for (size_t at = 0; at < rest.size(); at += stride) {
    const size_t n = std::min(stride, rest.size() - at);
    const T* above = out + at;
    const T* step = rest.data() + at;
    T* row = out + at + stride;
    if (add)
      for (size_t i = 0; i < n; ++i) row[i] = static_cast<T>(static_cast<T>(above[i] + step[i]) & mask);
    else
      for (size_t i = 0; i < n; ++i) row[i] = static_cast<T>(above[i] ^ step[i]);
  }
}

Status run(const NodeArgs& args, std::span<const bits::ConstWords> in, bits::Words out) {
  bits::visit_lane(out.width,
                   [&]<class T>(T) { run_typed<T>(args.node, in[0].as<T>(), in[1].as<T>(), out.as<T>().data()); });
  return {};
}

Result<bool> invert(const NodeArgs& args, bits::ConstWords target, std::vector<bits::OwnedWords>& children,
                    std::vector<uint64_t>&) {
  const size_t head = std::min<size_t>(args.node.params[1], target.count);
  children.clear();
  children.emplace_back(target.width, head);
  children.emplace_back(target.width, target.count - head);
  bits::visit_lane(target.width, [&]<class T>(T) {
    const T mask = static_cast<T>(bits::low_mask(target.width));
    const T* in = target.as<T>().data();
    const std::span<T> first = children[0].words().as<T>(), rest = children[1].words().as<T>();
    for (size_t i = 0; i < head; ++i) first[i] = in[i];
    if (args.node.params[0] == kAdd)
      for (size_t i = 0; i < rest.size(); ++i) rest[i] = static_cast<T>(static_cast<T>(in[i + head] - in[i]) & mask);
    else
      for (size_t i = 0; i < rest.size(); ++i) rest[i] = static_cast<T>(in[i + head] ^ in[i]);
  });
  return true;
}

constexpr size_t kScreened = 1024;  // pairs that decide whether a stride is looked at closely
constexpr size_t kMeasured = 4096;  // pairs for that look
constexpr size_t kMostStrides = 3;

// What words cost byte by byte, and differences to those `stride` before them; at `limit` places about.
struct Compared {
  uint64_t words, sums, xors, pairs;
};
template <class T>
Compared compare_typed(const Target& target, uint64_t stride, size_t limit) {
  BytePlanes<T> words, sums, xors;
  const T mask = static_cast<T>(bits::low_mask(target.width));
  const unsigned sign = target.width - 1u;
  const size_t each = words_each(target, limit);
  uint64_t pairs = 0;
  for (const Window& window : target.windows) {
    const T* const in = window.words.as<T>().data();
    const size_t end = std::min<uint64_t>(window.words.count, stride + each);
    for (size_t i = stride; i < end; ++i) {
      const T word = in[i], before = in[i - stride], difference = static_cast<T>(word - before);
      words.add(word);
      xors.add(word ^ before);
      // zigzag_of() without a branch.
      const T minus = static_cast<T>(0 - (difference >> sign & 1));
      sums.add(static_cast<T>((difference << 1 ^ minus) & mask));
      ++pairs;
    }
  }
  return {words.cost(), sums.cost(), xors.cost(), pairs};
}

Compared compare(const Target& target, uint64_t stride, size_t limit) {
  Compared out{};
  bits::visit_lane(target.width, [&]<class T>(T) { out = compare_typed<T>(target, stride, limit); });
  return out;
}

// Differences look no dearer than words. Sizes of numbers would not tell: the sign bit of floats is their highest.
bool is_close(const Target& target, uint64_t stride) {
  const Compared seen = compare(target, stride, kScreened);
  return std::min(seen.sums, seen.xors) < seen.words;
}

// Strides of the shape (a row, an image) and small ones, where differences cost less than words.
void propose(const Target& target, std::vector<Proposal>& out) {
  if (target.width < 2 || target.histogram->counts.size() < 2) return;
  std::vector<uint64_t> strides;
  uint64_t product = 1;
  for (size_t k = target.shape.size(); k-- > 1;) {
    if (target.shape[k] == 0 || product > (uint64_t{1} << kPositionBits) / target.shape[k]) break;
    product *= target.shape[k];
    strides.push_back(product);
  }
  for (const uint64_t small : {1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256, 512}) strides.push_back(small);
  struct Found {
    uint64_t cost, stride, function;
    bool operator<(const Found& other) const { return std::tie(cost, stride) < std::tie(other.cost, other.stride); }
  };
  std::vector<Found> found;
  for (size_t i = 0; i < strides.size(); ++i) {
    const bool known = std::find(strides.begin(), strides.begin() + static_cast<ptrdiff_t>(i), strides[i]) !=
                       strides.begin() + static_cast<ptrdiff_t>(i);
    if (known || !is_close(target, strides[i])) continue;
    const Compared seen = compare(target, strides[i], kMeasured);
    const uint64_t cost = std::min(seen.sums, seen.xors);
    if (cost + cost / 16 < seen.words)
      found.push_back({cost / seen.pairs, strides[i], seen.sums <= seen.xors ? kAdd : kXor});
  }
  std::sort(found.begin(), found.end());
  for (size_t i = 0; i < std::min(found.size(), kMostStrides); ++i)
    out.push_back({{found[i].function, found[i].stride}, {target.dtype, Dtype::unknown}});
}

}  // namespace

const OpSpec scan_op = {
    .id = OpId::scan,
    .name = "scan",
    .since = 1,
    .place = Place::region,
    .keywords = kFunctions,
    .child_widths = child_widths,
    .child_lengths = child_lengths,
    .period = period,
    .run = run,
    .invert = invert,
    .propose = propose,
    .total = true,
};

}  // namespace brevis::dsl
