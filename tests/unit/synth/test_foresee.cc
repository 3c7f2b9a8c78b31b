// SPDX-License-Identifier: Apache-2.0
#include "synth/foresee.h"

#include <doctest/doctest.h>

#include "dsl/encode.h"
#include "synth/table_sets.h"
#include "unit/synth/cases.h"

using namespace brevis;
using namespace brevis::test;
using dsl::Expr;

namespace {

std::vector<Case> cases() {
  std::vector<Case> out;
  out.push_back({"bell", Dtype::BF16, test::gaussian_words(Dtype::BF16, 200 * 300, 1), {200, 300}});
  out.push_back({"long bell", Dtype::BF16, test::gaussian_words(Dtype::BF16, 1024 * 2048, 2), {1024, 2048}});
  out.push_back({"channels", Dtype::BF16, test::channel_words(Dtype::BF16, 300, 256, 5), {300, 256}});
  out.push_back({"long channels", Dtype::BF16, test::channel_words(Dtype::BF16, 1024, 2048, 6), {1024, 2048}});
  out.push_back({"channels in F32", Dtype::F32, test::channel_words(Dtype::F32, 200, 256, 7), {200, 256}});
  out.push_back({"swelling", Dtype::BF16, swelling_words(256, 256), {256, 256}});
  out.push_back({"smooth", Dtype::BF16, smooth_words(400, 64), {400, 64}});
  out.push_back({"widened", Dtype::F32, test::upcast_words(50000, 4), {50000}});
  out.push_back({"integers", Dtype::I32, test::palette_words(32, 50000, 16, 5), {50000}});
  out.push_back({"pruned", Dtype::F16, test::zero_heavy_words(Dtype::F16, 40000, 3), {200, 200}});
  out.push_back({"noise", Dtype::U8, test::random_bytes(80000, 6), {80000}});
  out.push_back({"constant", Dtype::BF16, test::constant_words(16, 5000, 0x3f80), {5000}});
  out.push_back({"ramp", Dtype::I64, test::ramp_words(64, 5000, 0, 1), {5000}});
  out.push_back({"few", Dtype::BF16, test::random_bytes(6, 1), {3}});
  return out;
}

std::vector<synth::StreamStats> quarters_of(const Case& one, const synth::Stream& stream) {
  std::vector<synth::StreamStats> parts;
  if (stream.width > 16 || one.bytes.size() < (4u << 20)) return parts;
  const bits::ConstWords all{one.bytes.data(), stream.words, static_cast<uint8_t>(stream.width)};
  for (size_t k = 0; k < 4; ++k) parts.push_back(synth::gather(all.part(stream.words / 4 * k, stream.words / 4)));
  return parts;
}

void check_equal(const synth::Choice& a, const synth::Choice& b) {
  CHECK(a.program->expr() == b.program->expr());
  CHECK(a.tables == b.tables);
  CHECK(a.frame_words == b.frame_words);
  CHECK(a.estimated_bytes == b.estimated_bytes);
  CHECK(a.shared == b.shared);
  CHECK(a.mate.has_value() == b.mate.has_value());
  if (a.mate && b.mate) {
    CHECK(a.mate->expr == b.mate->expr);
    CHECK(a.mate->quality == b.mate->quality);
  }
  CHECK(a.kin.has_value() == b.kin.has_value());
  if (a.kin && b.kin) CHECK(a.kin->in_a_row == b.kin->in_a_row);
  CHECK(a.counted.has_value() == b.counted.has_value());
  if (a.counted && b.counted) CHECK(a.counted->in_a_row == b.counted->in_a_row);
}

// Whether what choosing encoded is at hand; if so it is what encoding gives.
bool encoded_is_true(const synth::Choice& choice, const synth::Stream& stream) {
  if (!choice.encoded) return false;
  REQUIRE(choice.frame_words.size() == 1);
  const uint64_t step = choice.frame_words[0];
  CHECK(choice.encoded->size() == (stream.words + step - 1) / step);
  const auto bound = synth::bind_sets(choice.program, synth::single_sets(choice.tables));
  REQUIRE(bound);
  bits::OwnedWords buffer;
  for (size_t frame = 0; frame < choice.encoded->size(); ++frame) {
    const uint64_t first = frame * step;
    const auto words = stream.at(first, std::min(step, stream.words - first), buffer);
    REQUIRE(words);
    ByteVector stored;
    const auto fits = dsl::encode_frame(**bound, 0, first, *words, stored);
    REQUIRE(fits);
    CHECK(*fits);
    CHECK(stored == (*choice.encoded)[frame]);
  }
  return true;
}

}  // namespace

