// SPDX-License-Identifier: Apache-2.0
//
// What like streams decide for one another: a mate's way is followed where it does well, and left where it does not.
#include "synth/follow.h"

#include <doctest/doctest.h>

#include "dsl/text.h"
#include "synth/improve.h"
#include "synth/known_good.h"
#include "unit/synth/cases.h"

using namespace brevis;
using namespace brevis::test;
using dsl::Expr;
using dsl::OpId;

namespace {

// What the streams before have told.
struct Told {
  std::optional<synth::Mate> mate;
  unsigned plain = 0;  // kin in a row
  unsigned in_vain = 0;
};

struct Chosen {
  synth::Choice choice;
  uint64_t bytes;  // really encoded
  OpId root() const { return choice.program->root().op; }
};

Chosen choose(const Case& one, const Told& told, synth::Profile profile = synth::Profile::balanced) {
  const synth::Grammar grammar;
  const synth::Prior prior;
  synth::Budget budget(synth::effort_of(profile));
  const synth::Stream stream = stream_of(one);
  const synth::StreamStats stats = synth::gather({one.bytes.data(), stream.words, static_cast<uint8_t>(stream.width)});
  synth::ChooseOptions options;
  options.search = {&grammar, &prior, &synth::effort_of(profile), &budget};
  options.mate = told.mate;
  options.in_vain = told.in_vain;
  if (told.plain != 0) options.kin = synth::Kin{told.plain, synth::entropy_by_stats(stats) / stream.words};
  auto choice = synth::choose(stream, stats, options);
  REQUIRE(choice);
  const auto bytes = synth::encoded_bytes(*choice, stream);
  REQUIRE(bytes);
  INFO(one.name, ": ", dsl::print(*choice->program));
  return {std::move(*choice), *bytes};
}

// `most` of `other`, in thousandths more.
bool is_within(uint64_t bytes, uint64_t other, uint64_t per_mille) {
  return bytes * 1000 <= other * (1000 + per_mille);
}

const Case kBell{"bell", Dtype::BF16, gaussian_words(Dtype::BF16, 200 * 300, 1), {200, 300}};
const Case kChannels{"channels", Dtype::BF16, channel_words(Dtype::BF16, 300, 256, 5), {300, 256}};
const Case kMoreChannels{"more channels", Dtype::BF16, channel_words(Dtype::BF16, 200, 384, 6), {200, 384}};
const Case kSwelling{"swelling", Dtype::BF16, swelling_words(256, 256), {256, 256}};
const Case kSwellingToo{"swelling, other rows", Dtype::BF16, swelling_words(192, 320), {192, 320}};
const Case kSmooth{"smooth", Dtype::BF16, smooth_words(400, 64), {400, 64}};

}  // namespace

TEST_CASE("a cut like another has the same widths, and the best code for each field here") {
  for (const Dtype dtype : {Dtype::BF16, Dtype::F16, Dtype::F32}) {
    const ByteVector there = gaussian_words(dtype, 30000, 1), here = gaussian_words(dtype, 50000, 2, 0.7);
    const unsigned width = dtype_info(dtype).word_bits();
    const auto stats_of = [&](const ByteVector& bytes) {
      return synth::gather({bytes.data(), bytes.size() / (width / 8), static_cast<uint8_t>(width)});
    };
    const synth::StreamStats of_there = stats_of(there), of_here = stats_of(here);
    synth::Fields fields(of_here, 1u << 18);
    uint64_t least = UINT64_MAX;
    for (const synth::Structure& way : synth::known_good(dtype, of_there, 1u << 18, 9)) {
      if (!way.cost || way.expr.op != OpId::merge) continue;
      const auto cut = synth::cut_like(way.expr, fields);
      REQUIRE(cut);
      const auto cost = synth::cost_by_stats(cut->expr, fields);
      REQUIRE(cost);
      CHECK(is_within(*cost, *cut->cost, 0));
      CHECK(is_within(*cut->cost, *cost, 1));  // low bits joined to a field have no frames of their own
      const auto as_it_is = synth::cost_by_stats(way.expr, fields);
      if (as_it_is) CHECK(is_within(*cut->cost, *as_it_is, 1));
      CHECK(synth::cut_like(way.expr, fields, *cut->cost + 1));
      CHECK_FALSE(synth::cut_like(way.expr, fields, *cut->cost));
      least = std::min(least, *cut->cost);
    }
    // Cuts that were good there are good here: bell curves differ in width only.
    CHECK(is_within(least, *synth::known_good(dtype, fields, 1).front().cost, 2));
    const Expr raw = synth::bare_literal(), zstd{OpId::literal, {uint64_t{4}}, {}};
    CHECK_FALSE(synth::cut_like({OpId::scan, {1, 1}, {raw, raw}}, fields));
    CHECK_FALSE(synth::cut_like({OpId::merge, {8, width - 8}, {raw, {OpId::scan, {1, 1}, {raw, raw}}}}, fields));
    CHECK_FALSE(synth::cut_like({OpId::merge, {4}, {raw}}, fields));
  }
}

