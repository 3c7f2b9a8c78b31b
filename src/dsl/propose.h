// SPDX-License-Identifier: Apache-2.0
//
// What synthesis asks an operator: which of its nodes may be worth standing for the whole of a target stream. Each
// operator answers for itself through OpSpec::propose, so that the search names none of them.
//
// A proposal is a guess from a sample: whether it expresses every word of the stream is found out by invert(), and a
// program that fails on some frame is dropped. Proposals are few (a dozen a target at most), distinct, in a fixed
// order, the likeliest first. Threads: pure. Determinism: integers only; same sample, same proposals.
#pragma once

#include <span>
#include <vector>

#include "bits/words.h"
#include "brevis/types.h"
#include "codec/codec.h"
#include "dsl/program.h"

namespace brevis::dsl {

// Consecutive words of a stream.
struct Window {
  uint64_t position;  // of the first word in the region's stream
  bits::ConstWords words;
};

// The stream that a hole of a program has to produce, as far as a sample shows it.
struct Target {
  unsigned width = 8;
  Dtype dtype = Dtype::unknown;     // whose words these are; unknown below an operator that changed what they mean
  uint64_t words = 0;               // of the whole stream, 0 where it depends on the data
  std::span<const uint64_t> shape;  // of the tensor, row-major; empty where places in the stream mean nothing (bundles)
  std::span<const Window> windows;  // one or more, of one width, spread over the stream
  const codec::Histogram* histogram = nullptr;  // of all windows together; never null when asked
  bool below = false;                           // what another node leaves of a stream, where not all is asked
};

struct Proposal {
  std::vector<uint64_t> params;
  std::vector<Dtype> child_dtypes;  // one a child: what the child's words mean, mostly unknown
  uint64_t gain = 0;                // 1/256 bits that the sample promises a word, where the operator can tell
};

}  // namespace brevis::dsl
