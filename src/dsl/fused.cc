// SPDX-License-Identifier: Apache-2.0
//
// The shape that carries most bytes of most checkpoints: words of 1, 2 or 4 bytes merged from one field that is
// alias-coded, plainly or under a rank or palette, and others that are packed, raw or constant. A kernel makes the
// words out of the payloads; exceptions of a rank are patched afterwards by their positions, without a branch per word.
// Other merges come next to that: a kernel or-s packed fields and the streams of the other children, each computed as
// it may be, in one pass. A difference to a base is added to the base's words as they lie, unfolded on the way, with no
// buffer but the output.
//
// What the nodes one by one would refuse is refused: the alias stream by its own end check; ranks above T and places
// outside a palette by falling back to the nodes when the table can code any; exceptions by giving rank T a placeholder
// that is no word of the list, so that positions can be checked in the output, and by counting rank T while decoding.
#include "dsl/fused.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "bits/combine.h"
#include "codec/alias.h"
#include "codec/lanes.h"
#include "codec/packed.h"

namespace brevis::dsl {

using codec::CodecId;

bool is_literal(const Node& node, CodecId codec) {
  return node.op == OpId::literal && !node.params.empty() && node.params[0] == static_cast<uint64_t>(codec);
}

namespace {

// The literal that is the alias-coded field, or stands under the rank or palette that is; nullopt if neither.
std::optional<uint32_t> alias_leaf(const std::vector<Node>& nodes, uint32_t at) {
  const Node& node = nodes[at];
  const uint32_t leaf = node.op == OpId::rank || node.op == OpId::palette ? node.children[0] : at;
  if (!is_literal(nodes[leaf], CodecId::alias)) return std::nullopt;
  return leaf;
}

bool is_plain(const Node& node) {
  return is_literal(node, CodecId::packed) || is_literal(node, CodecId::raw) || node.op == OpId::constant;
}

// What one frame's fields are, found by walking the children.
struct Fields {
  bits::AliasMerge merge{};
  uint32_t coded = 0;        // the node of the alias-coded field
  uint32_t leaf = 0;         // its literal
  unsigned shift = 0;        // its place
  uint64_t fixed = 0;        // constants
  uint64_t placeholder = 0;  // of rank T, at its place
  uint32_t values[64] = {};
};

// The stored field of a packed or raw child; of no bits if all its words are zero.
Result<bits::PackedField> plain_field(const FrameView& frame, uint32_t at, unsigned shift, size_t words) {
  const Node& node = frame.bound.program().nodes()[at];
  const ByteSpan payload = frame.at(at).payload;
  codec::PackedFields fields{payload, node.width};
  if (is_literal(node, CodecId::packed)) {
    BREVIS_ASSIGN(fields, codec::open_packed(payload, words, node.width));
  } else if (payload.size() != words * (node.width / 8u)) {
    return make_error(Errc::corrupt, "raw payload of " + std::to_string(payload.size()) + " bytes for " +
                                         std::to_string(words) + " words of " + std::to_string(node.width) + " bits");
  }
  return bits::PackedField{fields.bytes.data(), fields.bytes.size(), fields.b, shift};
}

Status add_plain(const FrameView& frame, uint32_t at, unsigned shift, size_t words, Fields& out) {
  const Node& node = frame.bound.program().nodes()[at];
  if (node.op == OpId::constant) {
    out.fixed |= node.params[0] << shift;
    return {};
  }
  BREVIS_ASSIGN(const bits::PackedField field, plain_field(frame, at, shift, words));
  if (field.b != 0) out.merge.fields[out.merge.field_count++] = field;
  return {};
}

// The least word that the ascending list lacks; nullopt when it has all of that width.
std::optional<uint64_t> lacking(std::span<const uint64_t> list, unsigned width) {
  uint64_t word = 0;
  while (word < list.size() && list[word] == word) ++word;
  if (word > bits::low_mask(width)) return std::nullopt;
  return word;
}

// Fills values and merge.counted; false when the frame must be left to the nodes.
bool set_values(const FrameView& frame, Fields& fields) {
  const Node& node = frame.bound.program().nodes()[fields.coded];
  size_t known = 64;  // symbols below this one have values
  const uint64_t* list = nullptr;
  fields.merge.counted = 64;
  uint64_t placeholder = 0;
  if (node.op != OpId::literal) {
    const std::vector<uint64_t>& words = frame.table(fields.coded).list->words;
    list = words.data();
    known = words.size();
    if (node.op == OpId::rank) {
      const auto free_word = lacking(words, node.width);
      if (!free_word) return false;
      placeholder = *free_word;
      fields.merge.counted = static_cast<unsigned>(known);
    }
  }
  const bits::AliasPlanes& planes = *fields.merge.table.planes;
  for (size_t s = 0; s < 64; ++s) {
    const bool coded = planes.frequency[0][s] != 0 || planes.frequency[1][s] != 0;
    const bool exception = s == fields.merge.counted;
    if (coded && s >= known && !exception) return false;
    const uint64_t word = exception ? placeholder : s >= known ? 0 : list == nullptr ? s : list[s];
    if (coded || exception) fields.values[s] = static_cast<uint32_t>(word << fields.shift | fields.fixed);
  }
  fields.placeholder = placeholder << fields.shift;
  fields.merge.values = fields.values;
  return true;
}

template <class Word>
Word load(const uint8_t* words, size_t i) {
  Word word;
  std::memcpy(&word, words + i * sizeof word, sizeof word);
  return word;
}

template <class Word>
void store(uint8_t* words, size_t i, Word word) {
  std::memcpy(words + i * sizeof word, &word, sizeof word);
}

Error corrupt(const char* why) { return make_error(Errc::corrupt, why); }

constexpr size_t kTile = 4096;  // symbols that pass through the first-level cache; a multiple of any number of lanes

// A frame's words on their way out of the payloads.
class Decoding {
 public:
  Status open(bits::AliasMerge& merge, ByteSpan payload, uint8_t* out, size_t count, size_t word_bytes) {
    merge_ = &merge;
    out_ = out;
    count_ = count;
    word_bytes_ = word_bytes;
    return reader_.open(payload, count);
  }
  // The same from symbols that are there already.
  size_t run_from(bits::AliasMerge& merge, const uint8_t* symbols, uint8_t* out, size_t count, size_t word_bytes) {
    merge_ = &merge;
    out_ = out;
    word_bytes_ = word_bytes;
    put(symbols, count);
    return counted_;
  }
  // By the kernel that makes words out of payloads at once, as far as it goes.
  void run() {
    merge_->first = done_;
    const size_t lanes = reader_.cursor().lanes;
    done_ += lanes * bits::kernels().merge_alias[word_bytes_ / 2](*merge_, reader_.cursor(), out_ + done_ * word_bytes_,
                                                                  (count_ - done_) / lanes, counted_);
  }
  // The rest by way of symbols; gives how often the counted symbol came.
  Result<size_t> finish() {
    const auto kernel = bits::kernels().alias_decode;
    const bits::AliasDecoder& table = merge_->table;
    const size_t lanes = reader_.cursor().lanes;
    alignas(64) std::array<uint8_t, kTile + bits::kSymbolSlack> symbols;
    while (count_ - done_ > kTile) {
      size_t got = lanes * kernel(table, reader_.cursor(), symbols.data(), kTile / lanes);
      if (got < kTile) {
        reader_.pad();
        got += lanes * kernel(table, reader_.cursor(), symbols.data() + got, (kTile - got) / lanes);
      }
      if (got < kTile) return corrupt("the words of a coded field run out");
      put(symbols.data(), got);
    }
    const size_t rest = count_ - done_;
    size_t got = lanes * kernel(table, reader_.cursor(), symbols.data(), rest / lanes);
    reader_.pad();
    got += lanes * kernel(table, reader_.cursor(), symbols.data() + got, (rest - got) / lanes);
    BREVIS_TRY(reader_.finish(done_ + got, count_, [&](size_t i, uint32_t& state) {
      symbols[i - done_] = bits::alias_take(*table.planes, state);
    }));
    put(symbols.data(), rest);
    return counted_;
  }

