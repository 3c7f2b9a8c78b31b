// SPDX-License-Identifier: Apache-2.0
//
// Inversion runs from the root down: a node's target gives its children's targets until literals are reached. Header
// and payloads are gathered apart, since all lengths stand before all payloads.
#include "dsl/encode.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "base/coding.h"
#include "bits/combine.h"
#include "bits/kernels.h"
#include "dsl/fused.h"
#include "dsl/histogram.h"
#include "dsl/verify.h"

namespace brevis::dsl {
namespace {

class Encoder {
 public:
  Encoder(const BoundProgram& bound, uint32_t region, uint64_t first_word, std::span<const ByteSpan> bases)
      : bound_(bound),
        first_base_(bound.program().regions()[region].first_base),
        first_word_(first_word),
        bases_(bases) {}

  Result<bool> encode(uint32_t at, bits::ConstWords target) {
    const Node& node = bound_.program().nodes()[at];
    if (node.op == OpId::literal) return encode_literal(node, target);
    if (node.op == OpId::base) return false;
    if (node.op == OpId::combine)
      if (const auto base = base_of(node.children[1], target.count)) return encode_difference(node, target, *base);
    if (node.op == OpId::patch)
      if (const auto base = base_of(node.children[0], target.count)) return encode_patch(node, target, *base);
    if (node.op == OpId::merge && bound_.fused(at) != nullptr) return encode_merge(node, target);
    return encode_node(node, target);
  }

  void append_to(ByteVector& out) const {
    out.reserve(out.size() + header_.size() + payloads_.size());
    out.insert(out.end(), header_.begin(), header_.end());
    out.insert(out.end(), payloads_.begin(), payloads_.end());
  }

 private:
  // Words to be filled.
  struct Stream {
    Stream(unsigned width, size_t count)
        : store(std::make_unique_for_overwrite<uint64_t[]>((count * bits::lane_bytes(width) + 7) / 8)),
          words{reinterpret_cast<uint8_t*>(store.get()), count, static_cast<uint8_t>(width)} {}
    std::unique_ptr<uint64_t[]> store;
    bits::Words words;
  };

  struct Inverted {
    std::vector<bits::OwnedWords> children;
    std::vector<uint64_t> counts;
    size_t base = SIZE_MAX;  // the child that the base gave
    // Plain size of the children: which of several word lists leaves the least to store.
    uint64_t bits() const {
      uint64_t sum = 0;
      for (const bits::OwnedWords& child : children) sum += child.count() * child.width();
      return sum;
    }
  };

  Result<bool> encode_literal(const Node& node, bits::ConstWords target) {
    const codec::CodecSpec& codec = *codec::find_codec(node.params[0]);
    const codec::Table* table = nullptr;
    if (node.slot >= 0) {
      const std::span<const SlotTable> tables = bound_.tables(node.slot);
      const std::optional<size_t> choice = choose_table(codec, tables, target);
      if (!choice) return false;
      if (tables.size() > 1) header_.push_back(static_cast<uint8_t>(*choice));
      table = tables[*choice].codec.get();
    }
    const size_t before = payloads_.size();
    if (Status status = codec.encode(table, target, payloads_); !status) {
      if (status.error().kind() == Errc::invalid_argument) return false;
      return std::move(status).error();
    }
    ByteWriter(header_).varint(payloads_.size() - before);
    return true;
  }

  // The table of the smallest estimate, the first among equals; nullopt when every one of a set lacks some word.
  static std::optional<size_t> choose_table(const codec::CodecSpec& codec, std::span<const SlotTable> tables,
                                            bits::ConstWords target) {
    if (tables.size() == 1) return 0;
    const codec::Histogram histogram = histogram_of(target);
    std::optional<size_t> best;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < tables.size(); ++i) {
      const uint64_t size = codec.estimate(tables[i].codec.get(), histogram);
      if (size < least) least = size, best = i;
    }
    return best;
  }

  // The words of a `base` node that were given, nullopt for other nodes.
  std::optional<bits::ConstWords> base_of(uint32_t at, size_t words) const {
    const Node& node = bound_.program().nodes()[at];
    if (node.op != OpId::base) return std::nullopt;
    const size_t number = static_cast<size_t>(node.base) - first_base_;
    if (number >= bases_.size()) return std::nullopt;
    const ByteSpan bytes = bases_[number];
    if (bytes.size() != words * bits::lane_bytes(node.width)) return std::nullopt;
    return bits::ConstWords{bytes.data(), words, node.width};
  }

  Result<bool> encode_difference(const Node& node, bits::ConstWords target, bits::ConstWords base) {
    const Stream difference(node.width, target.count);
    bits::uncombine(static_cast<bits::Combine>(node.params[0]), target, base, difference.words);
    return encode(node.children[0], difference.words);
  }

  // The gaps in front of ascending places, as rank and patch have them.
  static Stream gaps_of(std::span<const size_t> places) {
    Stream gaps(kPositionBits, places.size());
    size_t next = 0;
    for (size_t j = 0; j < places.size(); ++j) {
      gaps.words.set(j, places[j] - next);
      next = places[j] + 1;
    }
    return gaps;
  }

