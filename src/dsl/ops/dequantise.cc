// SPDX-License-Identifier: Apache-2.0
//
// dequantise(levels, type, row, columns, rows; S, I, W): words as levels of a quantiser times a scale, one for each
// block of a matrix. For weights that were quantised and widened again: four-bit integers with a scale for 32,
// eight-bit floats with a scale a square. Where blocks are large `levels` takes about as much without knowing any
// arithmetic.
//
// Params:   levels: `integer`, `e4m3`, `e5m2`, `nf4` (dequantise_fit.cc has them by place); type of the words: 0 F32,
//           1 BF16, 2 F16; row, columns and rows of blocks as in blocks.h, of the region's stream.
// Children: S, words of 32 bits, a block each: its scale, an F32; I, of 9 bits, as long as the node's stream; W, of the
//           node's width.
// Frame:    counts b, o <= n: words of S and W. Blocks, as far as the frame has them, come in the order of their first
//           words.
// Word:     where I is 0 the next word of W. Otherwise level I times the block's scale, rounded to F32 and then to the
//           type, to the nearest with ties to even. At places that no quantiser uses +0 stands.
// Refused:  scales other than zeros and numbers from 2^-63 to below 2^64, so that no product is subnormal, infinite or
//           no number, which CPUs may be told to treat each in their way; streams that are too short or not used up.
#include "dsl/ops/dequantise.h"

#include <algorithm>
#include <bit>
#include <memory>

#include "dsl/ops/blocks.h"
#include "dsl/ops/gate.h"
#include "dsl/ops/sample.h"

namespace brevis::dsl {
namespace {

using bits::ScaledFloat;

Blocks blocks_of(const Node& node) { return {node.params[2], node.params[3], node.params[4]}; }
LevelKind kind_of(const Node& node) { return static_cast<LevelKind>(node.params[0]); }
ScaledFloat type_of(const Node& node) { return static_cast<ScaledFloat>(node.params[1]); }

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  BREVIS_TRY(expect_params(node, 5));
  BREVIS_TRY(expect_arity(arity, 3));
  if (node.params[0] >= std::size(kLevelKinds)) return gate_error("unknown levels " + std::to_string(node.params[0]));
  if (node.params[1] > static_cast<uint64_t>(ScaledFloat::f16))
    return gate_error("unknown type " + std::to_string(node.params[1]));
  if (width_of(type_of(node)) != node.width)
    return gate_error("type " + std::to_string(node.params[1]) + " has words of " +
                      std::to_string(width_of(type_of(node))) + " bits, not " + std::to_string(node.width));
  BREVIS_TRY(check_blocks(blocks_of(node)));
  return std::vector<uint8_t>{32, kLevelBits, node.width};
}

Status child_lengths(const Node&, uint64_t n, std::span<const uint64_t> counts, std::span<uint64_t> lengths) {
  if (counts.size() != 2) return make_error(Errc::internal, "two counts expected");
  for (const uint64_t count : counts) BREVIS_TRY(expect_count(n, {&count, 1}));
  lengths[0] = counts[0];
  lengths[1] = n;
  lengths[2] = counts[1];
  return {};
}

// The scale of each column, for as much of a band as is read.
class ColumnScales {
 public:
  ColumnScales(const Blocks& blocks, std::span<const uint32_t> scales)
      : blocks_(blocks), scales_(scales), from_(blocks.row) {}

  void begin_band() { from_ = blocks_.row; }
  // Those of columns [first, end) of a row; nullptr when blocks are more than scales. A row is asked for to its end,
  // but for the last one, and all but a band's first from their beginning.
  const float* of(uint64_t first, uint64_t end) {
    if (from_ == blocks_.row) {
      from_ = first / blocks_.columns * blocks_.columns;
      if (!take(from_, end == blocks_.row ? from_ : first, end)) return nullptr;
    } else if (from_ > 0) {
      if (!take(0, 0, std::min(end, from_))) return nullptr;
      from_ = 0;
    }
    return columns_.get() + first;
  }
  bool used_up() const { return next_ == scales_.size(); }

