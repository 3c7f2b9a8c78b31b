// SPDX-License-Identifier: Apache-2.0
//
// levels(kind, row, columns, rows; S, L, I, W): words as places in short lists, a list for each block of a matrix.
// Weights that were quantised with a scale a row, a group or a block and widened again (16 levels of a row, the 254
// values of an eight-bit float in a block of 128 by 128) are too many different words for any table, but few within a
// block. Places are counted from zero outwards, so that they mean the same in all blocks.
//
// Params:   kind: `plain` (lists ascend) or `signed` (lists ascend as sign and magnitude, and place 128 is the first
//           word whose top bit is not set); row, words of the matrix's rows; columns and rows of a block. A block holds
//           the words i of the region's stream with equal i / row / rows and equal i % row / columns.
// Children: S, words of 16 bits, a block each; L, of the node's width; I, of 8 bits; W, of the node's width.
// Frame:    counts b, l, o <= n: words of S, L and W; I has n - o. Blocks, as far as the frame has them, come in the
//           order of their first words.
// Word:     a block whose S is 0 takes its words from W. S = s otherwise: its list is made of the next s words of L,
//           which are steps in the order of the list, the first one from 0; its words are looked up by I.
// Refused:  s > 256; of a `signed` list more than 128 words with or without the top bit; places outside a list; streams
// that are too short or that are not used up.
#include <algorithm>
#include <array>

#include "dsl/ops/blocks.h"
#include "dsl/ops/gate.h"
#include "dsl/ops/sample.h"
#include "dsl/verify.h"

