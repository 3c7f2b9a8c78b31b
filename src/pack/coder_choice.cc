// SPDX-License-Identifier: Apache-2.0
//
// The part of Coder that chooses: what earlier streams told is handed to the choice, and what it tells is kept.
#include "dsl/text.h"
#include "pack/coder.h"

namespace brevis::pack {
namespace {

constexpr unsigned kPlainSoon = 1;            // so many plain kin in a row: the next one may well be
constexpr uint64_t kGuessOpaqueFrom = 65536;  // bytes; shorter opaque runs are taken as bytes
constexpr uint64_t kTextFrom = 16384;         // bytes of a header; a choice costs as much as it saves

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
  const bool plain = told.kin && told.kin->in_a_row >= kPlainSoon;
  return [this, &plan, plain, mate = std::move(told.mate), counted = told.counted](
             const SpanStream& bytes, const Scan& scan) -> LookAhead::Foreseen {
    auto options = options_of(plan, scan);
    if (!options || options->wanted) return {};
    options->mate = mate;
    options->counted = counted;
    auto seen = synth::Foreseen::of(words_of(bytes, plan.dtype, plan.width(), plan.shape), scan.stats, *options, plain);
    return seen ? std::move(*seen) : nullptr;
  };
}

// Opaque bytes may be weights of another format: the reading of them that gives the smallest size wins.
Result<synth::Choice> Coder::choose(const SpanStream& stream, const RecordPlan& plan, const Scan& scan,
                                    synth::Foreseen* foreseen, unsigned& width) {
  BREVIS_ASSIGN(synth::ChooseOptions options, options_of(plan, scan));
  if (options_.search) options_.search->budget->add_stream(stream.bytes());
  options.foreseen = foreseen;
  width = plan.width();
  sharing_.tell(plan, options);
  BREVIS_ASSIGN(auto best, synth::choose(words_of(stream, plan.dtype, width, plan.shape), scan.stats, options));
  sharing_.learn(plan, best);
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

}  // namespace brevis::pack
