// SPDX-License-Identifier: Apache-2.0
//
// The part of Coder that chooses: what earlier streams told is handed to the choice, and what it tells is kept. Where a
// rival is asked, too, both choices are encoded and the smaller one is taken: estimates from samples can be wrong, and
// what more effort finds on a sample need not be the better program.
#include <algorithm>
#include <bit>

#include "dsl/encode.h"
#include "dsl/text.h"
#include "dsl/wire.h"
#include "pack/coder.h"
#include "synth/spine.h"
#include "synth/table_sets.h"

namespace brevis::pack {
namespace {

constexpr unsigned kPlainSoon = 1;            // so many plain kin in a row: the next one may well be
constexpr uint64_t kGuessOpaqueFrom = 65536;  // bytes; shorter opaque runs are taken as bytes
// What a choice of more effort has to save: with its program and tables it may stand alone, where the other one's are
// those of other streams.
constexpr uint64_t kWorthBytes = 32;
constexpr uint64_t kTextFrom = 16384;  // bytes of a header; a choice costs as much as it saves

bool is_same(const synth::Choice& a, const synth::Choice& b) {
  return a.program->width() == b.program->width() && a.program->expr() == b.program->expr() && a.tables == b.tables &&
         a.frame_words == b.frame_words;
}

}  // namespace

Result<synth::ChooseOptions> Coder::options_of(const RecordPlan& plan, const Scan& scan) const {
  synth::ChooseOptions options;
  options.frame_bytes = options_.frame_bytes;
  options.parts = scan.parts;
  options.search = options_.search;
  options.may_be_text = plan.kind == archive::SegmentKind::opaque;
  const auto wanted = options_.programs.find(std::string(dtype_info(plan.dtype).name));
  if (wanted != options_.programs.end()) {
    BREVIS_ASSIGN(options.wanted,
                  dsl::parse_program("u" + std::to_string(plan.width()) + " = " + wanted->second, true));
  }
  if (plan.kind == archive::SegmentKind::prefix && plan.bytes() >= kTextFrom) {
    // Names and numbers, over and over.
    options.search.reset();
    BREVIS_ASSIGN(options.wanted, dsl::parse_program("u8 = literal(zstd)", true));
  }
  return options;
}

// What like streams tell by now is a guess of what they will.
LookAhead::Foresee Coder::foresee(const RecordPlan& plan) const {
  if (pool_->threads() == 1 || plan.kind != archive::SegmentKind::tensor || options_.bases != nullptr) return {};
  synth::ChooseOptions told;
  sharing_.tell(plan, told);
  if (told.siblings_decide) return {};
  const bool plain = told.kin && told.kin->plain >= kPlainSoon;
  return [this, &plan, plain, mate = std::move(told.mate)](const SpanStream& bytes,
                                                           const Scan& scan) -> LookAhead::Foreseen {
    auto options = options_of(plan, scan);
    if (!options || options->wanted) return {};
    options->mate = mate;
    auto seen = synth::Foreseen::of(words_of(bytes, plan.dtype, plan.width(), plan.shape), scan.stats, *options, plain);
    return seen ? std::move(*seen) : nullptr;
  };
}

// Opaque bytes may be weights of another format: the reading of them that gives the smallest size wins.
Result<synth::Choice> Coder::choose_by(const std::optional<synth::SearchOptions>& search, Sharing& sharing,
                                       const SpanStream& stream, const RecordPlan& plan, const Scan& scan,
                                       synth::Foreseen* foreseen, unsigned& width) const {
  BREVIS_ASSIGN(synth::ChooseOptions options, options_of(plan, scan));
  if (options.search) options.search = search;
  if (search) search->budget->add_stream(stream.bytes());
  options.foreseen = foreseen;
  width = plan.width();
  sharing.tell(plan, options);
  BREVIS_ASSIGN(auto best, synth::choose(words_of(stream, plan.dtype, width, plan.shape), scan.stats, options));
  sharing.learn(plan, best);
  const bool guess = plan.kind == archive::SegmentKind::opaque && stream.bytes() >= kGuessOpaqueFrom &&
                     stream.bytes() % 4 == 0 && !best.frame_words.empty() && !best.settled;
  if (!guess) return best;
  for (const Dtype dtype : {Dtype::BF16, Dtype::F16, Dtype::F32}) {
    const unsigned bits = dtype_info(dtype).bits;
    BREVIS_ASSIGN(const Scan other, this->scan(stream, bits));
    options.parts = other.parts;
    options.may_be_text = false;
    options.foreseen = nullptr;
    BREVIS_ASSIGN(auto choice, synth::choose(words_of(stream, dtype, bits, {}), other.stats, options));
    if (choice.estimated_bytes < best.estimated_bytes) {
      best = std::move(choice);
      width = bits;
    }
  }
  return best;
}

// What a choice comes to, its program and tables of its own included.
Result<uint64_t> Coder::encoded_bytes(const synth::Stream& stream, const synth::Choice& choice,
                                      const Scan& scan) const {
  ByteVector program;
  dsl::write_program(*choice.program, program);
  uint64_t sum = program.size();
  BREVIS_ASSIGN(auto bound, synth::bind_sets(choice.program, synth::single_sets(choice.tables)));
  const auto sets = table_sets(choice, *bound, scan);
  for (const auto& set : sets)
    for (const ByteVector& table : set) sum += table.size();
  if (choice.frame_words.empty()) return sum;
  BREVIS_ASSIGN(bound, synth::bind_sets(choice.program, sets));
  const auto add = [&](const synth::Stream& region, uint32_t r) -> Status {
    const uint64_t step = choice.frame_words[r];
    return ordered_parallel<uint64_t>(
        *pool_, (region.words + step - 1) / step, options_.window,
        [&](size_t i) -> Result<uint64_t> {
          bits::OwnedWords read;
          BREVIS_ASSIGN(const auto words, region.at(i * step, std::min(step, region.words - i * step), read));
          ByteVector stored;
          BREVIS_ASSIGN(const bool fits, dsl::encode_frame(*bound, r, i * step, words, stored));
          return fits ? stored.size() : uint64_t{UINT32_MAX};
        },
        [&](size_t, uint64_t bytes) -> Status {
          sum += bytes;
          return options_.on_progress ? options_.on_progress(0) : Status{};
        });
  };
  if (is_one_region(*choice.program)) {
    BREVIS_TRY(add(stream, 0));
    return sum;
  }
  const auto regions = synth::Regions::of(*choice.program, stream);
  if (!regions) return make_error(Errc::internal, "a skeleton does not fit the stream it was chosen for");
  for (uint32_t r = 0; r < regions->count(); ++r) BREVIS_TRY(add(regions->region(r), r));
  return sum;
}

Result<synth::Choice> Coder::choose(const SpanStream& stream, const RecordPlan& plan, const Scan& scan,
                                    synth::Foreseen* foreseen, unsigned& width) {
  BREVIS_ASSIGN(auto best, choose_by(options_.search, sharing_, stream, plan, scan, foreseen, width));
  if (!options_.rival) return best;
  unsigned other_width = width;
  BREVIS_ASSIGN(auto other, choose_by(options_.rival, rival_sharing_, stream, plan, scan, nullptr, other_width));
  if (is_same(best, other)) return best;
  BREVIS_ASSIGN(best.estimated_bytes, encoded_bytes(words_of(stream, plan.dtype, width, plan.shape), best, scan));
  BREVIS_ASSIGN(other.estimated_bytes,
                encoded_bytes(words_of(stream, plan.dtype, other_width, plan.shape), other, scan));
  if (best.estimated_bytes + kWorthBytes <= other.estimated_bytes) return best;
  other.trace = std::move(best.trace);
  width = other_width;
  return other;
}

}  // namespace brevis::pack