 private:
  void put(const uint8_t* symbols, size_t count) {
    merge_->first = done_;
    bits::kernels().merge_symbols[word_bytes_ / 2](*merge_, symbols, out_ + done_ * word_bytes_, count, counted_);
    done_ += count;
  }

  bits::AliasMerge* merge_ = nullptr;
  codec::LaneReader reader_;
  uint8_t* out_ = nullptr;
  size_t count_ = 0, done_ = 0, counted_ = 0, word_bytes_ = 0;
};

// Exceptions of a rank over the placeholders.
template <class Word>
Status patch(const FrameView& frame, const Fields& fields, uint8_t* out, size_t count, Arena& arena) {
  const Node& node = frame.bound.program().nodes()[fields.coded];
  const uint32_t gaps_node = node.children[1], words_node = node.children[2];
  const size_t exceptions = frame.at(gaps_node).words;
  const auto stream = [&](unsigned width) -> bits::Words {
    return {arena.take(exceptions * bits::lane_bytes(width)), exceptions, static_cast<uint8_t>(width)};
  };
  const bits::Words gaps = stream(20), words = stream(node.width);
  BREVIS_TRY(run_subtree(frame, gaps_node, gaps, arena));
  BREVIS_TRY(run_subtree(frame, words_node, words, arena));
  const Word mask = static_cast<Word>(bits::low_mask(node.width) << fields.shift);
  return bits::visit_lane(node.width, [&]<class Field>(Field) -> Status {
    uint64_t next = 0;
    for (size_t j = 0; j < exceptions; ++j) {
      const uint64_t at = next + gaps.as<uint32_t>()[j];
      if (at >= count) return corrupt("an exception lies outside the frame");
      const Word old = load<Word>(out, at);
      if ((old & mask) != fields.placeholder) return corrupt("an exception lies on a ranked word");
      store(out, at,
            static_cast<Word>((old & ~mask) | static_cast<Word>(uint64_t{words.as<Field>()[j]} << fields.shift)));
      next = at + 1;
    }
    return {};
  });
}

// A frame with a merge, rank or palette of one alias-coded field as its root or below.
class MergeRun {
 public:
  MergeRun(const FrameView& frame, uint32_t at, bits::Words out) : frame_(frame), at_(at), out_(out) {}