namespace brevis::dsl {
namespace {

constexpr std::string_view kKinds[] = {"plain", "signed"};
constexpr uint64_t kSigned = 1;
constexpr size_t kMostLevels = 256;
constexpr unsigned kMiddle = 128;  // the place of the first word without a sign

struct Grid : Blocks {
  explicit Grid(const Node& node)
      : Blocks{node.params[1], node.params[2], node.params[3]}, is_signed(node.params[0] == kSigned) {}
  bool is_signed;
};

// Words in the order of lists, and back.
template <class T>
struct Order {
  Order(unsigned width, bool is_signed)
      : top(is_signed ? static_cast<T>(T{1} << (width - 1)) : T{0}), mask(static_cast<T>(bits::low_mask(width))) {}
  T key_of(T word) const { return static_cast<T>((word & top) != 0 ? ~word & mask : word | top); }
  T word_of(T key) const { return static_cast<T>(top == 0 || (key & top) != 0 ? key ^ top : ~key & mask); }
  // Whether a key is that of a word with a sign.
  bool below_middle(T key) const { return top != 0 && (key & top) == 0; }
  T top, mask;
};

// Whether places from the middle outwards reach all words of a list, so many of which have a sign.
bool fits_both_sides(size_t below, size_t size) { return below <= kMiddle && size - below <= kMostLevels - kMiddle; }

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  BREVIS_TRY(expect_params(node, 4));
  BREVIS_TRY(expect_arity(arity, 4));
  BREVIS_TRY(check_blocks(Grid(node)));
  return std::vector<uint8_t>{16, node.width, 8, node.width};
}

Status child_lengths(const Node&, uint64_t n, std::span<const uint64_t> counts, std::span<uint64_t> lengths) {
  if (counts.size() != 3) return make_error(Errc::internal, "three counts expected");
  for (const uint64_t count : counts) BREVIS_TRY(expect_count(n, {&count, 1}));
  lengths[0] = counts[0];
  lengths[1] = counts[1];
  lengths[2] = n - counts[2];
  lengths[3] = counts[2];
  return {};
}

// A block while its rows are read.
struct Open {
  uint32_t band = 0;   // 0: none yet
  uint32_t start = 0;  // of its list
  uint16_t size = 0;   // 0: words come from W
  uint8_t first = 0;   // the place of the first word of the list
};

template <class T>
Status run_typed(const NodeArgs& args, std::span<const bits::ConstWords> in, std::span<T> out) {
  const Grid grid(args.node);
  const Order<T> order(args.node.width, grid.is_signed);
  const std::span<const uint16_t> sizes = in[0].as<uint16_t>();
  const std::span<const T> steps = in[1].as<T>(), others = in[3].as<T>();
  const uint8_t* places = in[2].as<uint8_t>().data();
  std::vector<T> lists(steps.size());
  std::vector<Open> blocks(grid.across());
  size_t size_at = 0, step_at = 0, other_at = 0;
  std::string_view fault;
  for_stretches(grid, args.position, out.size(), [&](uint32_t band, size_t across, size_t at, size_t words) {
    Open& block = blocks[across];
    if (block.band != band) {
      if (size_at == sizes.size()) return fault = "fewer lists than blocks", false;
      block = {band, static_cast<uint32_t>(step_at), sizes[size_at++], 0};
      if (block.size > kMostLevels || block.size > steps.size() - step_at) return fault = "a list is too long", false;
      T key = 0;
      size_t below = 0;
      for (size_t i = 0; i < block.size; ++i, ++step_at) {
        key = static_cast<T>((key + steps[step_at]) & order.mask);
        below += order.below_middle(key);
        lists[step_at] = order.word_of(key);
      }
      // So that places never wrap around: what is looked up below lies between the first and the last.
      if (grid.is_signed && !fits_both_sides(below, block.size)) return fault = "a list has too many of a sign", false;
      block.first = static_cast<uint8_t>(grid.is_signed ? kMiddle - below : 0);
    }
    if (block.size == 0) {
      if (words > others.size() - other_at) return fault = "fewer words than blocks without a list have", false;
      std::copy_n(others.data() + other_at, words, out.data() + at);
      other_at += words;
      return true;
    }
    if (words > in[2].count - (at - other_at)) return fault = "fewer places than words", false;
    const uint8_t* from = places + (at - other_at);
    uint8_t last = 0;  // apart from the look-ups, so that it goes by vectors
    for (size_t i = 0; i < words; ++i) last = std::max(last, static_cast<uint8_t>(from[i] - block.first));
    if (last >= block.size) return fault = "a place is outside its list", false;
    const T* list = lists.data() + block.start;
    T* to = out.data() + at;
    for (size_t i = 0; i < words; ++i) to[i] = list[from[i] - block.first];
    return true;
  });
  if (fault.empty() && (size_at != sizes.size() || step_at != steps.size() || other_at != others.size()))
    fault = "more is stored than the blocks need";
  return fault.empty() ? Status{} : Status(corrupt_stream(std::string(fault)));
}

Status run(const NodeArgs& args, std::span<const bits::ConstWords> in, bits::Words out) {
  return bits::visit_lane(out.width, [&]<class T>(T) { return run_typed<T>(args, in, out.as<T>()); });
}

// The different keys of a block and which of them each word has.
template <class T>
class Levels {
 public:
  // False when there are too many.
  bool gather(std::span<const T> keys, std::vector<uint16_t>& which) {
    ++turn_;
    levels_.clear();
    which.clear();
    for (const T key : keys) {
      size_t at = static_cast<size_t>(uint64_t{key} * 0x9e3779b97f4a7c15u >> 54);
      while (turns_[at] == turn_ && levels_[numbers_[at]] != key) at = (at + 1) % turns_.size();
      if (turns_[at] != turn_) {
        if (levels_.size() == kMostLevels) return false;
        turns_[at] = turn_;
        numbers_[at] = static_cast<uint16_t>(levels_.size());
        levels_.push_back(key);
      }
      which.push_back(numbers_[at]);
    }
    return true;
  }
  // In the order they were met.
  const std::vector<T>& levels() const { return levels_; }

 private:
  std::array<uint32_t, 1024> turns_{};
  std::array<uint16_t, 1024> numbers_{};
  uint32_t turn_ = 0;
  std::vector<T> levels_;
};

template <class T>
class Inverter {
 public:
  Inverter(const NodeArgs& args, std::span<const T> target)
      : grid_(args.node), order_(args.node.width, grid_.is_signed), position_(args.position), target_(target) {}

  void invert() {
    for_bands(grid_, position_, target_.size(),
              [&](std::span<const Stretch> stretches, std::span<const BlockWords> blocks) { take(stretches, blocks); });
  }

  std::vector<uint16_t> sizes;
  std::vector<T> steps, others;
  std::vector<uint8_t> places;

 private:
  // Blocks get their lists one by one, then places are put in order.
  void take(std::span<const Stretch> stretches, std::span<const BlockWords> blocks) {
    keys_.resize(blocks.back().at + blocks.back().words);
    placed_.resize(keys_.size());
    for (const Stretch& stretch : stretches)
      for (size_t i = 0; i < stretch.words; ++i) keys_[stretch.to + i] = order_.key_of(target_[stretch.at + i]);
    for (const BlockWords& block : blocks) {
      listed_[block.across] = list(block);
      if (!listed_[block.across]) sizes.push_back(0);
    }
    for (const Stretch& stretch : stretches) {
      if (listed_[stretch.across])
        places.insert(places.end(), placed_.begin() + static_cast<ptrdiff_t>(stretch.to),
                      placed_.begin() + static_cast<ptrdiff_t>(stretch.to + stretch.words));
      else
        others.insert(others.end(), target_.begin() + static_cast<ptrdiff_t>(stretch.at),
                      target_.begin() + static_cast<ptrdiff_t>(stretch.at + stretch.words));
    }
  }

