// SPDX-License-Identifier: Apache-2.0
//
// What a codec would make of a histogram, told without training its table: planning asks that of hundreds of candidates
// for each one that is trained. Prices come within a few thousandths of what training and estimating would tell.
//
// Errors: none. Threads: pure functions. Determinism: integers only.
#pragma once

#include <optional>

#include "codec/codec.h"

namespace brevis::synth {

struct TablePrice {
  uint64_t payload;  // 1/256 bits
  uint64_t table;    // stored, 1/256 bits
};

// nullopt: the codec cannot serve it. Requires: the codec has tables.
std::optional<TablePrice> price_table(const codec::CodecSpec& spec, const codec::Histogram& histogram);

}  // namespace brevis::synth
