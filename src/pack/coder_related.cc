// SPDX-License-Identifier: Apache-2.0
//
// The part of Coder that packs against bases: a stream equal to bytes of a base costs its name; one that is like such
// bytes becomes a difference, where that is smaller than the stream by itself. Two differences are looked at: steps in
// the order of floats (plain ones for integers), folded so that small ones of either sign are small numbers, and the
// exclusive or. The cheaper one by entropy is given to the same choice of programs as any stream, and the program found
// goes below a `combine`. Beside that an `update` is tried, whose steps depend on the base (updating.h), and where few
// words changed a `patch` (patching.h).
#include <algorithm>
#include <bit>

#include "base/checksum.h"
#include "bits/combine.h"
#include "dsl/encode.h"
#include "dsl/verify.h"
#include "pack/coder.h"
#include "pack/patching.h"
#include "pack/updating.h"
#include "synth/known_good.h"
#include "synth/table_sets.h"

namespace brevis::pack {
namespace {

using bits::Combine;
using dsl::Expr;
using dsl::OpId;

constexpr uint64_t kPartBytes = 1u << 20;
// A difference costs its readers a second decode, so it has to save more than a fiftieth.
constexpr uint64_t kWorthOf = 50;
constexpr uint64_t kEqualFrom = 64;  // bytes; saying where shorter streams stand costs more than they do
// A patch is read so much faster than a difference that it may be larger by a sixteenth, and a little a frame.
constexpr uint64_t kPatchSlackOf = 16, kPatchSlackFrame = 8;

bool is_one_region(const synth::Choice& choice) {
  const auto& regions = choice.program->regions();
  return choice.frame_words.size() == 1 && regions.size() == 1 && regions[0].root == 0;
}

// Words that are not zero.
uint64_t count_others(bits::ConstWords words) {
  return bits::visit_lane(words.width, [&]<class T>(T) {
    const auto all = words.as<T>();
    return words.count - static_cast<uint64_t>(std::count(all.begin(), all.end(), T{0}));
  });
}

struct Way {
  Combine combine = Combine::exclusive_or;
  bool folded = false;
};

// The difference of a stream and the bytes it is like, as a stream of its own.
struct Difference {
  const SpanStream* bytes = nullptr;
  const Bases* bases = nullptr;
  const std::vector<archive::BaseSpan>* spans = nullptr;
  unsigned width = 8;
  Way way;

  Status read(uint64_t first, bits::Words out) const {
    const uint64_t lane = width / 8;
    bits::OwnedWords base(width, out.count);
    BREVIS_TRY(bytes->read(first * lane, out.byte_span()));
    BREVIS_TRY(bases->read(*spans, first * lane, base.words().byte_span()));
    bits::uncombine(way.combine, out, base.view(), out, way.folded);
    return {};
  }
};

// Cut at a bit of its own choice: the top by an alphabet, the rest as it is. Steps have no fixed exponent that a cut
// could follow.
std::optional<dsl::Program> best_cut(const synth::StreamStats& stats, uint64_t frame_words) {
  const Expr lit{OpId::literal, {}, {}};
  const Expr packed{OpId::literal, {static_cast<uint64_t>(codec::CodecId::packed)}, {}};
  std::optional<Expr> best;
  uint64_t least = UINT64_MAX;
  for (unsigned top = 4; top < stats.width && top <= 16; ++top)
    for (const uint64_t ranks : {uint64_t{0}, uint64_t{63}}) {
      Expr field = ranks == 0 ? lit : Expr{OpId::rank, {ranks}, {lit, lit, lit}};
      Expr expr{OpId::merge, {top, stats.width - top}, {std::move(field), packed}};
      const auto cost = synth::cost_by_stats(expr, stats, frame_words);
      if (!cost || *cost >= least) continue;
      least = *cost;
      best = std::move(expr);
    }
  if (!best) return std::nullopt;
  auto program = dsl::build(stats.width, *best, true);
  return program ? std::optional<dsl::Program>(std::move(*program)) : std::nullopt;
}

}  // namespace

Result<std::optional<std::vector<archive::BaseSpan>>> Coder::find_equal_base(const SpanStream& stream,
                                                                             const Digest& digest,
                                                                             const RecordPlan& plan) const {
  using Found = std::optional<std::vector<archive::BaseSpan>>;
  if (plan.like_is_equal) return Found(plan.likes);
  if (stream.bytes() < kEqualFrom) return Found();
  for (const archive::BaseSpan& span : options_.bases->equals(digest, stream.bytes())) {
    const std::vector<archive::BaseSpan> spans{span};
    BREVIS_ASSIGN(const bool equal,
                  equals(stream, [&](uint64_t at, MutByteSpan out) { return options_.bases->read(spans, at, out); }));
    if (equal) return Found(spans);
  }
  return Found();
}

std::vector<archive::BaseSpan> Coder::name_bases(const std::vector<archive::BaseSpan>& spans) {
  std::vector<archive::BaseSpan> out;
  for (const archive::BaseSpan& span : spans)
    out.push_back({writer_->add_base(options_.bases->describe(span.base, options_.target)), span.range});
  return out;
}

Result<Coded> Coder::write_equal(const std::vector<archive::BaseSpan>& spans, const RecordPlan& plan,
                                 const Digest& digest) {
  BREVIS_ASSIGN(auto program, dsl::build(plan.width(), Expr{OpId::base, {}, {}}));
  archive::Record record;
  record.program = writer_->add_program(std::make_shared<dsl::Program>(std::move(program)));
  record.words = plan.bytes() / (plan.width() / 8);
  record.bases = {name_bases(spans)};
  record.digest = digest;
  record.bundle = plan.bundle;
  if (options_.on_progress) BREVIS_TRY(options_.on_progress(plan.bytes()));
  Coded coded;
  coded.record = writer_->add_record(std::move(record));
  coded.digest = digest;
  coded.base_bytes = plan.bytes();
  return coded;
}

// Statistics of the difference, in one pass.
Result<Coder::DifferenceStats> Coder::difference_stats(const synth::Stream& stream) const {
  const uint64_t step = kPartBytes / (stream.width / 8);
  DifferenceStats all;
  BREVIS_TRY(ordered_parallel<DifferenceStats>(
      *pool_, (stream.words + step - 1) / step, options_.window,
      [&](size_t i) -> Result<DifferenceStats> {
        const uint64_t first = i * step;
        bits::OwnedWords words(stream.width, std::min(step, stream.words - first));
        BREVIS_TRY(stream.read(first, words.words()));
        return DifferenceStats{synth::gather(words.view()), count_others(words.view())};
      },
      [&](size_t, DifferenceStats part) -> Status {
        synth::append(all.stats, part.stats);
        all.others += part.others;
        return options_.on_progress ? options_.on_progress(0) : Status{};
      }));
  return all;
}

// How a stream differs from what it is like, by the better of the two ways.
struct Coder::Related {
  Difference difference;
  DifferenceStats seen;

