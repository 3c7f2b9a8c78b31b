// SPDX-License-Identifier: Apache-2.0
//
// The part of Coder that packs against bases: a stream equal to bytes of a base costs its name; one that is like such
// bytes becomes a difference, where that is smaller than the stream by itself. Two differences are looked at: steps in
// the order of floats (plain ones for integers), folded so that small ones of either sign are small numbers, and the
// exclusive or. The cheaper one by entropy is given to the same choice of programs as any stream, and the program found
// goes below a `combine`.
#include <algorithm>

#include "base/checksum.h"
#include "bits/combine.h"
#include "dsl/encode.h"
#include "dsl/verify.h"
#include "pack/coder.h"
#include "synth/known_good.h"

namespace brevis::pack {
namespace {

using bits::Combine;
using dsl::Expr;
using dsl::OpId;

constexpr uint64_t kPartBytes = 1u << 20;
// A difference costs its readers a second decode, so it has to save more than a fiftieth.
constexpr uint64_t kWorthOf = 50;
constexpr uint64_t kEqualFrom = 64;  // bytes; saying where shorter streams stand costs more than they do

// Words folded so that small numbers of either sign become small ones: the inverse of map(zigzag).
void fold(bits::Words words) {
  bits::visit_lane(words.width, [&]<class T>(T) {
    for (T& word : words.as<T>()) {
      const T negative = static_cast<T>(T{0} - static_cast<T>(word >> (words.width - 1)));
      word = static_cast<T>(static_cast<T>(word << 1) ^ negative);
    }
  });
}

struct Way {
  Combine combine;
  bool folded;
};

// The difference of a stream and the bytes it is like, as a stream of its own.
struct Difference {
  const SpanStream* bytes;
  const Bases* bases;
  const std::vector<archive::BaseSpan>* spans;
  unsigned width;
  Way way;

  Status read(uint64_t first, bits::Words out) const {
    const uint64_t lane = width / 8;
    bits::OwnedWords base(width, out.count);
    BREVIS_TRY(bytes->read(first * lane, out.byte_span()));
    BREVIS_TRY(bases->read(*spans, first * lane, base.words().byte_span()));
    bits::uncombine(way.combine, out, base.view(), out);
    if (way.folded) fold(out);
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
Result<synth::StreamStats> Coder::difference_stats(const synth::Stream& stream) const {
  const uint64_t step = kPartBytes / (stream.width / 8);
  synth::StreamStats all;
  BREVIS_TRY(ordered_parallel<synth::StreamStats>(
      *pool_, (stream.words + step - 1) / step, options_.window,
      [&](size_t i) -> Result<synth::StreamStats> {
        const uint64_t first = i * step;
        bits::OwnedWords words(stream.width, std::min(step, stream.words - first));
        BREVIS_TRY(stream.read(first, words.words()));
        return synth::gather(words.view());
      },
      [&](size_t, synth::StreamStats part) -> Status {
        synth::append(all, part);
        return options_.on_progress ? options_.on_progress(0) : Status{};
      }));
  return all;
}

Result<std::optional<Coded>> Coder::code_related(const RecordPlan& plan, const SpanStream& bytes, const Scan& scanned,
                                                 std::optional<synth::Choice>& alone) {
  BREVIS_ASSIGN(const auto equal, find_equal_base(bytes, scanned.digest, plan));
  if (equal) {
    BREVIS_ASSIGN(const Coded coded, write_equal(*equal, plan, scanned.digest));
    return std::optional<Coded>(coded);
  }
  if (plan.likes.empty()) return std::optional<Coded>();

  const unsigned width = plan.width();
  const bool is_float = dtype_info(plan.dtype).is_float();
  Difference best{&bytes, options_.bases, &plan.likes, width, {}};
  synth::StreamStats best_stats;
  uint64_t least = UINT64_MAX;
  const auto stream_of = [&](const Difference& difference) {
    synth::Stream stream;
    stream.width = width;
    stream.words = bytes.bytes() / (width / 8);
    stream.read = [&difference](uint64_t first, bits::Words out) { return difference.read(first, out); };
    return stream;
  };
  for (const Way way : {Way{is_float ? Combine::order : Combine::add, true}, Way{Combine::exclusive_or, false}}) {
    Difference difference = best;
    difference.way = way;
    BREVIS_ASSIGN(synth::StreamStats stats, difference_stats(stream_of(difference)));
    const uint64_t entropy = synth::entropy_by_stats(stats);
    if (entropy >= least) continue;
    least = entropy;
    best.way = way;
    best_stats = std::move(stats);
  }
  const synth::Stream stream = stream_of(best);
  if (best_stats.constant() && best_stats.first == 0) {
    BREVIS_ASSIGN(const Coded coded, write_equal(plan.likes, plan, scanned.digest));
    return std::optional<Coded>(coded);
  }
  synth::ChooseOptions options;
  options.frame_bytes = options_.frame_bytes;
  BREVIS_ASSIGN(synth::Choice choice, synth::choose(stream, best_stats, options));
  options.wanted = best_cut(best_stats, std::max<uint64_t>(1, options_.frame_bytes / (width / 8)));
  if (options.wanted) {
    BREVIS_ASSIGN(synth::Choice cut, synth::choose(stream, best_stats, options));
    if (!cut.frame_words.empty() && (choice.frame_words.empty() || cut.estimated_bytes < choice.estimated_bytes))
      choice = std::move(cut);
  }
  unsigned alone_width = width;  // stays: only bytes without a dtype are read in another
  BREVIS_ASSIGN(alone, choose(bytes, plan, scanned, alone_width));
  const auto& regions = choice.program->regions();
  if (choice.frame_words.size() != 1 || regions.size() != 1 || regions[0].root != 0 ||
      choice.estimated_bytes > alone->estimated_bytes - alone->estimated_bytes / kWorthOf)
    return std::optional<Coded>();

  Scan as_stream;
  as_stream.stats = std::move(best_stats);
  as_stream.digest = scanned.digest;
  archive::Record record;
  BREVIS_ASSIGN(record.bindings, bind_tables(choice, as_stream));
  Expr inner = choice.program->expr();
  if (best.way.folded) inner = Expr{OpId::map, {4, 0}, {std::move(inner)}};  // zigzag
  Expr whole{OpId::combine, {static_cast<uint64_t>(best.way.combine)}, {std::move(inner), Expr{OpId::base, {}, {}}}};
  BREVIS_ASSIGN(auto program, dsl::build(width, whole));
  choice.program = std::make_shared<dsl::Program>(std::move(program));
  BREVIS_ASSIGN(const auto bound, bind_record(choice, record.bindings));
  synth::Stream own = stream;
  own.read = [&](uint64_t first, bits::Words out) { return bytes.read(first * (width / 8), out.byte_span()); };
  BREVIS_TRY(encode_frames(own, 0, choice.frame_words[0], *bound, scanned.digest, &plan.likes));
  record.program = writer_->add_program(choice.program);
  record.words = stream.words;
  record.frame_words = choice.frame_words;
  record.bases = {name_bases(plan.likes)};
  record.digest = scanned.digest;
  record.bundle = plan.bundle;
  Coded coded;
  coded.record = writer_->add_record(std::move(record));
  coded.digest = scanned.digest;
  coded.base_bytes = bytes.bytes();
  return std::optional<Coded>(coded);
}

}  // namespace brevis::pack
