// SPDX-License-Identifier: Apache-2.0
//
// Coding one stream after the other into an archive: statistics, duplicate search, choice of program and tables, then
// every frame encoded in parallel, decoded again and compared, and appended in order. The caller's thread chooses, one
// stream after the other, while workers look at the streams that follow (lookahead.h) and encode the frames of those
// before. Memory is bounded by the window of frames in flight and the few streams that are held while they are looked
// at and encoded, each up to a fixed length.
//
// Errors:  changed (the second pass read other bytes than the first), internal (a frame that does not decode to what
//          went in: nothing is written then), io, no_space, cancelled.
// Threads: one caller; frames are worked on in the pool. Determinism: the caller appends in stream order, so bytes do
//          not depend on the number of threads.
#pragma once

#include <functional>
#include <map>
#include <tuple>

#include "archive/writer.h"
#include "base/threads.h"
#include "bits/combine.h"
#include "pack/frame_queue.h"
#include "pack/lookahead.h"
#include "pack/records.h"
#include "pack/relations.h"
#include "pack/sharing.h"
#include "pack/source.h"
#include "synth/choose.h"

namespace brevis::pack {

bool is_one_region(const dsl::Program& program);

// The words that programs are chosen for, read from `bytes`, which has to live on.
synth::Stream words_of(const SpanStream& bytes, Dtype dtype, unsigned width, std::vector<uint64_t> shape = {});

struct CoderOptions {
  uint64_t frame_bytes = uint64_t{512} << 10;
  bool verify = true;
  size_t window = 4;                                  // frames in flight
  uint64_t hold_bytes = uint64_t{64} << 20;           // streams up to that length are read once and held till encoded
  uint64_t queue_bytes = uint64_t{4} << 20;           // of frames that wait to be encoded or written
  std::map<std::string, std::string> programs;        // dtype name -> program text
  std::optional<synth::SearchOptions> search;         // what it names outlives the coder
  const Bases* bases = nullptr;                       // what may be packed against
  std::string target;                                 // of the archive: bases are named from there
  std::function<Status(uint64_t bytes)> on_progress;  // source bytes done; an Error stops the work
};

// What became of a stream.
struct Coded {
  uint32_t record = 0;
  Digest digest;
  bool duplicate = false;  // stored as a reference to an equal, earlier one
  uint64_t bytes = 0;      // of frames and of tables that are new
  std::optional<synth::SearchTrace> trace;
  uint64_t base_bytes = 0;  // of the stream, if it stands on a base
};

class Coder {
 public:
  using Done = std::function<Status(size_t at, Coded coded)>;

  Coder(const Source& source, archive::Writer& writer, Pool& pool, CoderOptions options);
  // Codes all plans in order; `done` hears of each, in order, on the calling thread. Errors name the plan.
  Status code_all(const std::vector<RecordPlan>& plans, const Done& done);
  // For people; they decide nothing. As in PackedFile.
  double planning_seconds() const { return planning_seconds_; }
  double training_seconds() const { return training_seconds_; }