  synth::Stream stream() const {
    synth::Stream out;
    out.width = difference.width;
    out.words = difference.bytes->bytes() / (difference.width / 8);
    out.read = [this](uint64_t first, bits::Words words) { return difference.read(first, words); };
    return out;
  }
};

Result<Coder::Related> Coder::relate(const RecordPlan& plan, const SpanStream& bytes) const {
  const bool is_float = dtype_info(plan.dtype).is_float();
  Related best;
  uint64_t least = UINT64_MAX;
  for (const Way way : {Way{is_float ? Combine::order : Combine::add, true}, Way{Combine::exclusive_or, false}}) {
    Related related{{&bytes, options_.bases, &plan.likes, plan.width(), way}, {}};
    BREVIS_ASSIGN(related.seen, difference_stats(related.stream()));
    const uint64_t entropy = synth::entropy_by_stats(related.seen.stats);
    if (entropy >= least) continue;
    least = entropy;
    best = std::move(related);
  }
  return best;
}

Result<std::optional<Coded>> Coder::code_related(const RecordPlan& plan, const SpanStream& bytes, const Scan& scanned,
                                                 std::optional<synth::Choice>& alone) {
  BREVIS_ASSIGN(const auto equal, find_equal_base(bytes, scanned.digest, plan));
  if (equal) {
    BREVIS_ASSIGN(const Coded coded, write_equal(*equal, plan, scanned.digest));
    return std::optional<Coded>(coded);
  }
  if (plan.likes.empty()) return std::optional<Coded>();
  BREVIS_ASSIGN(const Related related, relate(plan, bytes));
  if (related.seen.others == 0) {
    BREVIS_ASSIGN(const Coded coded, write_equal(plan.likes, plan, scanned.digest));
    return std::optional<Coded>(coded);
  }
  const synth::Stream own = words_of(bytes, plan.dtype, plan.width());
  BREVIS_ASSIGN(synth::Choice choice, choose_difference(plan, related));
  align_frames(plan, choice);
  const bool has_region = is_one_region(choice);
  bool is_whole = false;  // the choice has its base, and is no program of the difference alone
  const PatchSource pair{own, base_of(plan)};
  if (has_region) {
    BREVIS_ASSIGN(auto update, choose_update(pair, related.difference.way.combine, choice.frame_words[0],
                                             choice.estimated_bytes, *pool_, options_.window));
    is_whole = update.has_value();
    if (is_whole) choice = std::move(*update);
  }
  if (related.seen.others <= own.words / kPatchOf) {
    const uint64_t frame_words = has_region ? choice.frame_words[0] : default_frame_words(own.width);
    BREVIS_ASSIGN(auto patch, choose_patch(pair, frame_words, *pool_, options_.window));
    const uint64_t slack = choice.estimated_bytes / kPatchSlackOf + (own.words / frame_words + 1) * kPatchSlackFrame;
    if (patch && (!has_region || patch->estimated_bytes <= choice.estimated_bytes + slack)) {
      choice = std::move(*patch);
      is_whole = true;
    }
  }
  unsigned alone_width = own.width;  // stays: only bytes without a dtype are read in another
  BREVIS_ASSIGN(alone, choose(bytes, plan, scanned, nullptr, alone_width));
  const uint64_t worth = alone->estimated_bytes - alone->estimated_bytes / kWorthOf;
  if ((!is_whole && !has_region) || choice.estimated_bytes > worth) return std::optional<Coded>();

  std::vector<archive::Binding> bindings;
  if (is_whole) {
    for (const ByteVector& table : choice.tables) bindings.push_back({writer_->add_table(table)});
  } else {
    Scan as_stream;
    as_stream.stats = related.seen.stats;
    BREVIS_ASSIGN(Bound bound, bind_tables(choice, as_stream));
    bindings = std::move(bound.bindings);
    Expr inner = choice.program->expr();
    if (related.difference.way.folded) inner = Expr{OpId::map, {4, 0}, {std::move(inner)}};  // zigzag
    const auto combine = static_cast<uint64_t>(related.difference.way.combine);
    BREVIS_ASSIGN(auto program,
                  dsl::build(own.width, Expr{OpId::combine, {combine}, {std::move(inner), Expr{OpId::base, {}, {}}}}));
    choice.program = std::make_shared<dsl::Program>(std::move(program));
  }
  BREVIS_ASSIGN(const Coded coded, write_related(plan, own, choice, std::move(bindings), scanned.digest));
  return std::optional<Coded>(coded);
}

Result<std::shared_ptr<const dsl::BoundProgram>> Coder::bind_record(
    const synth::Choice& choice, const std::vector<archive::Binding>& bindings) const {
  std::vector<std::vector<ByteVector>> tables;
  for (const auto& binding : bindings) {
    tables.emplace_back();
    for (const uint32_t number : binding) tables.back().push_back(writer_->manifest().tables[number]);
  }
  return synth::bind_sets(choice.program, tables);
}

Result<Coded> Coder::write_related(const RecordPlan& plan, const synth::Stream& own, const synth::Choice& choice,
                                   std::vector<archive::Binding> bindings, const Digest& digest) {
  archive::Record record;
  record.bindings = std::move(bindings);
  BREVIS_ASSIGN(const auto bound, bind_record(choice, record.bindings));
  BREVIS_TRY(encode_frames(own, 0, choice.frame_words[0], *bound, digest, &plan.likes));
  record.program = writer_->add_program(choice.program);
  record.words = own.words;
  record.frame_words = choice.frame_words;
  record.bases = {name_bases(plan.likes)};
  record.digest = digest;
  record.bundle = plan.bundle;
  Coded coded;
  coded.record = writer_->add_record(std::move(record));
  coded.digest = digest;
  coded.base_bytes = plan.bytes();
  return coded;
}

// The words that a plan is like.
std::function<Status(uint64_t first, bits::Words out)> Coder::base_of(const RecordPlan& plan) const {
  return [this, &plan](uint64_t first, bits::Words out) {
    return options_.bases->read(plan.likes, first * out.lane(), out.byte_span());
  };
}

// A program of the difference alone.
Result<synth::Choice> Coder::choose_difference(const RecordPlan& plan, const Related& related) {
  const synth::Stream stream = related.stream();
  const synth::StreamStats& stats = related.seen.stats;
  synth::ChooseOptions options;
  options.frame_bytes = options_.frame_bytes;
  const std::tuple key{plan.dtype, plan.role, static_cast<unsigned>(std::bit_width(plan.bytes())),
                       related.difference.way.combine};
  const auto mate = plan.bundle ? difference_mates_.end() : difference_mates_.find(key);
  if (mate != difference_mates_.end()) options.mate = mate->second;
  options.mate_decides = true;
  BREVIS_ASSIGN(synth::Choice choice, synth::choose(stream, stats, options));
  if (choice.shared) return choice;
  options.wanted = best_cut(stats, default_frame_words(stream.width));
  if (options.wanted) {
    BREVIS_ASSIGN(synth::Choice cut, synth::choose(stream, stats, options));
    if (!cut.frame_words.empty() && (choice.frame_words.empty() || cut.estimated_bytes < choice.estimated_bytes))
      choice = std::move(cut);
  }
  if (!plan.bundle && choice.mate) difference_mates_.insert_or_assign(key, *choice.mate);
  return choice;
}

uint64_t Coder::default_frame_words(unsigned width) const {
  return std::max<uint64_t>(1, options_.frame_bytes / (width / 8));
}

// Frames that lie on those of the base, so that one here needs one there.
void Coder::align_frames(const RecordPlan& plan, synth::Choice& choice) const {
  if (!is_one_region(choice) || plan.likes.size() != 1) return;
  const auto words = options_.bases->frame_words(plan.likes.front(), plan.width(), options_.frame_bytes);
  const uint64_t period = choice.program->regions()[0].period;
  if (!words || (period != 0 && *words % period != 0)) return;
  choice.frame_words[0] = *words;
  choice.encoded.reset();  // in frames of another length
}

}  // namespace brevis::pack
