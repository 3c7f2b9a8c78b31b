// SPDX-License-Identifier: Apache-2.0
//
// Inversion runs from the root down: a node's target gives its children's targets until literals are reached. Header
// and payloads are gathered apart, since all lengths stand before all payloads.
#include "dsl/encode.h"

#include <algorithm>

#include "base/coding.h"

namespace brevis::dsl {
namespace {

class Encoder {
 public:
  Encoder(const BoundProgram& bound, uint64_t first_word) : bound_(bound), first_word_(first_word) {}

  Result<bool> encode(uint32_t at, bits::ConstWords target) {
    const Node& node = bound_.program().nodes()[at];
    return node.op == OpId::literal ? encode_literal(node, target) : encode_node(node, target);
  }

  void append_to(ByteVector& out) const {
    out.reserve(out.size() + header_.size() + payloads_.size());
    out.insert(out.end(), header_.begin(), header_.end());
    out.insert(out.end(), payloads_.begin(), payloads_.end());
  }

 private:
  struct Inverted {
    std::vector<bits::OwnedWords> children;
    std::vector<uint64_t> counts;
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

  Result<bool> encode_node(const Node& node, bits::ConstWords target) {
    const OpSpec& spec = spec_of(node.op);
    Inverted inverted;
    if (node.slot < 0) {
      BREVIS_ASSIGN(const bool fits, invert(spec, node, nullptr, target, inverted));
      if (!fits) return false;
    } else {
      BREVIS_ASSIGN(const std::optional<size_t> choice, choose_list(spec, node, target, inverted));
      if (!choice) return false;
      if (bound_.tables(node.slot).size() > 1) header_.push_back(static_cast<uint8_t>(*choice));
    }
    ByteWriter header(header_);
    for (const uint64_t count : inverted.counts) header.varint(count);
    for (size_t i = 0; i < node.children.size(); ++i) {
      BREVIS_ASSIGN(const bool fits, encode(node.children[i], inverted.children[i].view()));
      if (!fits) return false;
    }
    return true;
  }

  Result<std::optional<size_t>> choose_list(const OpSpec& spec, const Node& node, bits::ConstWords target,
                                            Inverted& best) {
    const std::span<const SlotTable> tables = bound_.tables(node.slot);
    std::optional<size_t> choice;
    for (size_t i = 0; i < tables.size(); ++i) {
      Inverted tried;
      BREVIS_ASSIGN(const bool fits, invert(spec, node, tables[i].list.get(), target, tried));
      if (!fits || (choice && tried.bits() >= best.bits())) continue;
      best = std::move(tried);
      choice = i;
    }
    return choice;
  }

  Result<bool> invert(const OpSpec& spec, const Node& node, const WordList* list, bits::ConstWords target,
                      Inverted& out) const {
    return spec.invert({node, list, first_word_, {}}, target, out.children, out.counts);
  }

  const BoundProgram& bound_;
  const uint64_t first_word_;
  ByteVector header_, payloads_;
};

}  // namespace

Result<bool> encode_frame(const BoundProgram& bound, uint32_t region, uint64_t first_word, bits::ConstWords target,
                          ByteVector& out) {
  const uint32_t root = bound.program().regions()[region].root;
  Encoder encoder(bound, first_word);
  BREVIS_ASSIGN(const bool fits, encoder.encode(root, target));
  if (fits) encoder.append_to(out);
  return fits;
}

}  // namespace brevis::dsl
