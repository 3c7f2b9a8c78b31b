// SPDX-License-Identifier: Apache-2.0
#include "pack/patching.h"

#include <algorithm>
#include <bit>

#include "bits/combine.h"
#include "dsl/encode.h"
#include "dsl/verify.h"
#include "pack/parts.h"
#include "synth/complete.h"

namespace brevis::pack {
namespace {

using dsl::Expr;
using dsl::OpId;

constexpr unsigned kGapBits = dsl::kPositionBits;

// What one frame replaces.
struct Replaced {
  bits::OwnedWords gaps, words;
};

Result<Replaced> replaced(const PatchSource& source, uint64_t first, uint64_t count) {
  const unsigned width = source.own.width;
  bits::OwnedWords own(width, count), base(width, count);
  BREVIS_TRY(source.own.read(first, own.words()));
  BREVIS_TRY(source.base(first, base.words()));
  const std::vector<size_t> places = bits::differing(own.view(), base.view());
  Replaced out{{kGapBits, places.size()}, {width, places.size()}};
  size_t next = 0;
  for (size_t j = 0; j < places.size(); ++j) {
    out.gaps.words().set(j, places[j] - next);
    out.words.words().set(j, own.view().at(places[j]));
    next = places[j] + 1;
  }
  return out;
}

// Small gaps are many: the top of them by an alphabet, the rest as it is.
Result<std::optional<Part>> code_gaps(const codec::Histogram& gaps, uint64_t frame_gaps) {
  const Expr lit{OpId::literal, {}, {}};
  std::optional<synth::Completed> best = synth::complete_order0(lit, gaps, frame_gaps);
  for (unsigned low = 2; low + 4 <= kGapBits; low += 2) {
    const Expr packed{OpId::literal, {static_cast<uint64_t>(codec::CodecId::packed)}, {}};
    const Expr cut{OpId::merge, {kGapBits - low, low}, {lit, packed}};
    auto done = synth::complete_order0(cut, gaps, frame_gaps, best ? best->cost : UINT64_MAX);
    if (done && (!best || done->cost < best->cost)) best = std::move(done);
  }
  if (!best) return std::optional<Part>{};
  BREVIS_ASSIGN(const auto program, dsl::build(kGapBits, best->expr));
  BREVIS_ASSIGN(auto estimated, dsl::estimate(program, 0, gaps));
  if (!estimated) return std::optional<Part>{};
  return std::optional(Part{std::move(best->expr), std::move(estimated->tables), best->cost});
}

}  // namespace

Result<std::optional<synth::Choice>> choose_patch(const PatchSource& source, uint64_t frame_words, Pool& pool,
                                                  size_t window) {
  const synth::Stream& own = source.own;
  const uint64_t frames = (own.words + frame_words - 1) / frame_words;
  const auto frame = [&](uint64_t i) {
    return replaced(source, i * frame_words, std::min(frame_words, own.words - i * frame_words));
  };
  struct Seen {
    codec::Histogram gaps;
    synth::StreamStats words;
  };
  Seen all;
  all.gaps.width = kGapBits;
  BREVIS_TRY(ordered_parallel<Seen>(
      pool, frames, window,
      [&](size_t i) -> Result<Seen> {
        BREVIS_ASSIGN(const Replaced one, frame(i));
        return Seen{dsl::histogram_of(one.gaps.view()), synth::gather(one.words.view())};
      },
      [&](size_t, Seen one) -> Status {
        if (one.words.words == 0) return {};
        dsl::add_histogram(all.gaps, one.gaps);
        synth::append(all.words, one.words);
        return {};
      }));
  if (all.words.words == 0) return std::optional<synth::Choice>{};

  BREVIS_ASSIGN(auto gaps, code_gaps(all.gaps, std::max<uint64_t>(1, all.words.words / frames)));
  Replaced held;  // what the last call gave
  BREVIS_ASSIGN(auto words, code_words(own.dtype, false, all.words, frames, frame_words,
                                       [&](uint64_t i) -> Result<bits::ConstWords> {
                                         BREVIS_ASSIGN(held, frame(i));
                                         return held.words.view();
                                       }));
  if (!gaps || !words) return std::optional<synth::Choice>{};
  synth::Choice choice;
  Expr expr{OpId::patch, {}, {{OpId::base, {}, {}}, std::move(gaps->expr), std::move(words->expr)}};
  BREVIS_ASSIGN(auto program, dsl::build(own.width, expr));
  choice.tables = std::move(gaps->tables);
  choice.tables.insert(choice.tables.end(), words->tables.begin(), words->tables.end());
  if (choice.tables.size() != program.slots().size())
    return make_error(Errc::internal, "a patch has tables for other slots than its own");
  choice.program = std::make_shared<dsl::Program>(std::move(program));
  choice.frame_words = {frame_words};
  choice.estimated_bytes = (gaps->cost + words->cost) / kByteCost + frames;
  return std::optional(std::move(choice));
}

}  // namespace brevis::pack