  // False: a list would not fit, or would not be worth it.
  bool list(const BlockWords& block) {
    if (!levels_.gather(std::span<const T>(keys_).subspan(block.at, block.words), which_)) return false;
    std::vector<std::pair<T, uint16_t>> sorted;
    for (const T key : levels_.levels()) sorted.emplace_back(key, static_cast<uint16_t>(sorted.size()));
    if (2 * sorted.size() > block.words) return false;
    std::sort(sorted.begin(), sorted.end());
    const auto below = static_cast<size_t>(std::count_if(
        sorted.begin(), sorted.end(), [&](const auto& level) { return order_.below_middle(level.first); }));
    if (grid_.is_signed && !fits_both_sides(below, sorted.size())) return false;
    std::array<uint8_t, kMostLevels> place_of{};
    T last = 0;
    for (size_t i = 0; i < sorted.size(); ++i) {
      steps.push_back(static_cast<T>((sorted[i].first - last) & order_.mask));
      last = sorted[i].first;
      place_of[sorted[i].second] = static_cast<uint8_t>(i + (grid_.is_signed ? kMiddle - below : 0));
    }
    for (size_t i = 0; i < block.words; ++i) placed_[block.at + i] = place_of[which_[i]];
    sizes.push_back(static_cast<uint16_t>(sorted.size()));
    return true;
  }

