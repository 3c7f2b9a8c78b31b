// SPDX-License-Identifier: Apache-2.0
//
// A frame is run in two steps. First its header is read, which gives the length and payload of every stream, so that
// all that can be wrong about sizes is found before anything is decoded. Then the nodes are evaluated from the leaves
// up, each into a buffer of the arena that its parent took, the root into the caller's bytes. Siblings stay alive until
// their parent has run; what they needed below them does not. The gate (verify.h) has bounded the sum of all streams.
#include "dsl/exec.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/coding.h"
#include "dsl/ahead.h"
#include "dsl/fused.h"
#include "dsl/verify.h"

namespace brevis::dsl {
namespace {

Error in_node(Error error, const OpSpec& spec, uint32_t node) {
  return std::move(error).within(std::string(spec.name) + " (node " + std::to_string(node) + ")");
}

// Every operator with a word list has the list's size as its first parameter.
Result<std::shared_ptr<const WordList>> load_word_list(const Node& node, ByteSpan stored) {
  auto list = std::make_shared<WordList>();
  const uint64_t size = node.params[0], limit = bits::low_mask(node.width);
  if (stored.size() < size) return make_error(Errc::corrupt, "a word list is shorter than its program says");
  list->words.reserve(size);
  ByteReader reader(stored);
  uint64_t least = 0;
  bool full = false;
  for (uint64_t i = 0; i < size; ++i) {
    if (full) return make_error(Errc::corrupt, "a word list goes on after the largest word");
    BREVIS_ASSIGN(const uint64_t step, reader.varint_up_to(limit - least, "step of a word list"));
    list->words.push_back(least + step);
    full = least + step == limit;
    least += step + 1;
  }
  if (!reader.at_end()) return make_error(Errc::corrupt, "a word list is longer than its program says");
  return std::shared_ptr<const WordList>(std::move(list));
}

Status check_bound(const Program& program, const std::vector<std::vector<SlotTable>>& tables) {
  if (tables.size() != program.slots().size())
    return make_error(Errc::corrupt, std::to_string(tables.size()) + " tables are bound to a program with " +
                                         std::to_string(program.slots().size()) + " slots");
  uint64_t entries = 0;
  for (size_t slot = 0; slot < tables.size(); ++slot) {
    entries += tables[slot].size() * table_entries(program.nodes()[program.slots()[slot].node]);
    if (entries > kMaxTableEntries)
      return make_error(Errc::corrupt, "tables have more than " + std::to_string(kMaxTableEntries) + " entries in all");
    if (tables[slot].empty() || tables[slot].size() > kMaxTableSet)
      return make_error(Errc::corrupt, "slot " + std::to_string(slot) + " has " + std::to_string(tables[slot].size()) +
                                           " tables; 1 to " + std::to_string(kMaxTableSet) + " are possible");
    for (const SlotTable& table : tables[slot]) {
      const bool listed = spec_of(program.nodes()[program.slots()[slot].node].op).slot == SlotKind::word_list;
      if (program.slots()[slot].codec ? !table.codec : listed ? !table.list : !table.blob)
        return make_error(Errc::corrupt, "slot " + std::to_string(slot) + " is bound to a table of another kind");
      // Operators index a list by its node's parameter, so a list loaded for another node must not get here.
      if (listed && table.list->words.size() != program.nodes()[program.slots()[slot].node].params[0])
        return make_error(Errc::corrupt, "slot " + std::to_string(slot) + " is bound to a word list of another size");
    }
  }
  for (const Node& node : program.nodes())
    if (node.op == OpId::literal && node.params.empty())
      return make_error(Errc::invalid_argument, "a template's literals need codecs before it can run");
  if (!program.regions().empty() && program.width() % 8 != 0)
    return make_error(Errc::invalid_argument,
                      "words of " + std::to_string(program.width()) + " bits are no whole bytes of a file");
  return {};
}

Status evaluate(const FrameView& frame, uint32_t at, bits::Words out, Arena& arena);
Status run_unfused(const FrameView& frame, uint32_t at, bits::Words out, Arena& arena);

Status decode_literal(const FrameView& frame, uint32_t at, bits::Words out) {
  const Node& node = frame.bound.program().nodes()[at];
  if (const uint8_t* const ready = frame.at(at).ready) {
    std::memcpy(out.data, ready, out.bytes());
    return {};
  }
  const codec::Table* table = node.slot < 0 ? nullptr : frame.table(at).codec.get();
  return codec::find_codec(node.params[0])->decode(table, frame.at(at).payload, out);
}

NodeArgs args_of(const FrameView& frame, uint32_t at) {
  const Node& node = frame.bound.program().nodes()[at];
  const SlotTable* table = node.slot < 0 ? nullptr : &frame.table(at);
  return {node, table ? table->list.get() : nullptr, frame.first_word,
          std::span(frame.at(at).counts, spec_of(node.op).counts), table ? table->blob.get() : nullptr};
}

// A node that changes each word of its only child where it stands: no second buffer, and the words are still in cache.
Status run_in_place(const FrameView& frame, uint32_t at, bits::Words out, Arena& arena) {
  const Node& node = frame.bound.program().nodes()[at];
  BREVIS_TRY(evaluate(frame, node.children[0], out, arena));
  const bits::ConstWords child = out;
  const OpSpec& spec = spec_of(node.op);
  if (Status status = spec.run(args_of(frame, at), {&child, 1}, out); !status)
    return in_node(std::move(status).error(), spec, at);
  return {};
}

// A node's words where they are there already and can be read as they lie, else nullptr.
const uint8_t* words_there(const FrameView& frame, uint32_t at) {
  const Node& node = frame.bound.program().nodes()[at];
  if (node.op != OpId::base) return frame.at(at).ready;
  const uint8_t* given = frame.base_bytes(node).data();
  return reinterpret_cast<uintptr_t>(given) % bits::lane_bytes(node.width) == 0 ? given : nullptr;
}

Status run_node(const FrameView& frame, uint32_t at, bits::Words out, Arena& arena) {
  const Node& node = frame.bound.program().nodes()[at];
  const OpSpec& spec = spec_of(node.op);
  const size_t arity = node.children.size();
  if (spec.in_place) return run_in_place(frame, at, out, arena);
  bits::Words* in = reinterpret_cast<bits::Words*>(arena.take(arity * sizeof(bits::Words)));
  bits::ConstWords* views = reinterpret_cast<bits::ConstWords*>(arena.take(arity * sizeof(bits::ConstWords)));
  std::uninitialized_value_construct_n(in, arity);
  for (size_t i = 0; i < arity; ++i) {
    const Node& child = frame.bound.program().nodes()[node.children[i]];
    const size_t words = frame.at(node.children[i]).words;
    if (const uint8_t* given = words_there(frame, node.children[i])) {
      views[i] = {given, words, child.width};
      continue;
    }
    in[i] = {arena.take(words * bits::lane_bytes(child.width)), words, child.width};
    views[i] = in[i];
  }
  for (size_t i = 0; i < arity; ++i)
    if (in[i].data != nullptr) BREVIS_TRY(evaluate(frame, node.children[i], in[i], arena));
  if (Status status = spec.run(args_of(frame, at), {views, arity}, out); !status)
    return in_node(std::move(status).error(), spec, at);
  return {};
}

Status evaluate(const FrameView& frame, uint32_t at, bits::Words out, Arena& arena) {
  const FusedRun fused = frame.bound.fused(at);
  if (fused == nullptr) return run_unfused(frame, at, out, arena);
  const Arena::Mark mark = arena.mark();
  Status status = fused(frame, at, out, arena);
  arena.rewind(mark);
  return status;
}

Status run_unfused(const FrameView& frame, uint32_t at, bits::Words out, Arena& arena) {
  const Node& node = frame.bound.program().nodes()[at];
  if (node.op == OpId::base) {  // as many bytes as words, by check_bases()
    if (out.count != 0) std::memcpy(out.data, frame.base_bytes(node).data(), out.bytes());
    return {};
  }
  if (node.op != OpId::literal) {
    const Arena::Mark mark = arena.mark();
    Status status = run_node(frame, at, out, arena);
    arena.rewind(mark);
    return status;
  }
  Status decoded = decode_literal(frame, at, out);
  if (!decoded) return in_node(std::move(decoded).error(), spec_of(node.op), at);
  return {};
}

// Words of whole bytes, lanes to file order.
void store_words(bits::ConstWords words, uint8_t* out) {
  const size_t bytes = words.width / 8, lane = words.lane();
  if (bytes == lane) {
    if (words.count != 0) std::memcpy(out, words.data, words.bytes());
    return;
  }
  for (size_t i = 0; i < words.count; ++i) std::memcpy(out + i * bytes, words.data + i * lane, bytes);
}

// Counts and table choice of one node, and the lengths of its children.
Status read_node(const BoundProgram& bound, uint32_t root, uint32_t at, ByteReader& reader, std::span<NodeFrame> nodes,
                 Arena& arena) {
  const Node& node = bound.program().nodes()[at];
  const OpSpec& spec = spec_of(node.op);
  NodeFrame& frame = nodes[at - root];
  frame.choice = 0;
  if (node.slot >= 0 && bound.tables(node.slot).size() > 1) {
    BREVIS_ASSIGN(frame.choice, reader.fixed<uint8_t>());
    if (frame.choice >= bound.tables(node.slot).size())
      return make_error(Errc::corrupt, "the frame names table " + std::to_string(frame.choice) + " of a set of " +
                                           std::to_string(bound.tables(node.slot).size()));
  }
  for (size_t i = 0; i < spec.counts; ++i) {
    BREVIS_ASSIGN(frame.counts[i], reader.varint());
  }
  if (node.op == OpId::literal) {
    BREVIS_ASSIGN(frame.payload_bytes, reader.varint_up_to(reader.remaining(), "length of a payload"));
    return {};
  }
  const size_t arity = node.children.size();
  uint64_t* lengths = reinterpret_cast<uint64_t*>(arena.take(arity * sizeof(uint64_t)));
  BREVIS_TRY(spec.child_lengths(node, frame.words, std::span(frame.counts, spec.counts), {lengths, arity}));
  for (size_t i = 0; i < arity; ++i) {
    // No operator has a longer child; the bound on memory rests on it.
    if (lengths[i] > frame.words) return make_error(Errc::corrupt, "a stream is longer than its parent's");
    nodes[node.children[i] - root].words = lengths[i];
  }
  return {};
}

}  // namespace

Status parse_frame(const BoundProgram& bound, uint32_t region, uint64_t words, ByteSpan stored,
                   std::span<NodeFrame> nodes, Arena& arena) {
  const uint32_t root = bound.program().regions()[region].root;
  ByteReader reader(stored);
  nodes[0].words = words;
  const Arena::Mark mark = arena.mark();
  for (uint32_t at = root; at < root + nodes.size(); ++at) {
    Status status = read_node(bound, root, at, reader, nodes, arena);
    arena.rewind(mark);
    if (!status) return in_node(std::move(status).error(), spec_of(bound.program().nodes()[at].op), at);
  }
  for (uint32_t at = root; at < root + nodes.size(); ++at) {
    if (bound.program().nodes()[at].op != OpId::literal) continue;
    NodeFrame& frame = nodes[at - root];
    BREVIS_ASSIGN(frame.payload, reader.bytes(frame.payload_bytes));
  }
  if (!reader.at_end())
    return make_error(Errc::corrupt, "a frame has " + std::to_string(reader.remaining()) + " bytes left over");
  return {};
}

Status run_subtree(const FrameView& frame, uint32_t node, bits::Words out, Arena& arena) {
  return evaluate(frame, node, out, arena);
}

Status run_nodes(const FrameView& frame, uint32_t node, bits::Words out, Arena& arena) {
  if (reinterpret_cast<uintptr_t>(out.data) % out.lane() == 0) return run_unfused(frame, node, out, arena);
  const bits::Words buffer{arena.take(out.bytes()), out.count, out.width};
  BREVIS_TRY(run_unfused(frame, node, buffer, arena));
  if (out.count != 0) std::memcpy(out.data, buffer.data, out.bytes());
  return {};
}

Result<SlotTable> load_slot(const Program& program, const Slot& slot, ByteSpan stored) {
  return load_slot(program.nodes()[slot.node], stored);
}

Result<SlotTable> load_slot(const Node& node, ByteSpan stored) {
  const OpSpec& spec = spec_of(node.op);
  SlotTable table;
  if (spec.slot == SlotKind::codec_table) {
    BREVIS_ASSIGN(table.codec, codec::find_codec(node.params[0])->load(stored, node.width));
  } else if (spec.slot == SlotKind::word_list) {
    BREVIS_ASSIGN(table.list, load_word_list(node, stored));
  } else {
    BREVIS_ASSIGN(table.blob, spec.load(node, stored));
  }
  return table;
}

uint64_t table_entries(const Node& node) {
  const OpSpec& spec = spec_of(node.op);
  if (spec.slot == SlotKind::codec_table) return uint64_t{1} << std::min<unsigned>(node.width, 16);
  return spec.slot == SlotKind::word_list ? node.params[0] : spec.blob_entries(node);
}

ByteVector store_word_list(std::span<const uint64_t> ascending) {
  ByteVector out;
  ByteWriter writer(out);
  uint64_t least = 0;
  for (const uint64_t word : ascending) {
    assert(word >= least);
    writer.varint(word - least);
    least = word + 1;
  }
  return out;
}

Result<std::shared_ptr<const BoundProgram>> BoundProgram::bind(std::shared_ptr<const Program> program,
                                                               std::vector<std::vector<SlotTable>> tables, bool fuse) {
  BREVIS_TRY(check_bound(*program, tables));
  auto bound = std::make_shared<BoundProgram>();
  bound->program_ = std::move(program);
  bound->tables_ = std::move(tables);
  const std::vector<Node>& nodes = bound->program_->nodes();
  bound->fused_.resize(nodes.size(), nullptr);
  for (uint32_t at = 0; at < nodes.size(); ++at)
    if (fuse && nodes[at].region >= 0) bound->fused_[at] = choose_fused(*bound, at);
  return std::shared_ptr<const BoundProgram>(std::move(bound));
}

namespace {

// Bytes for every `base` node of the region, each for `words` words.
Status check_bases(const Program& program, const Region& region, size_t words, std::span<const ByteSpan> bases) {
  if (bases.size() != region.bases)
    return make_error(Errc::invalid_argument, "the bytes of " + std::to_string(bases.size()) +
                                                  " bases for a frame of " + std::to_string(region.bases));
  for (size_t i = 0; i < bases.size(); ++i)
    if (bases[i].size() != words * (program.nodes()[program.bases()[region.first_base + i]].width / 8u))
      return make_error(Errc::invalid_argument, "the bytes of a base do not fit the frame");
  return {};
}

}  // namespace

namespace {

size_t word_bytes_of(const FrameTask& task) {
  const Program& program = task.bound->program();
  return program.nodes()[program.regions()[task.region].root].width / 8;
}

// The frame's streams; its nodes are the arena's. `fields` gets those that gain by it.
Result<FrameView> open_frame(const FrameTask& task, Arena& arena, Ahead& fields) {
  const Program& program = task.bound->program();
  const uint32_t root = program.regions()[task.region].root;
  const size_t word_bytes = word_bytes_of(task), words = task.out.size() / word_bytes;
  if (task.out.size() > kMaxFrameBytes || task.out.size() % word_bytes != 0)
    return make_error(Errc::invalid_argument, std::to_string(task.out.size()) + " bytes are no frame of words of " +
                                                  std::to_string(word_bytes));
  BREVIS_TRY(check_bases(program, program.regions()[task.region], words, task.bases));
  const size_t count = program.nodes()[root].end - root;
  NodeFrame* frames = reinterpret_cast<NodeFrame*>(arena.take(count * sizeof(NodeFrame)));
  std::uninitialized_default_construct_n(frames, count);
  BREVIS_TRY(parse_frame(*task.bound, task.region, words, task.stored, {frames, count}, arena));
  const FrameView frame{*task.bound, root, task.first_word, {frames, count}, task.bases};
  fields.add(frame, {frames, count});
  return frame;
}

// The root's words where they are to be, as a kernel that may write at any place takes them.
bits::Words words_of(const FrameTask& task) {
  const size_t word_bytes = word_bytes_of(task);
  return {task.out.data(), task.out.size() / word_bytes, static_cast<uint8_t>(8 * word_bytes)};
}

bool lanes_are_words(const FrameTask& task) {
  const size_t word_bytes = word_bytes_of(task);
  return word_bytes == bits::lane_bytes(static_cast<unsigned>(8 * word_bytes));
}

Status run_frame(const FrameTask& task, const FrameView& frame, Arena& arena) {
  const bits::Words words = words_of(task);
  const bool aligned = reinterpret_cast<uintptr_t>(words.data) % words.lane() == 0;
  if (lanes_are_words(task) && (aligned || task.bound->fused(frame.root)))
    return evaluate(frame, frame.root, words, arena);
  const bits::Words buffer{arena.take(words.bytes()), words.count, words.width};
  BREVIS_TRY(evaluate(frame, frame.root, buffer, arena));
  store_words(buffer, task.out.data());
  return {};
}

constexpr size_t kMostTogether = 16;

// Decodes the first tasks, and gives how many.
size_t decode_some(std::span<FrameTask> tasks, Arena& arena) {
  const Arena::Mark mark = arena.mark();
  std::array<std::optional<FrameView>, kMostTogether> frames;
  Ahead fields(arena);
  size_t count = 0;
  for (; count < std::min(tasks.size(), kMostTogether) && !fields.full(); ++count) {
    Result<FrameView> frame = open_frame(tasks[count], arena, fields);
    if (frame)
      frames[count].emplace(*frame);
    else
      tasks[count].status = std::move(frame).error();
  }
  fields.decode();
  for (size_t i = 0; i < count; ++i) {
    if (!frames[i]) continue;
    const Arena::Mark before = arena.mark();
    tasks[i].status = run_frame(tasks[i], *frames[i], arena);
    arena.rewind(before);
  }
  arena.rewind(mark);
  return count;
}

}  // namespace

Status decode_frame(const BoundProgram& bound, uint32_t region, uint64_t first_word, ByteSpan stored, MutByteSpan out,
                    Arena& arena, std::span<const ByteSpan> bases) {
  FrameTask task{&bound, region, first_word, stored, out, bases};
  decode_some({&task, 1}, arena);
  return std::move(task.status);
}

void decode_frames(std::span<FrameTask> tasks, Arena& arena) {
  while (!tasks.empty()) tasks = tasks.subspan(decode_some(tasks, arena));
}

Result<std::vector<LeafBytes>> frame_leaves(const BoundProgram& bound, uint32_t region, uint64_t words,
                                            ByteSpan stored) {
  const uint32_t root = bound.program().regions()[region].root;
  std::vector<NodeFrame> frames(bound.program().nodes()[root].end - root);
  Arena arena;
  BREVIS_TRY(parse_frame(bound, region, words, stored, frames, arena));
  std::vector<LeafBytes> leaves;
  for (uint32_t at = root; at < root + frames.size(); ++at)
    if (bound.program().nodes()[at].op == OpId::literal) leaves.push_back({at, frames[at - root].payload_bytes});
  return leaves;
}

uint64_t default_frame_words(const Program& program, const Region& region, uint64_t frame_bytes) {
  const uint64_t bytes = std::clamp(frame_bytes, kMinFrameBytes, kMaxFrameBytes);
  const uint64_t words = std::max<uint64_t>(1, bytes * 8 / program.nodes()[region.root].width);
  return region.period == 0 || region.period > words ? words : words / region.period * region.period;
}

}  // namespace brevis::dsl
