// SPDX-License-Identifier: Apache-2.0
//
// Completing a structure: a program whose literals leave their codec open gets, for every literal on its own, the codec
// whose size plus decode cost is smallest. Once from order-0 statistics alone (fast, exact for whole streams), once
// from sample streams (any operator, and codecs that statistics cannot foresee).
//
// Costs are in 1/256 bits, integers throughout: payload, the literal's share of tables, a frame's lane states, and a
// fixed price a word for codecs that decode slowly (decode_cost.h), so that a codec must win by more than
// it costs the reader. Errors: none; nullopt means that the structure cannot express the stream.
#pragma once

#include <optional>

#include "bits/words.h"
#include "dsl/exec.h"

namespace brevis::synth {

struct Completed {
  dsl::Expr expr;     // no template left
  uint64_t cost = 0;  // of `words` words, 1/256 bits, decode price included
};

// `frame_words`: how many words of the whole stream share a frame (prices what every frame pays anew). A cost of
// `limit` or more is of no interest and gives nullopt early.
std::optional<Completed> complete_order0(const dsl::Expr& structure, const codec::Histogram& histogram,
                                         uint64_t frame_words, uint64_t limit = UINT64_MAX);
// `frames`: sample windows, each standing for a frame. All of one width. `limit`: as above; what comes near it may be
// returned nevertheless. `quick`: a fast run stands for zstd.
std::optional<Completed> complete_sampled(const dsl::Expr& structure, std::span<const bits::ConstWords> frames,
                                          uint64_t limit = UINT64_MAX, bool quick = false);
// The same, for operators to whom places in the stream mean something.
std::optional<Completed> complete_sampled(const dsl::Expr& structure, std::span<const dsl::Window> frames,
                                          uint64_t limit = UINT64_MAX, bool quick = false);

// What zstd makes of sample windows that repeat themselves; nullopt from `limit` on, or where a fast run says that it
// is out of reach.
std::optional<uint64_t> zstd_sampled(std::span<const bits::ConstWords> frames, uint64_t limit);
// Whether a stream repeats itself enough for zstd to find something that order-0 codecs do not see. Streams too short
// to waste time on always may.
bool repeats_itself(std::span<const bits::ConstWords> frames);
// Whether wide words mostly are some that stood shortly before, as those of quantised weights are.
bool words_recur(std::span<const bits::ConstWords> frames);

// Positions of exceptions have no order-0 statistics, but their number has: `others` of them among `words` places cost
// about log2 of the mean gap and a little more each, packed.
uint64_t position_cost(uint64_t words, uint64_t others);
// The price a word of codecs that look words up in memory (1/256 bits).
uint64_t slow_decode_price();

// What no order-0 code of the words can beat, 1/256 bits, rounded down.
uint64_t entropy_cost(const codec::Histogram& histogram);

// What no order-0 codec can beat for these words, tables and all, found without training one.
uint64_t least_literal_cost(const codec::Histogram& histogram, uint64_t frame_words);

// Cost of a stream with these statistics under a one-region program and tables that exist already (tables and frames
// free); nullopt when they cannot express it or statistics do not reach every literal.
std::optional<uint64_t> cost_under(const dsl::BoundProgram& bound, const codec::Histogram& histogram,
                                   uint32_t node = 0);

}  // namespace brevis::synth