  Result<bool> encode_patch(const Node& node, bits::ConstWords target, bits::ConstWords base) {
    const std::vector<size_t> at = bits::differing(target, base);
    const Stream gaps = gaps_of(at), words(node.width, at.size());
    for (size_t j = 0; j < at.size(); ++j) words.words.set(j, target.at(at[j]));
    ByteWriter(header_).varint(at.size());
    BREVIS_ASSIGN(const bool gaps_fit, encode(node.children[1], gaps.words));
    if (!gaps_fit) return false;
    return encode(node.children[2], words.words);
  }

  Result<bool> encode_node(const Node& node, bits::ConstWords target) {
    const OpSpec& spec = spec_of(node.op);
    Inverted inverted;
    if (node.slot < 0) {
      BREVIS_ASSIGN(const bool fits, invert(spec, node, {}, target, inverted));
      return fits ? encode_children(node, inverted) : Result<bool>(false);
    }
    const std::span<const SlotTable> tables = bound_.tables(node.slot);
    BREVIS_ASSIGN(const std::optional<size_t> choice, choose_own(spec, node, target, inverted));
    if (!choice) return false;
    return first_that_fits(*choice, tables.size(), [&](size_t at) -> Result<bool> {
      if (at != *choice) {
        inverted = Inverted();
        BREVIS_ASSIGN(const bool fits, invert(spec, node, tables[at], target, inverted));
        if (!fits) return false;
      }
      if (tables.size() > 1) header_.push_back(static_cast<uint8_t>(at));
      return encode_children(node, inverted);
    });
  }

  Result<bool> encode_children(const Node& node, const Inverted& inverted) {
    ByteWriter header(header_);
    for (const uint64_t count : inverted.counts) header.varint(count);
    for (size_t i = 0; i < node.children.size(); ++i) {
      if (i == inverted.base) continue;
      BREVIS_ASSIGN(const bool fits, encode(node.children[i], inverted.children[i].view()));
      if (!fits) return false;
    }
    return true;
  }

  // A merge that is decoded by one kernel: no field becomes a stream of its own where that can be spared.
  Result<bool> encode_merge(const Node& node, bits::ConstWords target) {
    const uint64_t seen = bits::kernels().any_bits(target);
    unsigned shift = node.width;
    for (const uint32_t at : node.children) {
      const Node& child = bound_.program().nodes()[at];
      shift -= child.width;
      if (child.op == OpId::literal && child.params[0] == static_cast<uint64_t>(codec::CodecId::packed)) {
        pack_field(target, shift, seen >> shift & bits::low_mask(child.width));
        continue;
      }
      BREVIS_ASSIGN(const bool fits, encode_field(at, child, target, shift));
      if (!fits) return false;
    }
    return true;
  }

  Result<bool> encode_field(uint32_t at, const Node& child, bits::ConstWords target, unsigned shift) {
    const bool listed = child.op == OpId::rank || child.op == OpId::palette;
    if (listed && stands_on_alias(bound_.program().nodes(), at) && child.width <= 16 &&
        target.count <= uint64_t{1} << kPositionBits)
      return encode_listed(child, target, shift);
    const Stream field(child.width, target.count);
    bits::kernels().take_field(target, shift, field.words);
    return encode(at, field.words);
  }

  // What codec `packed` makes of a field whose words together have the bits of `seen`.
  void pack_field(bits::ConstWords target, unsigned shift, uint64_t seen) {
    ByteWriter header(header_);
    if (target.count == 0) return header.varint(0);
    const unsigned b = static_cast<unsigned>(std::bit_width(seen));
    const size_t bytes = (target.count * b + 7) / 8, start = payloads_.size();
    header.varint(1 + bytes);
    payloads_.resize(start + 1 + bytes);
    payloads_[start] = static_cast<uint8_t>(b);
    if (b != 0) bits::kernels().pack_field(target, shift, b, payloads_.data() + start + 1);
  }

  // As choose_own(): of a rank's lists the one with the fewest exceptions, of a palette's one without.
  static std::optional<size_t> choose_list(const Node& node, std::span<const SlotTable> tables, bits::ConstWords target,
                                           unsigned shift) {
    if (tables.size() == 1) return 0;
    const Stream field(node.width, target.count);
    bits::kernels().take_field(target, shift, field.words);
    const codec::Histogram histogram = histogram_of(field.words);
    std::optional<size_t> best;
    uint64_t most = 0;  // words that are listed
    for (size_t i = 0; i < tables.size(); ++i) {
      uint64_t listed = 0;
      auto word = tables[i].list->words.begin();
      for (const auto& [seen, count] : histogram.counts) {
        word = std::lower_bound(word, tables[i].list->words.end(), seen);
        if (word != tables[i].list->words.end() && *word == seen) listed += count;
      }
      if (best && listed <= most) continue;
      best = i;
      most = listed;
    }
    if (node.op == OpId::palette && most != target.count) return std::nullopt;
    return best;
  }

