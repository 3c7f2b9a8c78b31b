// SPDX-License-Identifier: Apache-2.0
//
// What running a node costs the reader, as a price in size: 1/256 bit for every word of the node's stream, from a
// fixed table. Measured once on one machine and rounded; never timed while packing, so that archives do not depend on
// the machine.
//
// Threads: pure. Errors: none.
#pragma once

#include "dsl/program.h"

namespace brevis::synth {

// How much decode time counts against bytes: prices are multiplied by lambda / kLambdaOne.
constexpr uint64_t kLambdaOne = 16;

// Price of a word, before lambda, under a node of these parameters.
uint64_t decode_cost(dsl::OpId op, const std::vector<uint64_t>& params);

// The same for a literal's codec, lambda apart. Codecs whose tables live in registers run several times faster than
// those that look words up in memory, which have to save a tenth of a bit.
uint64_t codec_decode_cost(codec::CodecId codec);

}  // namespace brevis::synth
