// SPDX-License-Identifier: Apache-2.0
#include "pack/coder.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "base/checksum.h"
#include "dsl/encode.h"
#include "dsl/text.h"
#include "dsl/verify.h"
#include "synth/complete.h"
#include "synth/spine.h"
#include "synth/table_sets.h"

namespace brevis::pack {
namespace {

constexpr uint64_t kDuplicateFrom = 4096;     // bytes; a reference costs about 30
constexpr size_t kRecentChoices = 8;          // whose tables are tried on a new stream
constexpr uint64_t kGuessOpaqueFrom = 65536;  // bytes; shorter opaque runs are taken as bytes
constexpr uint64_t kScanBytes = 1u << 20;
constexpr uint64_t kDriftParts = 4;      // parts of a long stream whose statistics are kept apart
constexpr uint64_t kDriftFromParts = 4;  // in kScanBytes: shorter streams have one table

dsl::Expr reference_to(uint64_t offset) { return {dsl::OpId::ref, {offset}, {}}; }

// One frame read, encoded and, unless told otherwise, proved by decoding.
struct EncodedFrame {
  ByteVector stored;
  bits::OwnedWords words;
};

Result<std::shared_ptr<const dsl::BoundProgram>> bind_sets(const synth::Choice& choice,
                                                           const std::vector<std::vector<ByteVector>>& sets) {
  std::vector<std::vector<dsl::SlotTable>> slots;
  for (size_t i = 0; i < sets.size(); ++i) {
    slots.emplace_back();
    for (const ByteVector& stored : sets[i]) {
      BREVIS_ASSIGN(auto table, dsl::load_slot(*choice.program, choice.program->slots()[i], stored));
      slots.back().push_back(std::move(table));
    }
  }
  return dsl::BoundProgram::bind(choice.program, std::move(slots));
}

Result<std::shared_ptr<const dsl::BoundProgram>> bind_choice(const synth::Choice& choice,
                                                             const std::vector<ByteVector>& tables) {
  std::vector<std::vector<ByteVector>> sets;
  for (const ByteVector& table : tables) sets.push_back({table});
  return bind_sets(choice, sets);
}

synth::Stream words_of(const SpanStream& bytes, Dtype dtype, unsigned width, std::vector<uint64_t> shape) {
  synth::Stream stream;
  stream.shape = std::move(shape);
  stream.dtype = dtype;
  stream.width = width;
  stream.words = bytes.bytes() / (width / 8);
  stream.read = [&bytes, width](uint64_t first, bits::Words out) {
    return bytes.read(first * (width / 8), out.byte_span());
  };
  return stream;
}

bool is_one_region(const dsl::Program& program) {
  return program.regions().size() == 1 && program.regions()[0].root == 0;
}

uint64_t bytes_of(const std::vector<ByteVector>& tables) {
  uint64_t sum = 0;
  for (const auto& table : tables) sum += table.size();
  return sum;
}

}  // namespace

Coder::Coder(const Source& source, archive::Writer& writer, Pool& pool, CoderOptions options)
    : source_(&source), writer_(&writer), pool_(&pool), options_(std::move(options)) {}

Result<Coder::Scan> Coder::scan(const SpanStream& stream, unsigned width) const {
  struct Part {
    ByteVector bytes;
    synth::StreamStats stats;
  };
  Scan result;
  DigestHasher hasher;
  const uint64_t parts = (stream.bytes() + kScanBytes - 1) / kScanBytes;
  BREVIS_TRY(ordered_parallel<Part>(
      *pool_, parts, options_.window,
      [&](size_t i) -> Result<Part> {
        const uint64_t offset = i * kScanBytes;
        const uint64_t n = std::min(kScanBytes, stream.bytes() - offset);
        Part part;
        part.bytes.resize(n);
        BREVIS_TRY(stream.read(offset, part.bytes));
        part.stats = synth::gather({part.bytes.data(), n / (width / 8), static_cast<uint8_t>(width)});
        return part;
      },
      [&](size_t i, Part part) -> Status {
        hasher.update(part.bytes);
        synth::append(result.stats, part.stats);
        if (width <= 16 && parts >= kDriftFromParts) {
          result.parts.resize(kDriftParts);
          synth::append(result.parts[i * kDriftParts / parts], part.stats);
        }
        return options_.on_progress ? options_.on_progress(0) : Status{};
      }));
  result.digest = hasher.digest();
  return result;
}

Result<std::optional<uint64_t>> Coder::find_equal(const SpanStream& stream, const Digest& digest,
                                                  const RecordPlan& plan) {
  if (plan.kind != archive::SegmentKind::tensor || plan.bundle || stream.bytes() < kDuplicateFrom)
    return std::optional<uint64_t>{};
  auto& offsets = seen_[{digest, stream.bytes()}];
  for (const uint64_t offset : offsets) {
    const SpanStream other(*source_, {{offset, stream.bytes()}});
    BREVIS_ASSIGN(const bool equal, equals(stream, [&](uint64_t at, MutByteSpan out) { return other.read(at, out); }));
    if (equal) return std::optional<uint64_t>(offset);
  }
  offsets.push_back(plan.members.front().span.offset);
  return std::optional<uint64_t>{};
}

Result<Coded> Coder::write_reference(uint64_t offset, const RecordPlan& plan, const Digest& digest) {
  BREVIS_ASSIGN(auto program, dsl::build(plan.width(), reference_to(offset)));
  archive::Record record;
  record.program = writer_->add_program(std::make_shared<dsl::Program>(std::move(program)));
  record.words = plan.bytes() / (plan.width() / 8);
  record.digest = digest;
  if (options_.on_progress) BREVIS_TRY(options_.on_progress(plan.bytes()));
  return Coded{writer_->add_record(std::move(record)), digest, true, 0, std::nullopt, 0};
}

// Opaque bytes may be weights of another format: the reading of them that gives the smallest size wins.
Result<synth::Choice> Coder::choose(const SpanStream& stream, const RecordPlan& plan, const Scan& scan,
                                    unsigned& width) {
  synth::ChooseOptions options;
  options.frame_bytes = options_.frame_bytes;
  options.parts = scan.parts;
  options.search = options_.search;
  options.may_be_text = plan.kind == archive::SegmentKind::opaque;
  if (options.search) options.search->budget->add_stream(stream.bytes());
  const auto wanted = options_.programs.find(std::string(dtype_info(plan.dtype).name));
  if (wanted != options_.programs.end()) {
    BREVIS_ASSIGN(options.wanted,
                  dsl::parse_program("u" + std::to_string(plan.width()) + " = " + wanted->second, true));
  }
  width = plan.width();
  const std::tuple key{plan.dtype, plan.role, static_cast<unsigned>(std::bit_width(stream.bytes()))};
  const bool has_mates = plan.kind == archive::SegmentKind::tensor && !plan.bundle;
  const auto mate = has_mates ? mates_.find(key) : mates_.end();
  if (mate != mates_.end()) options.mate = mate->second;
  BREVIS_ASSIGN(auto best, synth::choose(words_of(stream, plan.dtype, width, plan.shape), scan.stats, options));
  if (has_mates && best.mate) mates_.insert_or_assign(key, *best.mate);
  const bool guess = plan.kind == archive::SegmentKind::opaque && stream.bytes() >= kGuessOpaqueFrom &&
                     stream.bytes() % 4 == 0 && !best.frame_words.empty() && !best.settled;
  if (!guess) return best;
  for (const Dtype dtype : {Dtype::BF16, Dtype::F16, Dtype::F32}) {
    const unsigned bits = dtype_info(dtype).bits;
    BREVIS_ASSIGN(const Scan other, this->scan(stream, bits));
    options.parts = other.parts;
    options.may_be_text = false;
    BREVIS_ASSIGN(auto choice, synth::choose(words_of(stream, dtype, bits, {}), other.stats, options));
    if (choice.estimated_bytes < best.estimated_bytes) {
      best = std::move(choice);
      width = bits;
    }
  }
  return best;
}

// The tables of an earlier stream where they cost less than tables of its own, as far as order-0 statistics tell: they
// also tell for certain that every word is in them.
Result<std::vector<archive::Binding>> Coder::bind_tables(const synth::Choice& choice, const Scan& scan) {
  std::vector<archive::Binding> own;
  if (choice.tables.empty()) return own;
  const synth::StreamStats& stats = scan.stats;
  BREVIS_ASSIGN(const auto bound, bind_choice(choice, choice.tables));
  if (!is_one_region(*choice.program)) {
    for (const ByteVector& table : choice.tables) own.push_back({writer_->add_table(table)});
    return own;
  }
  const bool may_share =
      scan.parts.empty() && stats.width <= 16 && stats.width == choice.program->width() && !recent_.empty();
  if (may_share) {
    const codec::Histogram histogram = stats.field(0, stats.width);
    const auto own_cost = synth::cost_under(*bound, histogram);
    uint64_t best_cost = own_cost ? *own_cost + 8 * 256 * bytes_of(choice.tables) : 0;
    const Shared* best = nullptr;
    for (const Shared& shared : recent_) {
      if (shared.choice.program->width() != choice.program->width()) continue;  // its tables are of other words
      if (shared.choice.program->expr() != choice.program->expr()) continue;
      BREVIS_ASSIGN(const auto other, bind_choice(choice, shared.choice.tables));
      const auto cost = synth::cost_under(*other, histogram);
      if (cost && *cost < best_cost) {
        best_cost = *cost;
        best = &shared;
      }
    }
    if (best != nullptr) return best->bindings;
  }
  const bool whole_words = stats.width == choice.program->width();
  const uint64_t frames_a_part = stats.words / kDriftParts / choice.frame_words[0] + 1;
  for (const auto& set :
       synth::add_tables(*bound, choice.tables, whole_words ? scan.parts : decltype(scan.parts){}, frames_a_part)) {
    own.emplace_back();
    for (const ByteVector& table : set) own.back().push_back(writer_->add_table(table));
  }
  recent_.insert(recent_.begin(), Shared{choice, own});
  if (recent_.size() > kRecentChoices) recent_.pop_back();
  return own;
}

Status Coder::encode_regions(const synth::Stream& stream, const synth::Choice& choice, const dsl::BoundProgram& bound,
                             const Digest& expected) {
  if (is_one_region(*choice.program)) return encode_frames(stream, 0, choice.frame_words[0], bound, expected);
  const auto regions = synth::Regions::of(*choice.program, stream);
  if (!regions) return make_error(Errc::internal, "a skeleton does not fit the stream it was chosen for");
  BREVIS_ASSIGN(const auto truth, regions->is_true());
  if (!truth || truth->whole != expected) return source_->changed();
  for (uint32_t r = 0; r < regions->count(); ++r)
    BREVIS_TRY(encode_frames(regions->region(r), r, choice.frame_words[r], bound, truth->regions[r]));
  return {};
}

Status Coder::encode_frames(const synth::Stream& stream, uint32_t region, uint64_t step, const dsl::BoundProgram& bound,
                            const Digest& expected, const std::vector<archive::BaseSpan>* likes) {
  const uint64_t frames = (stream.words + step - 1) / step;
  DigestHasher hasher;
  BREVIS_TRY(ordered_parallel<EncodedFrame>(
      *pool_, frames, options_.window,
      [&](size_t i) -> Result<EncodedFrame> {
        const uint64_t first = i * step;
        EncodedFrame frame{{}, bits::OwnedWords(stream.width, std::min(step, stream.words - first))};
        BREVIS_TRY(stream.read(first, frame.words.words()));
        ByteVector base;
        std::vector<ByteSpan> bases;
        if (likes != nullptr) {
          base.resize(frame.words.view().bytes());
          BREVIS_TRY(options_.bases->read(*likes, first * (stream.width / 8), base));
          bases = {base};
        }
        BREVIS_ASSIGN(const bool fits,
                      dsl::encode_frame(bound, region, first, frame.words.view(), frame.stored, bases));
        if (!fits) {
          BREVIS_TRY(source_->unchanged());
          return make_error(Errc::internal, "a program does not express the stream it was chosen for, frame " +
                                                std::to_string(i) + " of '" + source_->path() + "'");
        }
        if (options_.verify) {
          thread_local Arena arena;
          arena.reset();
          const auto original = frame.words.view().byte_span();
          ByteVector decoded(original.size());
          BREVIS_TRY(dsl::decode_frame(bound, region, first, frame.stored, decoded, arena, bases));
          if (!std::equal(decoded.begin(), decoded.end(), original.begin()))
            return make_error(Errc::internal, "frame " + std::to_string(i) + " of '" + source_->path() +
                                                  "' does not decode to what was encoded; nothing was written, please "
                                                  "report this");
        }
        return frame;
      },
      [&](size_t, EncodedFrame frame) -> Status {
        hasher.update(frame.words.view().byte_span());
        BREVIS_TRY(writer_->append_frame(frame.stored));
        return options_.on_progress ? options_.on_progress(frame.words.view().bytes()) : Status{};
      }));
  if (hasher.digest() != expected) return source_->changed();
  return {};
}

Result<std::shared_ptr<const dsl::BoundProgram>> Coder::bind_record(
    const synth::Choice& choice, const std::vector<archive::Binding>& bindings) const {
  std::vector<std::vector<ByteVector>> tables;
  for (const auto& binding : bindings) {
    tables.emplace_back();
    for (const uint32_t number : binding) tables.back().push_back(writer_->manifest().tables[number]);
  }
  return bind_sets(choice, tables);
}

Result<Coded> Coder::code(const RecordPlan& plan) {
  std::vector<Range> spans;
  for (const Member& member : plan.members) spans.push_back(member.span);
  const SpanStream bytes(*source_, std::move(spans));
  BREVIS_ASSIGN(const Scan scanned, scan(bytes, plan.width()));
  BREVIS_ASSIGN(const auto equal, find_equal(bytes, scanned.digest, plan));
  if (equal) return write_reference(*equal, plan, scanned.digest);
  const uint64_t before = writer_->bytes_written();
  const size_t tables = writer_->manifest().tables.size();
  std::optional<Coded> related;
  std::optional<synth::Choice> alone;
  if (options_.bases != nullptr && plan.kind != archive::SegmentKind::prefix) {
    BREVIS_ASSIGN(related, code_related(plan, bytes, scanned, alone));
  }
  Coded coded;
  if (related) {
    coded = std::move(*related);
  } else {
    BREVIS_ASSIGN(coded, code_stream(plan, bytes, scanned, std::move(alone)));
  }
  coded.bytes = writer_->bytes_written() - before;
  const auto& all = writer_->manifest().tables;
  for (size_t i = tables; i < all.size(); ++i) coded.bytes += all[i].size();
  return coded;
}

Result<Coded> Coder::code_stream(const RecordPlan& plan, const SpanStream& bytes, const Scan& scanned,
                                 std::optional<synth::Choice> alone) {
  unsigned width = plan.width();
  if (!alone) {
    const auto start = std::chrono::steady_clock::now();
    BREVIS_ASSIGN(alone, choose(bytes, plan, scanned, width));
    planning_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  const synth::Choice& choice = *alone;
  const synth::Stream stream = words_of(bytes, plan.dtype, width, plan.shape);
  archive::Record record;
  BREVIS_ASSIGN(record.bindings, bind_tables(choice, scanned));
  BREVIS_ASSIGN(const auto bound, bind_record(choice, record.bindings));
  if (!choice.frame_words.empty()) {
    BREVIS_TRY(encode_regions(stream, choice, *bound, scanned.digest));
  } else if (options_.on_progress) {
    BREVIS_TRY(options_.on_progress(bytes.bytes()));
  }
  record.program = writer_->add_program(choice.program);
  record.words = stream.words;
  record.frame_words = choice.frame_words;
  record.digest = scanned.digest;
  record.bundle = plan.bundle;
  return Coded{writer_->add_record(std::move(record)), scanned.digest, false, 0, choice.trace, 0};
}

}  // namespace brevis::pack
