// SPDX-License-Identifier: Apache-2.0
//
// transpose(r, c; P): tiles of r rows and c columns whose words P has column by column. For matrices whose columns are
// more alike than their rows, when what follows looks at neighbours.
//
// Params:   r, c, each 2 or more, r * c at most 2^20.
// Children: P of the node's width, as long as the node's stream.
// Word:     tiles stand end to end from the frame's start, tile t at words t * r * c on. Word i * c + j of a tile,
//           i < r and j < c, is word j * r + i of P's tile. Words behind the last whole tile are P's own.
#include "dsl/ops/gate.h"
#include "dsl/ops/sample.h"
#include "dsl/verify.h"

namespace brevis::dsl {
namespace {

constexpr uint64_t kMostTile = uint64_t{1} << kPositionBits;
constexpr size_t kBlock = 16;  // rows and columns moved at a time: both sides stay in the first-level cache

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  BREVIS_TRY(expect_params(node, 2));
  BREVIS_TRY(expect_arity(arity, 1));
  const uint64_t r = node.params[0], c = node.params[1];
  if (r < 2 || c < 2 || r > kMostTile || c > kMostTile / r)
    return gate_error("a tile has 2 rows and 2 columns or more and at most 1048576 words, got " + std::to_string(r) +
                      " x " + std::to_string(c));
  return std::vector<uint8_t>{node.width};
}

uint64_t period(const Node& node) { return node.params[0] * node.params[1]; }

// to = from, a matrix of `rows` x `columns`, with rows and columns exchanged.
template <class T>
void exchange(const T* from, T* to, size_t rows, size_t columns) {
  for (size_t i = 0; i < rows; i += kBlock)
    for (size_t j = 0; j < columns; j += kBlock) {
      const size_t last_row = std::min(rows, i + kBlock), last_column = std::min(columns, j + kBlock);
      for (size_t a = i; a < last_row; ++a)
        for (size_t b = j; b < last_column; ++b) to[b * rows + a] = from[a * columns + b];
    }
}

template <class T>
void exchange_tiles(std::span<const T> from, std::span<T> to, size_t rows, size_t columns) {
  const size_t tile = rows * columns;
  size_t at = 0;
  for (; at + tile <= from.size(); at += tile) exchange(from.data() + at, to.data() + at, rows, columns);
  std::copy(from.begin() + static_cast<ptrdiff_t>(at), from.end(), to.begin() + static_cast<ptrdiff_t>(at));
}

Status run(const NodeArgs& args, std::span<const bits::ConstWords> in, bits::Words out) {
  const size_t r = args.node.params[0], c = args.node.params[1];
  bits::visit_lane(out.width, [&]<class T>(T) { exchange_tiles<T>(in[0].as<T>(), out.as<T>(), c, r); });
  return {};
}

Result<bool> invert(const NodeArgs& args, bits::ConstWords target, std::vector<bits::OwnedWords>& children,
                    std::vector<uint64_t>&) {
  const size_t r = args.node.params[0], c = args.node.params[1];
  children.clear();
  children.emplace_back(target.width, target.count);
  bits::visit_lane(target.width,
                   [&]<class T>(T) { exchange_tiles<T>(target.as<T>(), children[0].words().as<T>(), r, c); });
  return true;
}

bool push_down(const NodeArgs&, const codec::Histogram& target,
               std::vector<std::optional<codec::Histogram>>& children) {
  children.assign(1, target);
  return true;
}

constexpr size_t kCompared = 2048;  // pairs
constexpr uint64_t kUsualTile = uint64_t{1} << 16, kLargeTile = uint64_t{1} << 18;

// Mean size of the difference to the word `lag` before, and how often it is none; in parts of all pairs of 1/256.
struct Likeness {
  uint64_t size = 0, equal = 0;
};
Likeness likeness(const Target& target, uint64_t lag) {
  Likeness sum;
  uint64_t pairs = 0;
  for_pairs(target, lag, kCompared, [&](uint64_t word, uint64_t before) {
    const uint64_t difference = (word - before) & bits::low_mask(target.width);
    sum.size += static_cast<uint64_t>(std::bit_width(zigzag_of(difference, target.width)));
    sum.equal += difference == 0;
    ++pairs;
  });
  if (pairs == 0) return {};
  return {sum.size * 256 / pairs, sum.equal * 256 / pairs};
}

void propose(const Target& target, std::vector<Proposal>& out) {
  if (target.width < 2 || target.histogram->counts.size() < 2 || target.shape.empty()) return;
  const uint64_t columns = target.shape.back();
  if (columns < 2 || columns > kUsualTile / 2 || target.words / columns < 2) return;
  const Likeness along = likeness(target, 1), down = likeness(target, columns);
  if (8 * down.size >= 7 * along.size && down.equal <= along.equal + 16) return;
  // The longer the columns the better, as far as frames and samples show whole ones.
  uint64_t shown = 0;
  for (const Window& window : target.windows) shown = std::max<uint64_t>(shown, window.words.count / columns);
  const uint64_t rows = std::min({target.words / columns, kLargeTile / columns, shown});
  const uint64_t usual = std::min(target.words / columns, kUsualTile / columns);
  if (rows > usual) out.push_back({{rows, columns}, {target.dtype}});
  out.push_back({{usual, columns}, {target.dtype}});
}

}  // namespace

const OpSpec transpose_op = {
    .id = OpId::transpose,
    .name = "transpose",
    .since = 1,
    .place = Place::region,
    .child_widths = child_widths,
    .child_lengths = equal_lengths,
    .period = period,
    .run = run,
    .invert = invert,
    .push_down = push_down,
    .feature = 1u << 2,
    .propose = propose,
};

}  // namespace brevis::dsl
