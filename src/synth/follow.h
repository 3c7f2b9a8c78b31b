// SPDX-License-Identifier: Apache-2.0
//
// What a mate decides: its cut into fields, that it moved its words, or that it dealt them out. Where the same does
// well enough nothing else is looked at. How fields are coded, steps, classes and tables are always the stream's own.
//
// Errors: those of reading the stream. Threads: pure. Determinism: integers only.
#pragma once

#include "synth/trained.h"

namespace brevis::synth {

// A stream whose mate is asked.
struct Follower {
  const Stream& stream;
  Fields& fields;
  uint64_t entropy;                            // by its statistics
  bool plain;                                  // as its kin tell
  const std::optional<OffsetPromise>& offset;  // that a sample made
  Moved* moved;                                // by that offset; nullptr without one
};

// Whether the mate was dealt out, so that this stream is tried so and in no other way.
bool follows_context(const Follower& follower, const ChooseOptions& options);
// nullopt where there is no mate, or its way does not do here.
Result<std::optional<Choice>> follow_mate(const Follower& follower, const ChooseOptions& options);

}  // namespace brevis::synth
