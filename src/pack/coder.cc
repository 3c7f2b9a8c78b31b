// SPDX-License-Identifier: Apache-2.0
#include "pack/coder.h"

#include <algorithm>
#include <bit>

#include "base/checksum.h"
#include "dsl/encode.h"
#include "dsl/text.h"
#include "dsl/verify.h"
#include "synth/fields.h"
#include "synth/spine.h"
#include "synth/table_sets.h"

namespace brevis::pack {
namespace {

constexpr uint64_t kDuplicateFrom = 4096;  // bytes; a reference costs about 30
constexpr size_t kRecentChoices = 8;       // whose tables are tried on a new stream

dsl::Expr reference_to(uint64_t offset) { return {dsl::OpId::ref, {offset}, {}}; }

uint64_t bytes_of(const std::vector<ByteVector>& tables) {
  uint64_t sum = 0;
  for (const auto& table : tables) sum += table.size();
  return sum;
}

}  // namespace

bool is_one_region(const dsl::Program& program) {
  return program.regions().size() == 1 && program.regions()[0].root == 0;
}

synth::Stream words_of(const SpanStream& bytes, Dtype dtype, unsigned width, std::vector<uint64_t> shape) {
  synth::Stream stream;
  stream.shape = std::move(shape);
  stream.dtype = dtype;
  stream.width = width;
  stream.words = bytes.bytes() / (width / 8);
  stream.held = bytes.held();
  stream.read = [&bytes, width](uint64_t first, bits::Words out) {
    return bytes.read(first * (width / 8), out.byte_span());
  };
  return stream;
}

Coder::Coder(const Source& source, archive::Writer& writer, Pool& pool, CoderOptions options)
    : source_(&source),
      writer_(&writer),
      pool_(&pool),
      options_(std::move(options)),
      queue_(pool, std::max(options_.queue_bytes, options_.frame_bytes)) {}

Result<Scan> Coder::scan(const SpanStream& stream, unsigned width) const {
  struct Part {
    ByteVector own;
    ByteSpan bytes;
    synth::StreamStats stats;
  };
  DigestHasher hasher;
  const uint64_t parts = (stream.bytes() + kScanBytes - 1) / kScanBytes;
  ScanParts joined(parts, width);
  BREVIS_TRY(ordered_parallel<Part>(
      *pool_, parts, options_.window,
      [&](size_t i) -> Result<Part> {
        const uint64_t offset = i * kScanBytes;
        const uint64_t n = std::min(kScanBytes, stream.bytes() - offset);
        Part part;
        if (stream.held() == nullptr) {
          part.own.resize(n);
          BREVIS_TRY(stream.read(offset, part.own));
        }
        part.bytes = stream.held() == nullptr ? ByteSpan(part.own) : ByteSpan(stream.held() + offset, n);
        part.stats = synth::gather({part.bytes.data(), n / (width / 8), static_cast<uint8_t>(width)});
        return part;
      },
      [&](size_t, Part part) -> Status {
        hasher.update(part.bytes);
        joined.add(part.stats);
        return options_.on_progress ? options_.on_progress(0) : Status{};
      }));
  Scan result = joined.take();
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

std::vector<std::vector<ByteVector>> Coder::table_sets(const synth::Choice& choice, const dsl::BoundProgram& bound,
                                                       const Scan& scan) {
  if (scan.stats.width != choice.program->width() || !is_one_region(*choice.program) || choice.frame_words.empty())
    return synth::single_sets(choice.tables);
  const uint64_t frames_a_part = scan.stats.words / std::max<size_t>(scan.parts.size(), 1) / choice.frame_words[0] + 1;
  return synth::add_tables(bound, choice.tables, scan.parts, frames_a_part);
}

// The tables of an earlier stream where they cost less than tables of its own, as far as order-0 statistics tell: they
// also tell for certain that every word is in them.
Result<Coder::Bound> Coder::bind_tables(synth::Choice& choice, const Scan& scan) {
  const synth::StreamStats& stats = scan.stats;
  BREVIS_ASSIGN(const auto bound, synth::bind_sets(choice.program, synth::single_sets(choice.tables)));
  Bound own{{}, bound};
  if (choice.tables.empty() || !is_one_region(*choice.program)) {
    for (const ByteVector& table : choice.tables) own.bindings.push_back({writer_->add_table(table)});
    return own;
  }
  const bool may_share =
      scan.parts.empty() && stats.width <= 16 && stats.width == choice.program->width() && !recent_.empty();
  if (may_share) {
    synth::Fields fields(stats, 0);
    const auto own_cost = synth::cost_under(*bound, fields);
    uint64_t best_cost = own_cost ? *own_cost + 8 * 256 * bytes_of(choice.tables) : 0;
    const Shared* best = nullptr;
    for (const Shared& shared : recent_) {
      if (shared.first->program().width() != choice.program->width()) continue;  // its tables are of other words
      if (shared.first->program().expr() != choice.program->expr()) continue;
      const auto cost = synth::cost_under(*shared.first, fields);
      if (cost && *cost < best_cost) {
        best_cost = *cost;
        best = &shared;
      }
    }
    if (best != nullptr) {
      choice.encoded.reset();
      return best->all;
    }
  }
  const auto sets = table_sets(choice, *bound, scan);
  for (const auto& set : sets) {
    own.bindings.emplace_back();
    for (const ByteVector& table : set) own.bindings.back().push_back(writer_->add_table(table));
  }
  if (sets != synth::single_sets(choice.tables)) {
    choice.encoded.reset();
    BREVIS_ASSIGN(own.program, synth::bind_sets(choice.program, sets));
  }
  recent_.insert(recent_.begin(), Shared{bound, own});
  if (recent_.size() > kRecentChoices) recent_.pop_back();
  return own;
}

Status Coder::encode_regions(const synth::Stream& stream, const synth::Choice& choice, const dsl::BoundProgram& bound,
                             const Digest& expected) {
  const auto regions = synth::Regions::of(*choice.program, stream);
  if (!regions) return make_error(Errc::internal, "a skeleton does not fit the stream it was chosen for");
  BREVIS_ASSIGN(const auto truth, regions->is_true());
  if (!truth || truth->whole != expected) return source_->changed();
  for (uint32_t r = 0; r < regions->count(); ++r)
    BREVIS_TRY(encode_frames(regions->region(r), r, choice.frame_words[r], bound, truth->regions[r]));
  return {};
}

Result<EncodedFrame> Coder::encode_one(const synth::Stream& stream, uint32_t region, uint64_t first, uint64_t step,
                                       const dsl::BoundProgram& bound, const std::vector<archive::BaseSpan>* likes,
                                       const ByteVector* encoded) const {
  const auto of_frame = [&] { return ", frame " + std::to_string(first / step) + " of '" + source_->path() + "'"; };
  EncodedFrame frame{{}, {}, {}};
  BREVIS_ASSIGN(frame.words, stream.at(first, std::min(step, stream.words - first), frame.read));
  ByteVector base;
  std::vector<ByteSpan> bases;
  if (likes != nullptr) {
    base.resize(frame.words.bytes());
    BREVIS_TRY(options_.bases->read(*likes, first * (stream.width / 8), base));
    bases = {base};
  }
  if (encoded != nullptr) {
    frame.stored = *encoded;
  } else {
    BREVIS_ASSIGN(const bool fits, dsl::encode_frame(bound, region, first, frame.words, frame.stored, bases));
    if (!fits) {
      BREVIS_TRY(source_->unchanged());
      return make_error(Errc::internal, "a program does not express the stream it was chosen for" + of_frame());
    }
  }
  if (!options_.verify) return frame;
  thread_local Arena arena;
  arena.reset();
  const auto original = frame.words.byte_span();
  thread_local ByteVector decoded;
  decoded.resize(original.size());
  BREVIS_TRY(dsl::decode_frame(bound, region, first, frame.stored, decoded, arena, bases));
  if (!std::equal(decoded.begin(), decoded.end(), original.begin()))
    return make_error(Errc::internal,
                      "a frame does not decode to what was encoded; nothing was written, please report "
                      "this" +
                          of_frame());
  return frame;
}

Status Coder::encode_frames(const synth::Stream& stream, uint32_t region, uint64_t step, const dsl::BoundProgram& bound,
                            const Digest& expected, const std::vector<archive::BaseSpan>* likes) {
  const uint64_t frames = (stream.words + step - 1) / step;
  DigestHasher hasher;
  BREVIS_TRY(ordered_parallel<EncodedFrame>(
      *pool_, frames, options_.window,
      [&](size_t i) { return encode_one(stream, region, i * step, step, bound, likes); },
      [&](size_t, EncodedFrame frame) -> Status {
        hasher.update(frame.words.byte_span());
        BREVIS_TRY(writer_->append_frame(frame.stored));
        return options_.on_progress ? options_.on_progress(frame.words.bytes()) : Status{};
      }));
  if (hasher.digest() != expected) return source_->changed();
  return {};
}

uint64_t Coder::table_bytes_from(size_t first) const {
  uint64_t sum = 0;
  const auto& all = writer_->manifest().tables;
  for (size_t i = first; i < all.size(); ++i) sum += all[i].size();
  return sum;
}

struct Coder::Job {
  std::shared_ptr<SpanStream> bytes;
  synth::Stream stream;  // of those bytes
  synth::Choice choice;
  std::shared_ptr<const dsl::BoundProgram> bound;
  archive::Record record;
  DigestHasher hasher;
  Coded coded;
};

Status Coder::of_plan(const RecordPlan& plan, Status status) {
  if (status || failed_ || status.error().kind() == Errc::cancelled) return status;
  failed_ = true;
  return std::move(status).error().within("'" + source_->path() + "', " + plan.name);
}

Status Coder::code_all(const std::vector<RecordPlan>& plans, const Done& done) {
  LookAhead ahead(*source_, *pool_, plans, options_.hold_bytes,
                  [this](const RecordPlan& plan) { return foresee(plan); });
  for (size_t at = 0; at < plans.size(); ++at) {
    auto looked = ahead.next();
    if (!looked) return of_plan(plans[at], std::move(looked).error());
    BREVIS_TRY(of_plan(plans[at], code(plans[at], std::move(*looked),
                                       [&done, at](Coded coded) { return done(at, std::move(coded)); })));
  }
  return queue_.flush();
}

Status Coder::code(const RecordPlan& plan, LookAhead::Looked ahead, const Finish& finish) {
  if (!ahead.scan) {
    BREVIS_ASSIGN(Scan scanned, scan(*ahead.bytes, plan.width()));
    ahead.scan = std::make_shared<Scan>(std::move(scanned));
  } else if (options_.on_progress) {
    BREVIS_TRY(options_.on_progress(0));
  }
  const Scan& scanned = *ahead.scan;
  BREVIS_ASSIGN(const auto equal, find_equal(*ahead.bytes, scanned.digest, plan));
  if (equal)
    return queue_.then([this, &plan, finish, offset = *equal, digest = scanned.digest]() -> Status {
      auto coded = write_reference(offset, plan, digest);
      return of_plan(plan, coded ? finish(std::move(*coded)) : Status(std::move(coded).error()));
    });
  std::optional<synth::Choice> alone;
  if (options_.bases != nullptr && plan.kind != archive::SegmentKind::prefix) {
    BREVIS_TRY(queue_.flush());
    const uint64_t before = writer_->bytes_written();
    const size_t tables = writer_->manifest().tables.size();
    BREVIS_ASSIGN(auto related, code_related(plan, *ahead.bytes, scanned, alone));
    if (related) {
      related->bytes = writer_->bytes_written() - before + table_bytes_from(tables);
      return finish(std::move(*related));
    }
  }
  return code_stream(plan, ahead, std::move(alone), finish);
}

Status Coder::code_stream(const RecordPlan& plan, const LookAhead::Looked& ahead, std::optional<synth::Choice> alone,
                          const Finish& finish) {
  const Scan& scanned = *ahead.scan;
  unsigned width = plan.width();
  const uint64_t start = thread_cpu_ns();
  if (!alone) {
    BREVIS_ASSIGN(alone, choose(*ahead.bytes, plan, scanned, ahead.foreseen.get(), width));
  }
  const auto job = std::make_shared<Job>();
  job->bytes = ahead.bytes;
  job->choice = std::move(*alone);
  job->stream = words_of(*job->bytes, plan.dtype, width, plan.shape);
  const size_t tables = writer_->manifest().tables.size();
  const uint64_t chosen = thread_cpu_ns();
  BREVIS_ASSIGN(Bound bound, bind_tables(job->choice, scanned));
  job->record.bindings = std::move(bound.bindings);
  job->bound = std::move(bound.program);
  const uint64_t end = thread_cpu_ns();
  const double training = static_cast<double>(job->choice.training_ns + end - chosen) * 1e-9;
  training_seconds_ += training;
  planning_seconds_ += ahead.foresee_seconds + static_cast<double>(end - start) * 1e-9 - training;
  job->coded = Coded{0, scanned.digest, false, table_bytes_from(tables), job->choice.trace, 0};
  job->record.words = job->stream.words;
  job->record.frame_words = job->choice.frame_words;
  job->record.digest = scanned.digest;
  job->record.bundle = plan.bundle;
  const bool needs_no_data = job->choice.frame_words.empty();
  if (!needs_no_data && is_one_region(*job->choice.program)) {
    BREVIS_TRY(queue_frames(plan, job));
  } else if (!needs_no_data) {
    BREVIS_TRY(queue_.flush());
    const uint64_t before = writer_->bytes_written();
    BREVIS_TRY(encode_regions(job->stream, job->choice, *job->bound, scanned.digest));
    job->coded.bytes += writer_->bytes_written() - before;
  }
  return queue_.then([this, job, finish, needs_no_data]() -> Status {
    if (needs_no_data && options_.on_progress) BREVIS_TRY(options_.on_progress(job->bytes->bytes()));
    job->record.program = writer_->add_program(job->choice.program);
    job->coded.record = writer_->add_record(std::move(job->record));
    return finish(std::move(job->coded));
  });
}

Status Coder::queue_frames(const RecordPlan& plan, const std::shared_ptr<Job>& job) {
  const uint64_t step = job->choice.frame_words[0];
  for (uint64_t first = 0; first < job->stream.words; first += step) {
    const uint64_t bytes = std::min(step, job->stream.words - first) * (job->stream.width / 8);
    BREVIS_TRY(queue_.push(
        bytes,
        [this, job, first, step] {
          // What is read anew may have changed since it was encoded.
          const auto& encoded = job->choice.encoded;
          const bool known = encoded && first / step < encoded->size() && job->bytes->held() != nullptr;
          return encode_one(job->stream, 0, first, step, *job->bound, nullptr,
                            known ? &(*encoded)[first / step] : nullptr);
        },
        [this, job, &plan](Result<EncodedFrame> made) -> Status {
          if (!made) return of_plan(plan, std::move(made).error());
          const bits::ConstWords words = made->words;
          if (job->bytes->held() == nullptr) job->hasher.update(words.byte_span());
          job->coded.bytes += made->stored.size();
          BREVIS_TRY(of_plan(plan, writer_->append_frame(made->stored)));
          return options_.on_progress ? options_.on_progress(words.bytes()) : Status{};
        }));
  }
  return queue_.then([this, job, &plan]() -> Status {
    // What is in memory is what was looked at.
    if (job->bytes->held() == nullptr && job->hasher.digest() != job->coded.digest)
      return of_plan(plan, source_->changed());
    return {};
  });
}

}  // namespace brevis::pack
