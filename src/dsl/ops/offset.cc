// SPDX-License-Identifier: Apache-2.0
//
// offset(shift, bits, stride, count, ..; P): a field of each word moved by a sum of small numbers that belong to its
// place along axes of the tensor. Networks with per-channel scale slide the exponent from row to row and from column to
// column; taken off, what is left is one bell curve for all.
//
// Params:   shift, bits: the field, bits 1.., shift + bits <= width; then 1 to 4 axes: stride 1..2^44, count 2..; all
//           counts together at most 2^18. Word i of the region's stream (not of the frame's) is at place
//           i / stride % count of an axis.
// Slot:     a blob: for each place of each axis a step a of -4096..4095, in quarters.
// Children: P of the node's width, as long as the node's stream.
// Word:     P[i], its field increased by floor((sum of the axes' steps + 2) / 4) modulo 2^bits.
// Blob:     a bit stream: for each axis four bits k, then for each step z (2a, or -2a - 1 for a < 0): z / 2^k in unary,
//           k low bits.
//
// Running is one vector pass over the child's output where it stands. Axes of short periods are summed up once into a
// pattern; others change slowly and are constants of a stretch.
#include "dsl/ops/offset.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "bits/bit_io.h"
#include "bits/kernels.h"
#include "dsl/ops/gate.h"

namespace brevis::dsl {
namespace {

constexpr unsigned kMaxRice = kOffsetStepBits;
constexpr uint64_t kLeastPattern = 512;  // shorter ones are repeated, since a stretch ends where a pattern does
constexpr uint64_t kMostPatternOf = 16;  // times the number of steps: what a pattern may take, memory being anybody's
constexpr size_t kTile = 2048;           // words that are moved, or whose sums are made, at a time

// Steps spread out for running: steps[p] serves the words i with i / stride % size = p.
struct Layer {
  uint64_t stride;
  std::vector<int16_t> steps;
};

struct Offsets : Blob {
  std::vector<Layer> patterns;  // stride 1
  std::vector<Layer> slow;      // constant over `stride` words
  uint64_t bytes() const override {
    uint64_t sum = sizeof(Offsets);
    for (const auto* layers : {&patterns, &slow})
      for (const Layer& layer : *layers) sum += sizeof(Layer) + layer.steps.size() * sizeof(int16_t);
    return sum;
  }
};

}  // namespace

Status expect_offset_params(const Node& node) {
  const std::vector<uint64_t>& p = node.params;
  if (p.size() < 4 || p.size() % 2 != 0 || p.size() > 2 + 2 * kMaxOffsetAxes)
    return gate_error("takes shift, bits and 1 to 4 pairs of stride and count, got " + std::to_string(p.size()) +
                      " parameters");
  if (p[1] < 1 || p[1] > node.width || p[0] > node.width - p[1])
    return gate_error("a field of " + std::to_string(p[1]) + " bits above bit " + std::to_string(p[0]) +
                      " does not fit a word of " + std::to_string(node.width));
  uint64_t sum = 0;
  for (const OffsetAxis& axis : offset_axes(node)) {
    if (axis.stride < 1 || axis.stride > kMaxOffsetStride)
      return gate_error("stride is 1..2^44, got " + std::to_string(axis.stride));
    if (axis.count < 2 || axis.count > kMaxOffsetSteps - sum)
      return gate_error("an axis has 2 places or more, all axes together at most 262144");
    sum += axis.count;
  }
  return {};
}

uint64_t offset_steps(const Node& node) {
  uint64_t sum = 0;
  for (const OffsetAxis& axis : offset_axes(node)) sum += axis.count;
  return sum;
}

bits::FieldMove offset_field(const Node& node, bool back) {
  return {static_cast<unsigned>(node.params[0]), static_cast<unsigned>(node.params[1]), back};
}

namespace {

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  BREVIS_TRY(expect_arity(arity, 1));
  BREVIS_TRY(expect_offset_params(node));
  return std::vector<uint8_t>{node.width};
}

Result<OffsetSteps> read_steps(const Node& node, ByteSpan stored) {
  bits::BitReader reader(stored);
  OffsetSteps steps;
  for (const OffsetAxis& axis : offset_axes(node)) {
    // Each step takes a bit at least, so nothing is allocated that the stored bytes do not stand for.
    if (axis.count > stored.size() * uint64_t{8}) return corrupt_stream("steps of offsets end before their axis does");
    const auto rice = static_cast<unsigned>(reader.get(4));
    if (rice > kMaxRice) return corrupt_stream("steps of offsets have no such Rice parameter");
    std::vector<int16_t>& axis_steps = steps.emplace_back();
    for (uint64_t place = 0; place < axis.count && reader.ok(); ++place) {
      const uint64_t high = reader.get_unary(bits::low_mask(kOffsetStepBits) >> rice);
      const uint64_t z = high << rice | reader.get(rice);
      const auto half = static_cast<int>(z >> 1);
      axis_steps.push_back(static_cast<int16_t>(z & 1 ? -half - 1 : half));
    }
  }
  if (!reader.finished()) return corrupt_stream("steps of offsets do not end with their stored bytes");
  return steps;
}

// The sum of the layers as one pattern of `period` words.
std::vector<int16_t> sum_up(const std::vector<Layer>& layers, uint64_t period) {
  std::vector<int16_t> sum(period);
  for (const Layer& layer : layers)
    for (uint64_t i = 0, place = 0; i < period; place = place + 1 == layer.steps.size() ? 0 : place + 1)
      for (const uint64_t end = std::min(period, i + layer.stride); i < end; ++i)
        sum[i] = static_cast<int16_t>(sum[i] + layer.steps[place]);
  return sum;
}

}  // namespace

