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
#include <cstring>
#include <optional>

#include "bits/combine.h"
#include "codec/alias.h"
#include "codec/lanes.h"
#include "codec/packed.h"

namespace brevis::dsl {
namespace {

using codec::CodecId;

bool is_literal(const Node& node, CodecId codec) {
  return node.op == OpId::literal && !node.params.empty() && node.params[0] == static_cast<uint64_t>(codec);
}

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

// Field i, read by itself.
uint64_t field_at(const bits::PackedField& field, size_t i) {
  const size_t byte = i * field.b / 8;
  uint8_t window[8] = {};
  std::memcpy(window, field.data + byte, std::min<size_t>(8, field.bytes - byte));
  uint64_t held;
  std::memcpy(&held, window, 8);
  return (held >> i * field.b % 8 & bits::low_mask(field.b)) << field.shift;
}

// Decodes all words; gives how often the counted symbol came.
template <class Word>
Result<size_t> decode_words(bits::AliasMerge& merge, ByteSpan payload, uint8_t* out, size_t count) {
  constexpr size_t kByWidth = sizeof(Word) / 2;
  size_t done = 0, counted = 0;
  codec::LaneReader reader;
  BREVIS_TRY(reader.open(payload, count));
  const size_t lanes = reader.cursor().lanes;
  const auto run = [&](const bits::Kernels& kernels) {
    merge.first = done;
    done += lanes * kernels.merge_alias[kByWidth](merge, reader.cursor(), out + done * sizeof(Word),
                                                  (count - done) / lanes, counted);
  };
  // Vector kernels leave the last rounds, where they would read beyond a field, to the scalar one.
  for (const bits::Kernels* kernels : {&bits::kernels(), &bits::all_kernels().front()}) {
    run(*kernels);
    reader.pad();
    run(*kernels);
  }
  BREVIS_TRY(reader.finish(done, count, [&](size_t i, uint32_t& state) {
    const uint8_t symbol = codec::alias_take(merge.table, state);
    uint64_t word = merge.values[symbol];
    for (size_t k = 0; k < merge.field_count; ++k) word |= field_at(merge.fields[k], i);
    store(out, i, static_cast<Word>(word));
    counted += symbol == merge.counted;
  }));
  return counted;
}

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

template <class Word>
Status run_typed(const FrameView& frame, Fields& fields, uint8_t* out, size_t count, Arena& arena) {
  BREVIS_ASSIGN(const size_t counted, decode_words<Word>(fields.merge, frame.at(fields.leaf).payload, out, count));
  const Node& node = frame.bound.program().nodes()[fields.coded];
  if (node.op != OpId::rank) return {};
  if (counted != frame.at(fields.coded).counts[0]) return corrupt("ranks and exceptions disagree in number");
  return patch<Word>(frame, fields, out, count, arena);
}

// `at` is a merge, or itself the rank or palette.
Status run_merge(const FrameView& frame, uint32_t at, bits::Words out, Arena& arena) {
  const std::vector<Node>& nodes = frame.bound.program().nodes();
  if (out.count == 0) return run_nodes(frame, at, out, arena);
  const Node& node = nodes[at];
  Fields fields;
  unsigned shift = node.op == OpId::merge ? node.width : 0;
  for (const uint32_t child : node.op == OpId::merge ? std::span(node.children) : std::span(&at, 1)) {
    if (child != at) shift -= nodes[child].width;
    const std::optional<uint32_t> leaf = alias_leaf(nodes, child);
    if (!leaf) {
      BREVIS_TRY(add_plain(frame, child, shift, out.count, fields));
      continue;
    }
    fields.coded = child;
    fields.leaf = *leaf;
    fields.shift = shift;
  }
  fields.merge.table = codec::alias_decoder(frame.table(fields.leaf).codec.get());
  if (!set_values(frame, fields)) return run_nodes(frame, at, out, arena);
  return bits::visit_lane(node.width, [&]<class Word>(Word) -> Status {
    if constexpr (sizeof(Word) <= 4) return run_typed<Word>(frame, fields, out.data, out.count, arena);
    return run_nodes(frame, at, out, arena);
  });
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
