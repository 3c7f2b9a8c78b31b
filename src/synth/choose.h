// SPDX-License-Identifier: Apache-2.0
//
// From a stream to the program and tables it is stored with: exact facts first (constant, ramp), then the known-good
// structures, each completed and priced on sample windows, the winner trained on the whole stream.
//
// Errors:  those of reading the stream. There is always a choice: the bare literal expresses anything.
// Threads: choose() reads from its own thread; streams may be read from several. Determinism: same stream, same
// options, same choice, whatever the machine.
#pragma once

#include "dsl/exec.h"
#include "synth/profile.h"
#include "synth/stream.h"

namespace brevis::synth {

// What a like stream (same dtype, role and size class) ended with, and how well: its cost over its entropy, 1/65536.
// Where the same cut into fields does as well, or words of about the mate's entropy are moved or dealt out as those
// were and that wins something, nothing else may be tried.
struct Mate {
  dsl::Expr expr;
  uint64_t quality = 0;
  uint64_t entropy = 0;  // 1/256 bits a word
  uint64_t row = 1;      // words; neighbours stand so far apart
};

// What a search found for a like stream: the outline of its program (codecs are still to be chosen), the best known one
// that it was better than, and by how much, as the sample saw it (1/65536).
struct Sibling {
  dsl::Expr expr, beaten;
  uint64_t share = 0;     // of the beaten one's cost
  bool thorough = false;  // the sample was of whole frames
};

// Streams of one dtype, role, size class and number of axes. Where cuts into fields were all that was found for some of
// them in a row, whatever was looked at, those that resemble them are cut into fields and that is it. Where the best of
// the known programs was one that counts alone tell, those that only samples price need no look.
struct Kin {
  unsigned in_a_row = 0;
  uint64_t entropy = 0;  // of the last one, 1/256 bits a word
};

class Foreseen;  // foresee.h

// What a search may use; everything outlives the choice.
struct SearchOptions {
  const Grammar* grammar = nullptr;
  const Prior* prior = nullptr;
  const Effort* effort = nullptr;
  Budget* budget = nullptr;
};

struct Choice {
  std::shared_ptr<const dsl::Program> program;
  std::vector<ByteVector> tables;     // a slot each
  std::vector<uint64_t> frame_words;  // a region each
  // The payloads of all frames of the one region, under `tables`: where choosing encoded every one of a few.
  std::shared_ptr<const std::vector<ByteVector>> encoded;
  uint64_t estimated_bytes = 0;  // of the whole stream, expected
  uint64_t training_ns = 0;      // of this thread's processor, for `tables` and `encoded`; decides nothing
  std::optional<Mate> mate;      // what a like stream may be told
  std::optional<Kin> kin;        // where cuts into fields were all there was
  std::optional<Kin> counted;    // whether counts told the best known program, where known ones were looked at
  std::optional<unsigned>
      in_vain;  // searches in a row that found nothing, with this one where there was one or like ones said so
  std::optional<Sibling> sibling;    // where a search, or a like stream's, found it
  std::optional<SearchTrace> trace;  // when there was a search
  bool shared = false;               // a like stream's answer, at least in that there is nothing else to find
  bool settled = false;              // the stream showed what it is: no other reading of it need be tried
};

struct ChooseOptions {
  uint64_t frame_bytes = uint64_t{512} << 10;
  // A program set by the user for this dtype; may hold templates. When it cannot express the stream, the known-good
  // ones are used.
  std::optional<dsl::Program> wanted;
  std::optional<Mate> mate;
  bool mate_decides = false;  // where its program does as well here, nothing else is looked at
  std::optional<Kin> kin, counted;
  unsigned in_vain = 0;           // searches of like streams in a row that found nothing
  std::vector<Sibling> siblings;  // programs found for like streams, the last one first
  bool siblings_decide = false;   // where one does as well here, there is no search
  // Statistics of consecutive parts of a long stream, at most 16 bits wide: programs are priced with tables a part.
  std::span<const StreamStats> parts;
  std::optional<SearchOptions> search;  // empty: known-good programs only
  unsigned depth = 0;                   // skeleton operators above
  bool may_be_text = false;             // a stream of bytes that nobody said are numbers
  Foreseen* foreseen = nullptr;         // of this stream and these options, as far as it goes
};

// `stats` of the whole stream (gather(), append()). words > 0.
Result<Choice> choose(const Stream& stream, const StreamStats& stats, const ChooseOptions& options);

}  // namespace brevis::synth