Result<std::shared_ptr<const Blob>> load_offsets(const Node& node, ByteSpan stored) {
  BREVIS_ASSIGN(OffsetSteps steps, read_steps(node, stored));
  const std::vector<OffsetAxis> axes = offset_axes(node);
  uint64_t count = 0;
  for (const OffsetAxis& axis : axes) count += axis.count;
  const uint64_t most = std::max(kLeastPattern, kMostPatternOf * count);

  auto offsets = std::make_shared<Offsets>();
  std::vector<Layer> joined;
  uint64_t period = 1;
  std::vector<size_t> order(axes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return axes[a].stride * axes[a].count < axes[b].stride * axes[b].count; });
  for (const size_t k : order) {
    Layer layer{axes[k].stride, std::move(steps[k])};
    const uint64_t own = axes[k].stride * axes[k].count;
    const uint64_t factor = own / std::gcd(period, own);
    if (own <= most && factor <= most / period) {
      period *= factor;
      joined.push_back(std::move(layer));
    } else {
      (layer.stride == 1 ? offsets->patterns : offsets->slow).push_back(std::move(layer));
    }
  }
  if (!joined.empty() || offsets->patterns.empty()) {
    if (period < kLeastPattern) period *= kLeastPattern / period;
    offsets->patterns.insert(offsets->patterns.begin(), Layer{1, sum_up(joined, period)});
  }
  return std::shared_ptr<const Blob>(std::move(offsets));
}

void offset_sums(const Blob& blob, uint64_t position, std::span<int16_t> out) {
  const auto& offsets = static_cast<const Offsets&>(blob);
  for (size_t at = 0; at < out.size();) {
    uint64_t n = out.size() - at;
    int16_t base = 2;
    for (const Layer& layer : offsets.slow) {
      base = static_cast<int16_t>(base + layer.steps[(position + at) / layer.stride % layer.steps.size()]);
      n = std::min(n, layer.stride - (position + at) % layer.stride);
    }
    std::fill_n(out.begin() + static_cast<ptrdiff_t>(at), n, base);
    at += n;
  }
  for (const Layer& layer : offsets.patterns) {
    uint64_t place = position % layer.steps.size();
    for (size_t at = 0; at < out.size(); place = 0) {
      const size_t n = std::min<uint64_t>(out.size() - at, layer.steps.size() - place);
      for (size_t j = 0; j < n; ++j) out[at + j] = static_cast<int16_t>(out[at + j] + layer.steps[place + j]);
      at += n;
    }
  }
}

namespace {

// The steps of a layer from a word on: the one in force, and for how many words.
class Walk {
 public:
  Walk() = default;
  Walk(const Layer& layer, uint64_t word)
      : layer_(&layer), place_(word / layer.stride % layer.steps.size()), left_(layer.stride - word % layer.stride) {}
  int16_t step() const { return layer_->steps[place_]; }
  uint64_t left() const { return left_; }
  // At most left().
  void pass(uint64_t words) {
    left_ -= words;
    if (left_ != 0) return;
    left_ = layer_->stride;
    if (++place_ == layer_->steps.size()) place_ = 0;
  }

 private:
  const Layer* layer_ = nullptr;
  uint64_t place_ = 0, left_ = 0;
};

// Moves the fields of consecutive words, the first of which is word `position` of the region's stream.
class Mover {
 public:
  Mover(const Node& node, const Offsets& offsets, bool back) : field_(offset_field(node, back)), offsets_(offsets) {}