  // encode_by(choice) with what was chosen of a set; where tables further down do not serve what that leaves (they were
  // made for lists of other parts), with the others in turn.
  template <class EncodeBy>
  Result<bool> first_that_fits(size_t choice, size_t tables, EncodeBy encode_by) {
    const size_t header = header_.size(), payloads = payloads_.size();
    for (size_t turn = 0; turn <= tables; ++turn) {
      const size_t at = turn == 0 ? choice : turn - 1;
      if (turn != 0 && at == choice) continue;
      BREVIS_ASSIGN(const bool fits, encode_by(at));
      if (fits) return true;
      header_.resize(header);
      payloads_.resize(payloads);
    }
    return false;
  }

  // A field under a rank or palette of at most 63 or 64 words.
  Result<bool> encode_listed(const Node& node, bits::ConstWords target, unsigned shift) {
    const std::span<const SlotTable> tables = bound_.tables(node.slot);
    const std::optional<size_t> choice = choose_list(node, tables, target, shift);
    if (!choice) return false;
    return first_that_fits(*choice, tables.size(),
                           [&](size_t at) { return encode_listed_by(node, target, shift, at); });
  }

  Result<bool> encode_listed_by(const Node& node, bits::ConstWords target, unsigned shift, size_t choice) {
    const std::span<const SlotTable> tables = bound_.tables(node.slot);
    if (tables.size() > 1) header_.push_back(static_cast<uint8_t>(choice));
    const std::vector<uint64_t>& list = tables[choice].list->words;
    // Words that are not listed: the exceptions' rank, or a place that no alias table has.
    const uint8_t other = node.op == OpId::rank ? static_cast<uint8_t>(list.size()) : 0xff;
    std::vector<uint8_t> table((size_t{1} << node.width) + 3, other);
    for (size_t i = 0; i < list.size(); ++i) table[list[i]] = static_cast<uint8_t>(i);
    const Stream places(bound_.program().nodes()[node.children[0]].width, target.count);
    bits::kernels().look_up(target, shift, node.width, table.data(), places.words.data);
    if (node.op == OpId::palette) {
      if (std::memchr(places.words.data, other, target.count) != nullptr) return false;
      return encode(node.children[0], places.words);
    }

    std::vector<size_t> at;
    for (size_t i = 0; i < target.count; ++i) {
      const void* next = std::memchr(places.words.data + i, other, target.count - i);
      if (next == nullptr) break;
      i = static_cast<size_t>(static_cast<const uint8_t*>(next) - places.words.data);
      at.push_back(i);
    }
    const Stream gaps = gaps_of(at), words(node.width, at.size());
    for (size_t j = 0; j < at.size(); ++j) words.words.set(j, target.at(at[j]) >> shift & bits::low_mask(node.width));
    ByteWriter(header_).varint(at.size());
    for (const auto& [child, stream] : {std::pair(0, &places), std::pair(1, &gaps), std::pair(2, &words)}) {
      BREVIS_ASSIGN(const bool fits, encode(node.children[static_cast<size_t>(child)], stream->words));
      if (!fits) return false;
    }
    return true;
  }

  Result<std::optional<size_t>> choose_own(const OpSpec& spec, const Node& node, bits::ConstWords target,
                                           Inverted& best) {
    const std::span<const SlotTable> tables = bound_.tables(node.slot);
    std::optional<size_t> choice;
    for (size_t i = 0; i < tables.size(); ++i) {
      Inverted tried;
      BREVIS_ASSIGN(const bool fits, invert(spec, node, tables[i], target, tried));
      if (!fits || (choice && tried.bits() >= best.bits())) continue;
      best = std::move(tried);
      choice = i;
    }
    return choice;
  }

  Result<bool> invert(const OpSpec& spec, const Node& node, const SlotTable& table, bits::ConstWords target,
                      Inverted& out) const {
    NodeArgs args{node, table.list.get(), first_word_, {}, table.blob.get()};
    for (size_t i = 0; i < spec.in_step && i < node.children.size(); ++i)
      if (const auto base = base_of(node.children[i], target.count)) args.base = *base, out.base = i;
    return spec.invert(args, target, out.children, out.counts);
  }

  const BoundProgram& bound_;
  const uint32_t first_base_;
  const uint64_t first_word_;
  const std::span<const ByteSpan> bases_;
  ByteVector header_, payloads_;
};

}  // namespace

Result<bool> encode_frame(const BoundProgram& bound, uint32_t region, uint64_t first_word, bits::ConstWords target,
                          ByteVector& out, std::span<const ByteSpan> bases) {
  const uint32_t root = bound.program().regions()[region].root;
  Encoder encoder(bound, region, first_word, bases);
  BREVIS_ASSIGN(const bool fits, encoder.encode(root, target));
  if (fits) encoder.append_to(out);
  return fits;
}

}  // namespace brevis::dsl
