// SPDX-License-Identifier: Apache-2.0
//
// What a choice asks of its stream alone, whatever other streams ended with: worked out in a worker before the stream's
// turn, so that the thread that chooses, one stream after the other, finds most of it done. A choice with it and one
// without are the same; where a guess was wrong, something was worked out for nothing.
//
// Errors:  those of reading the stream. Threads: made in one thread, used by another, by one choice. Owns: its answers;
//          refers to the statistics. Determinism: every answer is that of the function it stands for.
#pragma once

#include <memory>

#include "synth/candidates.h"
#include "synth/offsets.h"

namespace brevis::synth {

// A stream under an offset.
struct Moved {
  explicit Moved(Shifted moved, uint64_t frame_words) : shifted(std::move(moved)), fields(shifted.stats, frame_words) {}
  const Shifted shifted;
  Fields fields;
  uint64_t training_ns = 0;  // of this thread's processor, for steps and statistics; decides nothing
};

class Foreseen {
 public:
  // `options`: of the choice, as far as they are known; neither `wanted` nor siblings. `plain`: it will be no more than
  // cuts into fields.
  static Result<std::shared_ptr<Foreseen>> of(const Stream& stream, const StreamStats& stats,
                                              const ChooseOptions& options, bool plain);

  // The functions of these names, asked anew where the answer is not at hand. `seen` may be null.
  static Result<std::optional<OffsetPromise>> promising(const Foreseen* seen, const Stream& stream);
  static Result<std::shared_ptr<Moved>> move(const Foreseen* seen, const Stream& stream,
                                             const std::vector<uint64_t>& params, Fields& whole);
  static Result<std::vector<Candidate>> known(const Foreseen* seen, const Stream& stream, Fields& fields, bool counted,
                                              const ChooseOptions& options);
  static Result<std::optional<Choice>> by_context(const Foreseen* seen, const Stream& stream, Fields& fields,
                                                  uint64_t plain, uint64_t limit, uint64_t entropy,
                                                  const ChooseOptions& options);
  static Result<std::optional<Choice>> by_context_like(const Foreseen* seen, const Mate& mate, const Stream& stream,
                                                       Fields& fields, uint64_t limit, uint64_t entropy,
                                                       const ChooseOptions& options);

  Fields& fields() { return fields_; }

 private:
  Foreseen(const StreamStats& stats, uint64_t frame_words) : fields_(stats, frame_words) {}
  Status look(const Stream& stream, const ChooseOptions& options);
  Status look_moved(const Stream& stream, const ChooseOptions& options);

  struct Contexts {
    std::optional<Mate> mate;  // that was followed
    uint64_t plain, limit;
    std::optional<Choice> choice;
  };
  struct Known {
    std::optional<dsl::Expr> mate;  // that there was by then: there may be another one when the stream's turn comes
    bool counted;
    std::vector<Candidate> candidates;
  };
  Fields fields_;
  std::optional<std::optional<OffsetPromise>> promise_;
  std::shared_ptr<Moved> moved_;
  std::optional<Known> known_;
  std::optional<Contexts> contexts_;
};

}  // namespace brevis::synth
