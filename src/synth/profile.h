// SPDX-License-Identifier: Apache-2.0
//
// How hard to look: what the profiles mean in numbers, and the budget that a file's searches share. Budgets are counted
// in words looked at, never in time, so that the same file gives the same archive on any machine.
//
// Threads: a Budget belongs to one file's packing. Errors: none.
#pragma once

#include <algorithm>
#include <cstdint>

#include "synth/decode_cost.h"
#include "synth/search.h"

namespace brevis::synth {

enum class Profile : uint8_t { dense, balanced, fast };

struct Effort {
  SearchLimits limits;
  uint64_t lambda = kLambdaOne;          // price of decode time
  uint64_t windows = 8;                  // of the sample that is searched
  uint64_t window_words = 4096;          // at least; whole rows where they fit
  uint64_t structure_words = 131072;     // on which structures are priced that statistics cannot price
  uint64_t rerank_frames = 2;            // encoded for real, a candidate each
  size_t rerank = 1;                     // candidates besides the known one
  uint64_t gain_of = 512;                // what the sample must promise before a candidate is trained: 1/gain_of
  bool asks_all = false;                 // operators that read neighbours are asked below others, too
  bool any_stream = false;               // search also where the order of words seems to tell nothing
  uint64_t least_bytes = 0;              // shorter streams are not searched
  uint64_t memory = uint64_t{32} << 20;  // of a search, bytes
  uint64_t work_per_byte_256 = 0;        // budget that a stream brings along, words a byte, 1/256
  uint64_t first_work = 0;               // budget that a file starts with, words
  uint64_t bonus_work = 0;               // and what a search that found something earns
  uint64_t least_work_of = 1;            // what has to be left for a search to be begun: so many times its sample
  uint64_t thorough = 0;                 // streams of a file that are searched on whole frames, order telling so much
  uint64_t thorough_work_of = 4096;      // what such a search may look at: so many times its sample
  unsigned plain_after = 2;              // so many plain mates in a row say that the next one is plain, too; 0: none do
  unsigned counted_after = 2;            // the same of those whose best known program counts alone told
  unsigned in_vain_after = 0;            // so many searches in vain in a row say that the next one is, too; 0: none do
  bool follows_mates = true;             // an offset or context as a mate has is enough where it wins something
  size_t prior_streams = 0;              // searched ahead to learn a prior
  uint64_t prior_factor = 4;             // with that many times the expansions
};

const Effort& effort_of(Profile profile);
// The same with a sample of whole frames, for streams in which the order of words tells a good part of what they cost:
// rows and columns are to be seen whole, and what is found is worth the time.
Effort thorough_effort(const Effort& effort, uint64_t frame_words);

// Words that the searches of a file may still look at.
class Budget {
 public:
  explicit Budget(const Effort& effort)
      : rate_(effort.work_per_byte_256),
        bonus_(effort.bonus_work),
        left_(effort.first_work),
        thorough_(effort.thorough) {}
  void add_stream(uint64_t bytes) { left_ += bytes / 256 * rate_ + bytes % 256 * rate_ / 256; }
  void spend(uint64_t work) { left_ -= std::min(left_, work); }
  // A search that found nothing makes the next ones of the file look less promising, one that did makes them more so.
  void found(bool something) {
    if (something)
      left_ += bonus_;
    else
      left_ -= left_ / kFruitlessOf;
  }
  uint64_t left() const { return left_; }
  // Whether one more stream may be searched thoroughly, which costs the others nothing.
  bool take_thorough() { return thorough_ != 0 && thorough_-- != 0; }

 private:
  static constexpr uint64_t kFruitlessOf = 2;
  uint64_t rate_, bonus_, left_, thorough_;
};

}  // namespace brevis::synth