  const Grid grid_;
  const Order<T> order_;
  const uint64_t position_;
  const std::span<const T> target_;
  std::vector<uint8_t> listed_ = std::vector<uint8_t>(grid_.across());  // by block across, in this band
  Levels<T> levels_;
  std::vector<T> keys_;
  std::vector<uint8_t> placed_;
  std::vector<uint16_t> which_;
};

template <class T>
bits::OwnedWords owned(unsigned width, const std::vector<T>& words) {
  bits::OwnedWords out(width, words.size());
  std::copy(words.begin(), words.end(), out.words().template as<T>().begin());
  return out;
}

Result<bool> invert(const NodeArgs& args, bits::ConstWords target, std::vector<bits::OwnedWords>& children,
                    std::vector<uint64_t>& counts) {
  children.clear();
  bits::visit_lane(target.width, [&]<class T>(T) {
    Inverter<T> inverter(args, target.as<T>());
    inverter.invert();
    counts = {inverter.sizes.size(), inverter.steps.size(), inverter.others.size()};
    children.push_back(owned<uint16_t>(16, inverter.sizes));
    children.push_back(owned<T>(target.width, inverter.steps));
    children.push_back(owned<uint8_t>(8, inverter.places));
    children.push_back(owned<T>(target.width, inverter.others));
  });
  return true;
}

constexpr size_t kLooked = size_t{1} << 18;  // words of a sample that are looked at
constexpr uint64_t kGainOf = 16;             // what has to be saved
constexpr size_t kMostProposals = 2;
constexpr uint64_t kBit = 256;

// Whether a fifth of the words in short stretches of rows, or of columns, have stood in the same stretch before: a
// first look, since most streams have nothing of the kind.
template <class T>
bool recurs_nearby(const Target& target, uint64_t row) {
  constexpr size_t kStretch = 128, kLeast = 32, kStretches = 8;
  Levels<T> levels;
  std::vector<uint16_t> which;
  std::vector<T> column;
  uint64_t across = 0, across_different = 0, down = 0, down_different = 0;
  for (const Window& window : target.windows) {
    const std::span<const T> words = window.words.as<T>();
    for (size_t i = 0; i < kStretches; ++i) {
      if (words.size() < kStretch) break;
      levels.gather(words.subspan((words.size() - kStretch) / kStretches * i, kStretch), which);
      across += kStretch;
      across_different += levels.levels().size();
    }
    for (size_t i = 0; i < 2; ++i) {
      column.clear();
      for (uint64_t at = row / 3 * (i + 1); at < words.size() && column.size() < kStretch; at += row)
        column.push_back(words[static_cast<size_t>(at)]);
      if (column.size() < kLeast) continue;
      levels.gather(column, which);
      down += column.size();
      down_different += levels.levels().size();
    }
  }
  return 5 * across_different < 4 * across || 5 * down_different < 4 * down;
}

// What the words cost with lists of their blocks, about: half of a word's bits for a level, equal chances for places.
template <class T>
uint64_t cost_of(const Target& target, const Grid& grid, uint64_t plain) {
  const Order<T> order(target.width, grid.is_signed);
  Levels<T> levels;
  std::vector<uint16_t> which;
  std::vector<std::vector<T>> blocks(grid.across());
  std::vector<size_t> met;
  uint64_t cost = 0;
  const auto close = [&] {
    for (const size_t across : met) {
      std::vector<T>& keys = blocks[across];
      const uint64_t words = keys.size();
      const bool few = levels.gather(keys, which) && 2 * levels.levels().size() <= words;
      const uint64_t size = levels.levels().size();
      cost += few ? size * target.width / 2 * kBit + words * bits::log2_near(size) / (1u << (bits::kLog2Bits - 8))
                  : words * plain;
      keys.clear();
    }
    met.clear();
  };
  const size_t each = words_each(target, kLooked);
  for (const Window& window : target.windows) {
    const std::span<const T> words = window.words.as<T>();
    uint32_t number = 1;
    for_stretches(grid, window.position, std::min(words.size(), each),
                  [&](uint32_t band, size_t across, size_t at, size_t count) {
                    if (band != number) close();
                    number = band;
                    if (blocks[across].empty()) met.push_back(across);
                    for (size_t i = 0; i < count; ++i) blocks[across].push_back(order.key_of(words[at + i]));
                    return true;
                  });
    close();
  }
  return cost;
}

// Rows of the shape, parts of them, squares and columns, where lists make words cheaper.
void propose(const Target& target, std::vector<Proposal>& out) {
  constexpr uint64_t kLeastRow = 32, kMostColumns = 8192;
  if (target.width < 16 || target.histogram->counts.size() < 8 || target.shape.size() < 2) return;
  const uint64_t kind = float_of(target) != Dtype::unknown ? kSigned : 0;
  std::vector<std::array<uint64_t, 3>> grids;
  uint64_t row = 1;
  for (size_t k = target.shape.size(); k-- > 1;) {
    if (target.shape[k] == 0 || row > Blocks::kMaxSide / target.shape[k]) break;
    row *= target.shape[k];
    if (row < kLeastRow) continue;
    grids.push_back({row, row, 1});
    for (const uint64_t part : {32, 64, 128})
      if (row > part && row % part == 0 && row / part <= Blocks::kMostAcross) grids.push_back({row, part, 1});
    if (k + 1 != target.shape.size()) continue;
    if (row > 128) grids.push_back({row, 128, 128});
    if (row <= kMostColumns) grids.push_back({row, 1, Blocks::kMaxSide});
  }
  bits::visit_lane(target.width, [&]<class T>(T) {
    if (!recurs_nearby<T>(target, target.shape.back())) return;
    BytePlanes<T> planes;
    uint64_t words = 0;
    const size_t each = words_each(target, kLooked);
    for (const Window& window : target.windows)
      for (const T word : window.words.as<T>().first(std::min<size_t>(window.words.count, each))) {
        planes.add(word);
        ++words;
      }
    if (words < 2 * kMostLevels) return;
    const uint64_t before = planes.cost(), plain = before / words;
    std::vector<std::pair<uint64_t, size_t>> found;
    for (size_t i = 0; i < grids.size(); ++i) {
      const Node node{
          OpId::levels, static_cast<uint8_t>(target.width), {kind, grids[i][0], grids[i][1], grids[i][2]}, {}};
      const uint64_t cost = cost_of<T>(target, Grid(node), plain);
      if (cost + before / kGainOf < before) found.emplace_back(cost, i);
    }
    std::stable_sort(found.begin(), found.end());
    for (size_t i = 0; i < std::min(found.size(), kMostProposals); ++i) {
      const auto& [of, columns, rows] = grids[found[i].second];
      out.push_back({{kind, of, columns, rows},
                     {Dtype::unknown, Dtype::unknown, Dtype::unknown, target.dtype},
                     (before - found[i].first) / words});
    }
  });
}

}  // namespace

const OpSpec levels_op = {
    .id = OpId::levels,
    .name = "levels",
    .since = 1,
    .place = Place::region,
    .counts = 3,
    .keywords = kKinds,
    .child_widths = child_widths,
    .child_lengths = child_lengths,
    .run = run,
    .invert = invert,
    .feature = 1u << 8,
    .propose = propose,
    .total = true,
};

}  // namespace brevis::dsl