TEST_CASE("what was foreseen changes no choice, whatever was guessed of the streams in between") {
  const World world;
  size_t encoded = 0;
  const Expr cut{dsl::OpId::merge, {1, 10, 5}, {synth::bare_literal(), synth::bare_literal(), synth::bare_literal()}};
  const std::vector<std::optional<synth::Mate>> mates{
      std::nullopt, synth::Mate{{dsl::OpId::offset, {7, 8, 256, 300}, {cut}}, 66000},
      synth::Mate{{dsl::OpId::context, {0, 5, 10, 1, 2, 2, 1}, {cut, cut, cut, cut}}, 66000}, synth::Mate{cut, 66000}};
  for (const Case& one : cases()) {
    CAPTURE(one.name);
    const synth::Stream stream = stream_of(one);
    const synth::StreamStats stats =
        synth::gather({one.bytes.data(), stream.words, static_cast<uint8_t>(stream.width)});
    const std::vector<synth::StreamStats> parts = quarters_of(one, stream);
    for (const bool searching : {true, false}) {
      if (!searching && one.bytes.size() > (1u << 18)) continue;
      const uint64_t entropy = synth::entropy_by_stats(stats) / stream.words;
      const auto choose = [&](const std::optional<synth::Mate>& mate, unsigned plain, unsigned counted,
                              synth::Foreseen* seen) {
        synth::Budget budget(world.effort);
        synth::ChooseOptions options;
        options.parts = parts;
        options.mate = mate;
        if (mate) options.mate->entropy = entropy;
        if (plain != 0) options.kin = synth::Kin{plain, entropy};
        if (counted != 0) options.counted = synth::Kin{counted, entropy};
        if (searching) options.search = {&world.grammar, &world.prior, &world.effort, &budget};
        options.foreseen = seen;
        auto choice = synth::choose(stream, stats, options);
        REQUIRE(choice);
        return std::move(*choice);
      };
      for (const auto& mate : mates) {
        for (const auto& [plain, counted] : {std::pair{0u, 0u}, std::pair{3u, 0u}, std::pair{0u, 3u}}) {
          const synth::Choice truth = choose(mate, plain, counted, nullptr);
          encoded += encoded_is_true(truth, stream);
          for (const auto& guessed : mates) {
            for (const auto& [guessed_plain, guessed_counted] :
                 {std::pair{false, 0u}, std::pair{true, 0u}, std::pair{false, 5u}}) {
              if ((guessed_plain || guessed_counted != 0) && guessed) continue;
              synth::Budget budget(world.effort);
              synth::ChooseOptions options;
              options.parts = parts;
              options.mate = guessed;
              if (guessed) options.mate->entropy = entropy;
              if (guessed_counted != 0) options.counted = synth::Kin{guessed_counted, entropy};
              if (searching) options.search = {&world.grammar, &world.prior, &world.effort, &budget};
              const auto seen = synth::Foreseen::of(stream, stats, options, guessed_plain);
              REQUIRE(seen);
              check_equal(choose(mate, plain, counted, seen->get()), truth);
            }
          }
        }
      }
    }
  }
  CHECK(encoded > 0);
}

TEST_CASE("kin of which counts told the best known program are believed, unless this one shows order") {
  const World world;
  const auto choose = [&](const Case& one, unsigned counted) {
    const synth::Stream stream = stream_of(one);
    const synth::StreamStats stats =
        synth::gather({one.bytes.data(), stream.words, static_cast<uint8_t>(stream.width)});
    synth::Budget budget(world.effort);
    synth::ChooseOptions options;
    options.search = {&world.grammar, &world.prior, &world.effort, &budget};
    if (counted != 0) options.counted = synth::Kin{counted, synth::entropy_by_stats(stats) / stream.words};
    auto choice = synth::choose(stream, stats, options);
    REQUIRE(choice);
    return std::move(*choice);
  };
  const Case bell{"bell", Dtype::BF16, test::gaussian_words(Dtype::BF16, 200 * 300, 1), {200, 300}};
  const synth::Choice first = choose(bell, 0), next = choose(bell, 3);
  REQUIRE(first.counted);
  CHECK(first.counted->in_a_row == 1);
  REQUIRE(next.counted);
  CHECK(next.counted->in_a_row == 4);
  CHECK(next.program->expr() == first.program->expr());
  CHECK(next.tables == first.tables);
  // Believing is not always right: what samples tell of zeros is not seen. The eighth in a row is looked at.
  const Case pruned{"pruned", Dtype::F16, test::zero_heavy_words(Dtype::F16, 40000, 3), {200, 200}};
  const synth::Choice seen = choose(pruned, 0), unseen = choose(pruned, 3), doubted = choose(pruned, 8);
  CHECK(seen.program->root().op == dsl::OpId::zeros);
  CHECK(unseen.program->root().op != dsl::OpId::zeros);
  CHECK(doubted.program->expr() == seen.program->expr());
  const Case smooth{"smooth", Dtype::BF16, smooth_words(400, 64), {400, 64}};
  const synth::Choice alone = choose(smooth, 0), among = choose(smooth, 3);
  REQUIRE(among.counted);
  CHECK(among.counted->in_a_row == 0);
  CHECK(among.program->expr() == alone.program->expr());
}