TEST_CASE("an offset is followed on axes of the stream's own, and left where it wins nothing") {
  const Chosen mate = choose(kChannels, {}), alone = choose(kMoreChannels, {});
  REQUIRE(synth::moves_fields(mate.root()));
  REQUIRE(synth::moves_fields(alone.root()));
  CHECK_FALSE(alone.choice.shared);
  const Chosen after = choose(kMoreChannels, {mate.choice.mate});
  CHECK(synth::moves_fields(after.root()));
  CHECK(after.choice.shared);
  CHECK(after.choice.mate);
  CHECK(after.choice.program->root().params != mate.choice.program->root().params);
  CHECK(is_within(after.bytes, alone.bytes, 2));
  const Chosen bell = choose(kBell, {mate.choice.mate});
  CHECK(bell.choice.program->expr() == choose(kBell, {}).choice.program->expr());
  CHECK_FALSE(bell.choice.shared);
}

TEST_CASE("a stream of another kind than its mate is looked at in every way, whatever an offset would win") {
  const Case wide{"wide channels", Dtype::BF16, channel_words(Dtype::BF16, 512, 384, 5), {512, 384}};
  const Chosen mate = choose(wide, {});
  REQUIRE(synth::moves_fields(mate.root()));
  const Case other{"quantised", Dtype::BF16, requantised_words(512, 384), {512, 384}};
  const Chosen alone = choose(other, {}), after = choose(other, {mate.choice.mate});
  CHECK(after.choice.program->expr() == alone.choice.program->expr());
  CHECK_FALSE(after.choice.shared);
  synth::Mate same_kind = *mate.choice.mate;  // an offset does win something
  same_kind.entropy = synth::entropy_by_stats(synth::gather({other.bytes.data(), 512 * 384, 16})) / (512 * 384);
  const Chosen misled = choose(other, {same_kind});
  CHECK(misled.choice.shared);
  CHECK(misled.bytes > alone.bytes + alone.bytes / 4);
}

TEST_CASE("an offset that wins far more or less than it did for the mate is not followed blindly") {
  const Chosen mate = choose(kChannels, {}), alone = choose(kMoreChannels, {});
  for (const uint64_t percent : {80, 96, 104, 120}) {
    CAPTURE(percent);
    synth::Mate told = *mate.choice.mate;
    told.quality = told.quality * percent / 100;
    const Chosen after = choose(kMoreChannels, {told});
    CHECK(after.choice.shared == (percent > 90 && percent < 110));
    CHECK(is_within(after.bytes, alone.bytes, 2));
  }
}

TEST_CASE("an offset of wide words is not followed, since their low bits hide of what kind they are") {
  const Case wide{"wide channels", Dtype::F32, channel_words(Dtype::F32, 300, 256, 5), {300, 256}};
  const Case more{"more wide channels", Dtype::F32, channel_words(Dtype::F32, 300, 256, 6), {300, 256}};
  const Chosen mate = choose(wide, {});
  REQUIRE(synth::moves_fields(mate.root()));
  const Chosen after = choose(more, {mate.choice.mate}), alone = choose(more, {});
  CHECK_FALSE(after.choice.shared);
  CHECK(after.bytes <= alone.bytes);
}

