// SPDX-License-Identifier: Apache-2.0
//
// What the searches of one file share: grammar, effort, budget, and the prior, learned from a few of the file's own
// tensors unless one was given. Everything depends on the file and the options alone, so that a file packed by itself
// or in a directory gives the same bytes.
//
// Errors: those of reading. Threads: one caller. Owns: what search() names, so it outlives the coder.
#pragma once

#include "brevis/pack.h"
#include "pack/records.h"
#include "synth/choose.h"

namespace brevis::pack {

class Planning {
 public:
  // `given`: a prior to use instead of learning, may be null.
  Planning(const PackOptions& options, const synth::Prior* given);
  Planning(const Planning&) = delete;
  // Learns where a prior is wanted and none was given.
  Status learn(const Source& source, const std::vector<RecordPlan>& plans, uint64_t frame_bytes);

  bool searches() const { return effort_.limits.expansions != 0; }
  synth::SearchOptions search() { return {&grammar_, &prior_, &effort_, &budget_}; }
  const synth::Prior& prior() const { return prior_; }

 private:
  synth::Grammar grammar_;
  synth::Prior prior_;
  synth::Effort effort_;
  synth::Budget budget_;
  bool learns_ = false;
};

// A file with a prior. Errors: io, not_found, corrupt, unsupported.
Result<synth::Prior> load_prior(const std::string& path);
// Whether save_prior() would only take the place of a prior, or of nothing. Errors: invalid_argument.
Status check_save_prior(const std::string& path, bool overwrite);
Status save_prior(const std::string& path, const synth::Prior& prior);

}  // namespace brevis::pack
