// SPDX-License-Identifier: Apache-2.0
//
// From known programs to a better one: the search on a sample of a stream, then its best few trained on the whole
// stream and encoded on whole frames spread over it, beside the known one. Real bytes decide.
//
// Errors:  those of reading the stream. Threads: one caller. Determinism: same stream, same budget, same choice.
#pragma once

#include "synth/choose.h"

namespace brevis::synth {

struct Improved {
  std::optional<Choice> choice;  // empty: nothing beats the known program
  SearchTrace trace;
};

// Tables for the whole stream; nullopt when the program does not express it.
using TrainWhole = std::function<Result<std::optional<Choice>>(const dsl::Expr&)>;

// Programs that are known, complete, the best first, at least one. Where whole statistics compared the first two,
// `costs` are theirs: a sample flatters neither then (steps fitted to a sample do no justice to the whole stream's),
// and the others need no second look.
struct Known {
  std::vector<dsl::Expr> programs;
  std::optional<std::pair<uint64_t, uint64_t>> costs;
  uint64_t cost = UINT64_MAX;         // of the first, expected
  std::span<const Sibling> siblings;  // what searches of like streams found
  bool order_tells = false;           // so much that the search is to see whole frames
};

Result<Improved> improve(const Stream& stream, uint64_t frame_words, const Known& known, const SearchOptions& options,
                         const TrainWhole& train);

// The best program of like streams with tables of this stream's own, where it saves about as much here as it did there
// and costs less than `limit`.
Result<std::optional<Choice>> like_sibling(const Stream& stream, uint64_t frame_words,
                                           std::span<const Sibling> siblings, uint64_t limit,
                                           const SearchOptions& options, const TrainWhole& train);

// Searches a sample of the stream and counts what won.
Status learn(const Stream& stream, uint64_t frame_words, const SearchOptions& options, Prior& prior);

// What a choice comes to, tables included, by encoding frames spread evenly over each of its regions: all of them where
// they are few.
Result<uint64_t> encoded_bytes(const Choice& choice, const Stream& stream);

// Whether a one-region program with its tables expresses every word of the stream. Programs whose operators never
// refuse need no look. Keeps what it encoded for that in the choice, where it is little.
Result<bool> expresses(Choice& choice, const Stream& stream);

}  // namespace brevis::synth