TEST_CASE("words are dealt out as a mate's were, and left where that wins nothing") {
  const Chosen mate = choose(kSwelling, {}), alone = choose(kSwellingToo, {});
  REQUIRE(mate.root() == OpId::context);
  const Chosen after = choose(kSwellingToo, {mate.choice.mate});
  CHECK(after.root() == OpId::context);
  CHECK(after.choice.shared);
  CHECK(is_within(after.bytes, alone.bytes, 2));
  const Chosen bell = choose(kBell, {mate.choice.mate});
  CHECK(bell.choice.program->expr() == choose(kBell, {}).choice.program->expr());
  // Where rows are as long the mate's neighbours are asked, and no others looked for.
  const Case again{"swelling again", Dtype::BF16, swelling_words(300, 256), {300, 256}};
  const Chosen as_it = choose(again, {mate.choice.mate});
  CHECK(as_it.choice.program->root().params == mate.choice.program->root().params);
  CHECK(is_within(as_it.bytes, choose(again, {}).bytes, 5));
  // A mate with a hand that got no words.
  synth::Mate odd = *mate.choice.mate;
  odd.expr.children.front() = {OpId::constant, {0}, {}};
  CHECK(choose(kSwellingToo, {odd}).root() == OpId::context);
}

TEST_CASE("plain kin are cut as their mate was, as long as that is as good here") {
  const Chosen mate = choose(kBell, {});
  REQUIRE(mate.choice.mate);
  const Case next{"next", Dtype::BF16, gaussian_words(Dtype::BF16, 200 * 300, 7), {200, 300}};
  const Chosen alone = choose(next, {}), after = choose(next, {mate.choice.mate, 3});
  CHECK(after.choice.shared);
  REQUIRE(after.choice.kin);
  CHECK(after.choice.kin->in_a_row == 4);
  CHECK(after.choice.mate->quality == mate.choice.mate->quality);  // it does not drift
  CHECK(is_within(after.bytes, alone.bytes, 2));
  synth::Mate poor{{OpId::merge, {4, 12}, {synth::bare_literal(), synth::bare_literal()}}, mate.choice.mate->quality};
  const Chosen anew = choose(next, {poor, 3});
  CHECK(is_within(anew.bytes, alone.bytes, 2));
  CHECK(anew.choice.program->root().params != poor.expr.params);
}

TEST_CASE("dense follows nobody") {
  const Chosen mate = choose(kSwelling, {}, synth::Profile::dense);
  for (const Case* one : {&kSwellingToo, &kMoreChannels, &kBell}) {
    const Chosen alone = choose(*one, {}, synth::Profile::dense);
    const Chosen after = choose(*one, {mate.choice.mate, 3}, synth::Profile::dense);
    CHECK(after.choice.program->expr() == alone.choice.program->expr());
    CHECK(after.bytes == alone.bytes);
  }
}

TEST_CASE("searches in vain end, but for every eighth and for streams whose order tells much") {
  const auto searched = [](const Chosen& chosen) { return chosen.choice.trace && chosen.choice.trace->states != 0; };
  const Chosen first = choose(kSwelling, {});
  REQUIRE(searched(first));
  REQUIRE(first.choice.in_vain);
  CHECK(*first.choice.in_vain == 1);
  const Chosen third = choose(kSwelling, {{}, 0, 2}), ninth = choose(kSwelling, {{}, 0, 8});
  CHECK_FALSE(searched(third));
  REQUIRE(third.choice.in_vain);
  CHECK(*third.choice.in_vain == 3);
  CHECK(searched(ninth));
  CHECK(third.bytes == first.bytes);
  CHECK(searched(choose(kSwelling, {{}, 0, 2}, synth::Profile::dense)));
  const Chosen smooth = choose(kSmooth, {{}, 0, 2});
  CHECK(searched(smooth));
  REQUIRE(smooth.choice.in_vain);
  CHECK(*smooth.choice.in_vain == 0);
  CHECK_FALSE(choose(kBell, {}).choice.in_vain);  // a stream that is not searched tells nothing
}