  void move(uint64_t position, bits::Words words) const {
    std::array<Walk, kMaxOffsetAxes> slow;
    const size_t slows = offsets_.slow.size();
    for (size_t k = 0; k < slows; ++k) slow[k] = Walk(offsets_.slow[k], position);
    uint64_t place = position % offsets_.patterns[0].steps.size();
    for (size_t at = 0; at < words.count;) {
      uint64_t n = words.count - at;
      int16_t base = 2;
      for (size_t k = 0; k < slows; ++k) {
        base = static_cast<int16_t>(base + slow[k].step());
        n = std::min(n, slow[k].left());
      }
      if (offsets_.patterns.size() > 1)
        meet(position + at, base, words.part(at, n));
      else
        stretch(place, base, words.part(at, n));
      for (size_t k = 0; k < slows; ++k) slow[k].pass(n);
      at += n;
    }
  }

 private:
  // `place`: of the pattern; that of the word behind them afterwards.
  void stretch(uint64_t& place, int16_t base, bits::Words words) const {
    const std::vector<int16_t>& pattern = offsets_.patterns[0].steps;
    const auto move_field = bits::kernels().move_field;
    for (size_t at = 0; at < words.count;) {
      const size_t n = std::min<uint64_t>(words.count - at, pattern.size() - place);
      move_field(words.part(at, n), field_, pattern.data() + place, base);
      at += n;
      place += n;
      if (place == pattern.size()) place = 0;
    }
  }

  // Several long patterns of different periods.
  void meet(uint64_t first, int16_t base, bits::Words words) const {
    int16_t sums[kTile];
    for (size_t at = 0; at < words.count; at += kTile) {
      const size_t n = std::min(kTile, words.count - at);
      std::fill_n(sums, n, int16_t{0});
      for (const Layer& layer : offsets_.patterns) {
        uint64_t place = (first + at) % layer.steps.size();
        for (size_t j = 0; j < n; ++j) {
          sums[j] = static_cast<int16_t>(sums[j] + layer.steps[place]);
          if (++place == layer.steps.size()) place = 0;
        }
      }
      bits::kernels().move_field(words.part(at, n), field_, sums, base);
    }
  }

  const bits::FieldMove field_;
  const Offsets& offsets_;
};

const Offsets& offsets_of(const NodeArgs& args) { return static_cast<const Offsets&>(*args.blob); }

Status run(const NodeArgs& args, std::span<const bits::ConstWords> in, bits::Words out) {
  if (in[0].data != out.data) std::copy_n(in[0].data, in[0].bytes(), out.data);
  Mover(args.node, offsets_of(args), false).move(args.position, out);
  return {};
}

Result<bool> invert(const NodeArgs& args, bits::ConstWords target, std::vector<bits::OwnedWords>& children,
                    std::vector<uint64_t>&) {
  children.clear();
  children.emplace_back(target.width, target.count);
  const Mover mover(args.node, offsets_of(args), true);
  for (size_t at = 0; at < target.count; at += kTile) {  // moved while it is near
    const bits::ConstWords from = target.part(at, std::min(kTile, target.count - at));
    const bits::Words to = children[0].words().part(at, from.count);
    std::copy_n(from.data, from.bytes(), to.data);
    mover.move(args.position + at, to);
  }
  return true;
}

}  // namespace

std::vector<OffsetAxis> offset_axes(const Node& node) {
  std::vector<OffsetAxis> axes;
  for (size_t i = 2; i + 1 < node.params.size(); i += 2) axes.push_back({node.params[i], node.params[i + 1]});
  return axes;
}

ByteVector store_offsets(const OffsetSteps& steps) {
  ByteVector out;
  bits::BitWriter writer(out);
  for (const std::vector<int16_t>& axis : steps) {
    std::vector<uint64_t> folded;
    for (const int step : axis) folded.push_back(static_cast<uint64_t>(step < 0 ? -2 * step - 1 : 2 * step));
    unsigned rice = 0;
    uint64_t least = UINT64_MAX;
    for (unsigned k = 0; k <= kMaxRice; ++k) {
      uint64_t bits = folded.size() * (k + 1);
      for (const uint64_t z : folded) bits += z >> k;
      if (bits < least) least = bits, rice = k;
    }
    writer.put(rice, 4);
    for (const uint64_t z : folded) {
      writer.put_unary(z >> rice);
      writer.put(z & bits::low_mask(rice), rice);
    }
  }
  writer.finish();
  return out;
}

const OpSpec offset_op = {
    .id = OpId::offset,
    .name = "offset",
    .since = 1,
    .place = Place::region,
    .slot = SlotKind::blob,
    .child_widths = child_widths,
    .child_lengths = equal_lengths,
    .run = run,
    .invert = invert,
    .blob_entries = offset_steps,
    .load = load_offsets,
    .fit = fit_offset,
    .feature = 1u << 1,
    .in_place = true,
    .propose = propose_offsets,
    .total = true,
};

}  // namespace brevis::dsl