 private:
  // The scales of the blocks from column `block` to `end`, for columns [first, end): rows may be far longer than
  // frames.
  bool take(uint64_t block, uint64_t first, uint64_t end) {
    for (; block < end; block += blocks_.columns) {
      if (next_ == scales_.size()) return false;
      const float scale = std::bit_cast<float>(scales_[next_++]);
      std::fill(columns_.get() + std::max(block, first), columns_.get() + std::min(end, block + blocks_.columns),
                scale);
    }
    return true;
  }

  const Blocks blocks_;
  const std::span<const uint32_t> scales_;
  size_t next_ = 0;
  std::unique_ptr<float[]> columns_ = std::make_unique_for_overwrite<float[]>(blocks_.row);
  uint64_t from_;  // the first column known in this band; row: none yet
};

Status run(const NodeArgs& args, std::span<const bits::ConstWords> in, bits::Words out) {
  const Blocks blocks = blocks_of(args.node);
  const std::span<const uint32_t> scales = in[0].as<uint32_t>();
  const uint16_t* places = in[1].as<uint16_t>().data();
  if (!std::all_of(scales.begin(), scales.end(), is_scale)) return corrupt_stream("a scale is out of bounds");
  uint32_t without = 0;  // narrow, so that it goes by vectors
  for (size_t i = 0; i < out.count; ++i) without += places[i] == kNoLevel;
  if (without != in[2].count) return corrupt_stream("places and words without a level disagree in number");
  const LevelTable& levels = levels_of(kind_of(args.node));
  const auto type = static_cast<size_t>(type_of(args.node));
  const auto scale_levels = bits::kernels().scale_levels[type];
  const auto scale_integers = kind_of(args.node) == LevelKind::integer ? bits::kernels().scale_integers[type] : nullptr;
  ColumnScales column_scales(blocks, scales);
  uint64_t column = args.position % blocks.row, left = blocks.rows - args.position / blocks.row % blocks.rows;
  for (size_t at = 0; at < out.count;) {
    const auto words = static_cast<size_t>(std::min<uint64_t>(blocks.row - column, out.count - at));
    const float* of = column_scales.of(column, column + words);
    if (of == nullptr) return corrupt_stream("fewer scales than blocks");
    if (scale_integers != nullptr)
      scale_integers(places + at, of, out.data + at * out.lane(), words);
    else
      scale_levels(places + at, levels.data(), of, out.data + at * out.lane(), words);
    at += words;
    column = 0;
    if (--left == 0) {
      left = blocks.rows;
      column_scales.begin_band();
    }
  }
  if (!column_scales.used_up()) return corrupt_stream("more scales than blocks");
  if (in[2].count == 0) return {};
  bits::visit_lane(out.width, [&]<class T>(T) {
    const T* other = in[2].as<T>().data();
    T* to = out.as<T>().data();
    for (size_t i = 0; i < out.count; ++i)
      if (places[i] == kNoLevel) to[i] = *other++;
  });
  return {};
}

// The words of stretches in the order of blocks.
void gather(bits::ConstWords words, std::span<const Stretch> stretches, std::vector<uint32_t>& out) {
  bits::visit_lane(words.width, [&]<class T>(T) {
    const T* from = words.as<T>().data();
    for (const Stretch& stretch : stretches)
      for (size_t i = 0; i < stretch.words; ++i) out[stretch.to + i] = static_cast<uint32_t>(from[stretch.at + i]);
  });
}

Result<bool> invert(const NodeArgs& args, bits::ConstWords target, std::vector<bits::OwnedWords>& children,
                    std::vector<uint64_t>& counts) {
  ScaleFinder finder(kind_of(args.node), type_of(args.node));
  std::vector<uint32_t> scales, words;
  std::vector<uint16_t> found, ordered;
  bits::OwnedWords places(kLevelBits, target.count);
  uint16_t* const place = places.words().as<uint16_t>().data();
  for_bands(blocks_of(args.node), args.position, target.count,
            [&](std::span<const Stretch> stretches, std::span<const BlockWords> blocks) {
              words.resize(blocks.back().at + blocks.back().words);
              ordered.assign(words.size(), kNoLevel);
              gather(target, stretches, words);
              for (const BlockWords& block : blocks) {
                uint32_t& scale = scales.emplace_back(0);
                if (finder.find(std::span(words).subspan(block.at, block.words), scale, found))
                  std::copy(found.begin(), found.end(), ordered.begin() + static_cast<ptrdiff_t>(block.at));
              }
              for (const Stretch& stretch : stretches)
                std::copy_n(ordered.data() + stretch.to, stretch.words, place + stretch.at);
            });
  const auto others = static_cast<size_t>(std::count(place, place + target.count, kNoLevel));
  bits::OwnedWords stored_scales(32, scales.size()), stored(target.width, others);
  std::copy(scales.begin(), scales.end(), stored_scales.words().as<uint32_t>().begin());
  for (size_t i = 0, at = 0; i < target.count; ++i)
    if (place[i] == kNoLevel) stored.words().set(at++, target.at(i));
  counts = {scales.size(), others};
  children.clear();
  children.push_back(std::move(stored_scales));
  children.push_back(std::move(places));
  children.push_back(std::move(stored));
  return true;
}

constexpr size_t kGroup = 16;                      // words of a first look; no larger than blocks that are asked for
constexpr size_t kLeastDifferent = 4;              // sizes in a group that says something
constexpr size_t kGroupsEach = 4;                  // of a window, along rows and down columns each
constexpr size_t kScaledWords = 32768;             // of a window, where blocks are looked at whole; at least two bands
constexpr size_t kBandsEach = 6, kBlocksEach = 3;  // of a window, and of a band
constexpr size_t kMisfits = 2;

// Groups along rows and down columns, of enough different words.
std::vector<std::array<uint32_t, kGroup>> groups_of(const Target& target, uint64_t row) {
  constexpr uint64_t kAligned = 128;  // to blocks of so many rows at most
  std::vector<std::array<uint32_t, kGroup>> out;
  const auto add = [&](const Window& window, uint64_t first, uint64_t step) {
    if (first + (kGroup - 1) * step >= window.words.count) return;
    std::array<uint32_t, kGroup> words, sizes;
    for (size_t i = 0; i < kGroup; ++i) {
      words[i] = static_cast<uint32_t>(window.words.at(static_cast<size_t>(first + i * step)));
      sizes[i] = words[i] & static_cast<uint32_t>(bits::low_mask(target.width - 1));
    }
    std::sort(sizes.begin(), sizes.end());
    if (static_cast<size_t>(std::unique(sizes.begin(), sizes.end()) - sizes.begin()) > kLeastDifferent)
      out.push_back(words);
  };
  for (const Window& window : target.windows) {
    const uint64_t start = (row - window.position % row) % row;  // of a row
    for (uint64_t i = 0; i < kGroupsEach; ++i) {
      const uint64_t at =
          start + (window.words.count - std::min<uint64_t>(start, window.words.count)) / kGroupsEach * i;
      const uint64_t column = (window.position + at) % row;
      if (column % kGroup + kGroup <= row) add(window, at - std::min(at, column % kGroup), 1);
      const uint64_t rows_before = (window.position + start) / row;
      const uint64_t band = (rows_before + kAligned - 1) / kAligned * kAligned * row - window.position;
      if (row > 1) add(window, band + row / kGroupsEach * i, row);
    }
  }
  return out;
}

// Whether most blocks of a sample have a scale.
bool has_scales(const Target& target, const Blocks& blocks, ScaleFinder& finder) {
  uint64_t looked = 0, fitting = 0;
  std::vector<uint32_t> words;
  std::vector<uint16_t> places;
  uint32_t scale = 0;
  for (const Window& window : target.windows) {
    uint64_t sum = 0;
    const size_t count =
        std::min(window.words.count, std::max<size_t>(kScaledWords, static_cast<size_t>(2 * blocks.row * blocks.rows)));
    for_bands(blocks, window.position, count, [&](std::span<const Stretch> stretches, std::span<const BlockWords> met) {
      const uint64_t before = sum, each = std::max<uint64_t>(1, count / kBandsEach);
      sum += met.back().at + met.back().words;
      if ((looked != 0 && before / each == sum / each) || looked > fitting + kMisfits) return;
      words.resize(met.back().at + met.back().words);
      gather(window.words, stretches, words);
      const size_t step = std::max<size_t>(1, met.size() / kBlocksEach);
      for (size_t i = 0; i < met.size(); i += step) {
        ++looked;
        fitting += finder.find(std::span(words).subspan(met[i].at, met[i].words), scale, places);
      }
    });
  }
  return looked <= fitting + kMisfits && 8 * fitting >= 7 * looked;
}

// The largest blocks of those that are common for which scales are found.
void propose(const Target& target, std::vector<Proposal>& out) {
  const Dtype dtype = float_of(target);
  const bool narrow = dtype == Dtype::BF16 || dtype == Dtype::F16;
  if ((!narrow && dtype != Dtype::F32) || target.below || target.shape.empty()) return;
  const uint64_t row = target.shape.back();
  if (row == 0 || row > Blocks::kMaxSide || target.histogram->counts.size() < 8) return;
  const ScaledFloat type = dtype == Dtype::F32    ? ScaledFloat::f32
                           : dtype == Dtype::BF16 ? ScaledFloat::bf16
                                                  : ScaledFloat::f16;
  const auto groups = groups_of(target, row);
  if (groups.size() < kGroupsEach) return;
  std::vector<Blocks> shapes{{row, row, Blocks::kMaxSide}};
  if (row <= Blocks::kMostAcross) shapes.push_back({row, 1, Blocks::kMaxSide});
  if (row > 128) shapes.push_back({row, 128, 128});
  shapes.push_back({row, row, 1});
  for (const uint64_t part : {256, 128, 64, 32, 16}) {
    if (row > part && row % part == 0) shapes.push_back({row, part, 1});
    if (part < 256 && row <= Blocks::kMostAcross) shapes.push_back({row, 1, part});
  }
  const uint64_t rows = std::max<uint64_t>(1, target.windows.front().words.count / row);
  const auto size = [&](const Blocks& blocks) { return blocks.columns * std::min(blocks.rows, rows); };
  std::stable_sort(shapes.begin(), shapes.end(), [&](const Blocks& a, const Blocks& b) { return size(a) > size(b); });
  std::vector<uint16_t> places;
  uint32_t scale = 0;
  for (size_t kind = 0; kind < std::size(kLevelKinds); ++kind) {
    ScaleFinder finder(static_cast<LevelKind>(kind), type);
    size_t fitting = 0;
    for (const auto& group : groups) fitting += finder.find(group, scale, places);
    if (3 * fitting < groups.size()) continue;  // groups lie along rows and down columns
    for (const Blocks& blocks : shapes) {
      if (!has_scales(target, blocks, finder)) continue;
      out.push_back({{kind, static_cast<uint64_t>(type), blocks.row, blocks.columns, blocks.rows},
                     {Dtype::F32, Dtype::unknown, target.dtype}});
      return;
    }
  }
}

}  // namespace

const OpSpec dequantise_op = {
    .id = OpId::dequantise,
    .name = "dequantise",
    .since = 1,
    .place = Place::region,
    .counts = 2,
    .keywords = kLevelKinds,
    .child_widths = child_widths,
    .child_lengths = child_lengths,
    .run = run,
    .invert = invert,
    .feature = 1u << 9,
    .propose = propose,
    .total = true,
};

}  // namespace brevis::dsl