 private:
  struct Bound {
    std::vector<archive::Binding> bindings;
    std::shared_ptr<const dsl::BoundProgram> program;  // with all of these tables
  };
  struct Shared {                                    // a program and tables that an earlier stream used
    std::shared_ptr<const dsl::BoundProgram> first;  // with the first table of each slot
    Bound all;
  };
  // A stream on its way, held by its frames in flight.
  struct Job;
  using Finish = std::function<Status(Coded coded)>;
  Status code(const RecordPlan& plan, LookAhead::Looked ahead, const Finish& finish);
  // An error gets the name of the plan that it is about: the first to pass here.
  Status of_plan(const RecordPlan& plan, Status status);
  Result<Scan> scan(const SpanStream& stream, unsigned width) const;
  Result<std::optional<uint64_t>> find_equal(const SpanStream& stream, const Digest& digest, const RecordPlan& plan);
  Result<synth::ChooseOptions> options_of(const RecordPlan& plan, const Scan& scan) const;
  LookAhead::Foresee foresee(const RecordPlan& plan) const;
  // coder_choice.cc; `foreseen`: may be null.
  Result<synth::Choice> choose(const SpanStream& stream, const RecordPlan& plan, const Scan& scan,
                               synth::Foreseen* foreseen, unsigned& width);
  static std::vector<std::vector<ByteVector>> table_sets(const synth::Choice& choice, const dsl::BoundProgram& bound,
                                                         const Scan& scan);
  // Drops what was encoded already where other tables are bound.
  Result<Bound> bind_tables(synth::Choice& choice, const Scan& scan);
  Status encode_regions(const synth::Stream& stream, const synth::Choice& choice, const dsl::BoundProgram& bound,
                        const Digest& expected);
  Status encode_frames(const synth::Stream& stream, uint32_t region, uint64_t step, const dsl::BoundProgram& bound,
                       const Digest& expected, const std::vector<archive::BaseSpan>* likes = nullptr);
  // `alone`: a choice that was made already.
  Status code_stream(const RecordPlan& plan, const LookAhead::Looked& ahead, std::optional<synth::Choice> alone,
                     const Finish& finish);
  Status queue_frames(const RecordPlan& plan, const std::shared_ptr<Job>& job);
  // `encoded`: what comes out, if that is known.
  Result<EncodedFrame> encode_one(const synth::Stream& stream, uint32_t region, uint64_t first, uint64_t step,
                                  const dsl::BoundProgram& bound, const std::vector<archive::BaseSpan>* likes = nullptr,
                                  const ByteVector* encoded = nullptr) const;
  // coder_related.cc; nullopt: the stream is better off alone, by `alone` where that had to be looked at.
  Result<std::optional<Coded>> code_related(const RecordPlan& plan, const SpanStream& bytes, const Scan& scanned,
                                            std::optional<synth::Choice>& alone);
  Result<std::optional<std::vector<archive::BaseSpan>>> find_equal_base(const SpanStream& stream, const Digest& digest,
                                                                        const RecordPlan& plan) const;
  std::vector<archive::BaseSpan> name_bases(const std::vector<archive::BaseSpan>& spans);
  Result<Coded> write_equal(const std::vector<archive::BaseSpan>& spans, const RecordPlan& plan, const Digest& digest);
  struct DifferenceStats {
    synth::StreamStats stats;
    uint64_t others = 0;  // words that differ
  };
  struct Related;
  Result<Related> relate(const RecordPlan& plan, const SpanStream& bytes) const;
  Result<DifferenceStats> difference_stats(const synth::Stream& stream) const;
  std::function<Status(uint64_t first, bits::Words out)> base_of(const RecordPlan& plan) const;
  Result<std::shared_ptr<const dsl::BoundProgram>> bind_record(const synth::Choice& choice,
                                                               const std::vector<archive::Binding>& bindings) const;
  Result<Coded> write_related(const RecordPlan& plan, const synth::Stream& own, const synth::Choice& choice,
                              std::vector<archive::Binding> bindings, const Digest& digest);
  Result<synth::Choice> choose_difference(const RecordPlan& plan, const Related& related);
  uint64_t default_frame_words(unsigned width) const;
  void align_frames(const RecordPlan& plan, synth::Choice& choice) const;
  uint64_t table_bytes_from(size_t first) const;
  Result<Coded> write_reference(uint64_t offset, const RecordPlan& plan, const Digest& digest);

  const Source* source_;
  archive::Writer* writer_;
  Pool* pool_;
  CoderOptions options_;
  std::map<std::pair<Digest, uint64_t>, std::vector<uint64_t>> seen_;  // (digest, bytes) -> offsets in the source
  std::vector<Shared> recent_;
  FrameQueue queue_;
  bool failed_ = false;  // and the error has its name
  double planning_seconds_ = 0, training_seconds_ = 0;
  Sharing sharing_;
  // Mates of differences, by their function, too.
  std::map<std::tuple<Dtype, std::string, unsigned, bits::Combine>, synth::Mate> difference_mates_;
};

}  // namespace brevis::pack