  // Finds the fields; false when the frame must be left to the nodes.
  Result<bool> open() {
    const std::vector<Node>& nodes = frame_.bound.program().nodes();
    if (out_.count == 0) return false;
    const Node& node = nodes[at_];
    unsigned shift = node.op == OpId::merge ? node.width : 0;
    for (const uint32_t child : node.op == OpId::merge ? std::span(node.children) : std::span(&at_, 1)) {
      if (child != at_) shift -= nodes[child].width;
      const std::optional<uint32_t> leaf = alias_leaf(nodes, child);
      if (!leaf) {
        BREVIS_TRY(add_plain(frame_, child, shift, out_.count, fields_));
        continue;
      }
      fields_.coded = child;
      fields_.leaf = *leaf;
      fields_.shift = shift;
    }
    fields_.merge.table = codec::alias_decoder(frame_.table(fields_.leaf).codec.get());
    return set_values(frame_, fields_);
  }
  Status run(Arena& arena) {
    BREVIS_ASSIGN(const size_t counted, decode());
    if (frame_.bound.program().nodes()[fields_.coded].op != OpId::rank) return {};
    if (counted != frame_.at(fields_.coded).counts[0]) return corrupt("ranks and exceptions disagree in number");
    return bits::visit_lane(out_.width, [&]<class Word>(Word) -> Status {
      return patch<Word>(frame_, fields_, out_.data, out_.count, arena);
    });
  }

 private:
  // Gives how often the counted symbol came.
  Result<size_t> decode() {
    const NodeFrame& leaf = frame_.at(fields_.leaf);
    Decoding decoding;
    if (leaf.ready != nullptr) return decoding.run_from(fields_.merge, leaf.ready, out_.data, out_.count, out_.lane());
    BREVIS_TRY(decoding.open(fields_.merge, leaf.payload, out_.data, out_.count, out_.lane()));
    decoding.run();
    return decoding.finish();
  }

