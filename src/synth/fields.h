// SPDX-License-Identifier: Apache-2.0
//
// The fields that a stream's words can be cut into, as far as its statistics reach: the histogram of each, and the
// cheapest way to code it by itself. Everything is worked out once and kept: the cuts that planning compares share most
// of their fields, and a narrow field is folded from a wider one that is known already.
//
// Threads: a value, used by one thread at a time. Owns: a copy of nothing; the statistics must outlive it.
// Errors: none. Determinism: integers only; what was asked for before never changes an answer.
#pragma once

#include <map>

#include "brevis/types.h"
#include "dsl/inversions.h"
#include "synth/complete.h"
#include "synth/stats.h"

namespace brevis::synth {

class Fields {
 public:
  // `frame_words`: as for complete_order0.
  Fields(const StreamStats& stats, uint64_t frame_words);
  Fields(const Fields&) = delete;
  Fields& operator=(const Fields&) = delete;

  const StreamStats& stats() const { return stats_; }
  uint64_t frame_words() const { return frame_words_; }
  // Of the stream that the statistics are of.
  dsl::Inversions& inversions() { return inversions_; }

  // `bits` bits that start `from_top` bits below the top; from_top + bits <= stats().top_bits().
  const codec::Histogram& histogram(unsigned from_top, unsigned bits);
  // The same, or a whole byte below the top bits; nullptr where statistics do not tell.
  const codec::Histogram* known(unsigned from_top, unsigned bits);
  uint64_t entropy(unsigned from_top, unsigned bits);

  // No way that best() tries costs less than this.
  uint64_t least(unsigned from_top, unsigned bits);
  // Whether least() is `limit` or more; mostly cheaper to ask.
  bool reaches(unsigned from_top, unsigned bits, uint64_t limit);
  // The cheapest way to code a known field by itself; nullopt when none costs less than `limit`.
  std::optional<Completed> best(unsigned from_top, unsigned bits, uint64_t limit = UINT64_MAX);

 private:
  struct Field {
    codec::Histogram own;
    const codec::Histogram* histogram = nullptr;  // own, or the statistics' own of all top bits
    std::optional<uint64_t> entropy, least;
    std::vector<uint64_t> others;  // by kRankSizes: how many words are in no rank
    std::optional<Completed> best;
    uint64_t none_below = 0;  // best() costs this at least
  };
  using Key = std::pair<unsigned, unsigned>;  // from_top, bits

  Field& field(unsigned from_top, unsigned bits);
  codec::Histogram folded(Key key) const;
  void count_others(Field& field) const;
  uint64_t least_of(const Field& field) const;
  std::optional<Completed> search(const Field& field, uint64_t limit) const;

  const StreamStats& stats_;
  const uint64_t frame_words_;
  std::map<Key, Field> fields_;
  dsl::Inversions inversions_;
};

// Costs, as in complete.h, of a completed structure for the whole stream as far as its statistics reach: the fields of
// a merge that are known, and incompressible rests. nullopt for other structures.
std::optional<uint64_t> cost_by_stats(const dsl::Expr& expr, Fields& fields);
// Cost of the words under tables that are at hand, payload only; nullopt when one is not in them, or statistics do not
// tell.
std::optional<uint64_t> cost_under(const dsl::BoundProgram& bound, Fields& fields);
// Tables of a completed structure's slots, without a look at the words; nullopt where statistics do not reach them.
Result<std::optional<std::vector<ByteVector>>> tables_by_stats(const dsl::Expr& expr, Fields& fields);
// What no coding of the fields known can beat.
uint64_t entropy_by_stats(Fields& fields);

// How many of the top bits say all that can be said about floats whose low bits are noise by themselves (which moving
// exponents and dealing words out does not change); 0 where they are not.
unsigned telling_bits(Dtype dtype, Fields& fields);

bool is_incompressible(const dsl::Expr& expr);

}  // namespace brevis::synth