  const FrameView& frame_;
  const uint32_t at_;
  const bits::Words out_;
  Fields fields_;
};

// `at` is a merge, or itself the rank or palette.
Status run_merge(const FrameView& frame, uint32_t at, bits::Words out, Arena& arena) {
  MergeRun run(frame, at, out);
  BREVIS_ASSIGN(const bool serves, run.open());
  if (!serves) return run_nodes(frame, at, out, arena);
  return run.run(arena);
}

// A merge of any children.
Status run_fields(const FrameView& frame, uint32_t at, bits::Words out, Arena& arena) {
  const std::vector<Node>& nodes = frame.bound.program().nodes();
  bits::FieldMerge merge{};
  unsigned shift = nodes[at].width;
  for (const uint32_t child : nodes[at].children) {
    const Node& node = nodes[child];
    shift -= node.width;
    if (node.op == OpId::constant) {
      merge.fixed |= node.params[0] << shift;
    } else if (is_plain(node)) {
      BREVIS_ASSIGN(const bits::PackedField field, plain_field(frame, child, shift, out.count));
      if (field.b != 0) merge.packed[merge.packed_count++] = field;
    } else if (const uint8_t* const ready = frame.at(child).ready) {
      merge.lanes[merge.lane_count++] = {{ready, out.count, node.width}, shift};
    } else {
      const bits::Words words{arena.take(out.count * bits::lane_bytes(node.width)), out.count, node.width};
      BREVIS_TRY(run_subtree(frame, child, words, arena));
      merge.lanes[merge.lane_count++] = {words, shift};
    }
  }
  bits::kernels().merge_fields[out.lane() / 2](merge, out.data, out.count);
  return {};
}

FusedRun choose_merge(const std::vector<Node>& nodes, const Node& node) {
  size_t coded = 0, stored = 0, others = 0;
  for (const uint32_t child : node.children) {
    if (is_plain(nodes[child]))
      stored += nodes[child].op != OpId::constant;
    else if (alias_leaf(nodes, child))
      ++coded;
    else
      ++others;
  }
  if (coded == 1 && others == 0 && stored <= bits::AliasMerge::kMaxFields) return run_merge;
  return stored <= bits::FieldMerge::kMaxFields && coded + others <= bits::FieldMerge::kMaxFields ? run_fields
                                                                                                  : nullptr;
}

constexpr uint64_t kZigzag = 4;  // of map's functions

bool is_folded(const Node& node) { return node.op == OpId::map && node.params[0] == kZigzag; }

// A combine with a base.
Status run_difference(const FrameView& frame, uint32_t at, bits::Words out, Arena& arena) {
  const std::vector<Node>& nodes = frame.bound.program().nodes();
  const Node& node = nodes[at];
  const bool folded = is_folded(nodes[node.children[0]]);
  const uint32_t inner = folded ? nodes[node.children[0]].children[0] : node.children[0];
  bits::Words steps = out;
  if (reinterpret_cast<uintptr_t>(out.data) % out.lane() != 0) steps.data = arena.take(out.bytes());
  BREVIS_TRY(run_subtree(frame, inner, steps, arena));
  const bits::ConstWords base{frame.base_bytes(nodes[node.children[1]]).data(), out.count, out.width};
  bits::combine(static_cast<bits::Combine>(node.params[0]), steps, base, out, folded);
  return {};
}

}  // namespace

bool stands_on_alias(const std::vector<Node>& nodes, uint32_t at) { return alias_leaf(nodes, at).has_value(); }

FusedRun choose_fused(const BoundProgram& bound, uint32_t at) {
  const std::vector<Node>& nodes = bound.program().nodes();
  const Node& node = nodes[at];
  if (node.op == OpId::rank || node.op == OpId::palette)
    return node.width <= 32 && alias_leaf(nodes, at) ? run_merge : nullptr;
  if (node.op == OpId::combine) return nodes[node.children[1]].op == OpId::base ? run_difference : nullptr;
  if (node.op != OpId::merge || (node.width != 8 && node.width != 16 && node.width != 32)) return nullptr;
  return choose_merge(nodes, node);
}

}  // namespace brevis::dsl
