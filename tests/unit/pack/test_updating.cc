// SPDX-License-Identifier: Apache-2.0
//
// Steps of training, whose size in units of the last place goes with the weight's exponent, are dealt by the base.
#include "pack/updating.h"

#include <doctest/doctest.h>

#include <cstring>

#include "against.h"
#include "dsl/update_fit.h"
#include "support/weights.h"

using namespace brevis;

namespace {

// Every weight moved by about as much, which is few units of the last place of a large one. `same`: by as many units.
ByteVector trained(Dtype dtype, ByteVector words, bool same, uint64_t seed) {
  const DtypeInfo& info = dtype_info(dtype);
  const unsigned lane = info.bits / 8;
  test::Rng rng(seed);
  for (size_t i = 0; i + lane <= words.size(); i += lane) {
    uint64_t word = 0;
    std::memcpy(&word, words.data() + i, lane);
    const uint64_t exponent = word >> info.mantissa_bits & ((1u << info.exponent_bits) - 1);
    const uint64_t top = (1u << (info.exponent_bits - 1)) - 2;  // of the largest weights
    const uint64_t reach = same ? 5 : std::min<uint64_t>(1u << 12, 2ull << (exponent < top ? top - exponent : 0));
    word += rng.below(2 * reach + 1) - reach;
    std::memcpy(words.data() + i, &word, lane);
  }
  return words;
}

bits::OwnedWords words_of(std::initializer_list<uint64_t> values) {
  bits::OwnedWords out(16, values.size());
  size_t i = 0;
  for (const uint64_t value : values) out.words().set(i++, value);
  return out;
}

}  // namespace

TEST_CASE("update: steps that depend on the exponent are dealt by it") {
  for (const Dtype dtype : {Dtype::BF16, Dtype::F16, Dtype::F32}) {
    CAPTURE(dtype_info(dtype).name);
    for (const size_t words : {5000, 300001}) {  // part of a frame, and several
      const ByteVector base = test::gaussian_words(dtype, words, 1);
      const test::Against outcome = test::pack_against(dtype, base, trained(dtype, base, false, 2));
      CHECK(outcome.root == dsl::OpId::update);
    }
  }
}

TEST_CASE("update: steps that do not depend on it are left to a plain difference") {
  const ByteVector base = test::gaussian_words(Dtype::BF16, 100000, 3);
  CHECK(test::pack_against(Dtype::BF16, base, trained(Dtype::BF16, base, true, 4)).root == dsl::OpId::combine);
}

TEST_CASE("update: integers and short tensors are left to a plain difference") {
  const ByteVector base = test::gaussian_words(Dtype::BF16, 4000, 5);
  const ByteVector next = trained(Dtype::BF16, base, false, 6);
  CHECK(test::pack_against(Dtype::BF16, base, next).root != dsl::OpId::update);
  const ByteVector many = test::gaussian_words(Dtype::BF16, 40000, 7), stepped = trained(Dtype::BF16, many, false, 8);
  CHECK(test::pack_against(Dtype::I16, many, stepped).root != dsl::OpId::update);
  CHECK(test::pack_against(Dtype::BF16, many, stepped).root == dsl::OpId::update);
}

TEST_CASE("update: less is stored than by one table") {
  const ByteVector base = test::gaussian_words(Dtype::BF16, 300000, 7), next = trained(Dtype::BF16, base, false, 8);
  // The same steps in an order that has nothing to do with the base.
  ByteVector mixed = base;
  for (size_t i = 0; i + 2 <= base.size(); i += 2) {
    const size_t from = base.size() - 2 - i;
    uint16_t word, was, is;
    std::memcpy(&word, base.data() + i, 2);
    std::memcpy(&was, base.data() + from, 2);
    std::memcpy(&is, next.data() + from, 2);
    word = static_cast<uint16_t>(word + is - was);
    std::memcpy(mixed.data() + i, &word, 2);
  }
  const test::Against dealt = test::pack_against(Dtype::BF16, base, next),
                      plain = test::pack_against(Dtype::BF16, base, mixed);
  CHECK(plain.root == dsl::OpId::combine);
  CHECK(dealt.bytes < plain.bytes * 19 / 20);
}

TEST_CASE("update: classes begin where steps change") {
  // Fields 1, 2 | 3 | 4, 5 | 6 with steps of their own: cut there and nowhere else.
  dsl::UpdateFitter fitter(0, 8), other(0, 8);
  const bits::OwnedWords fields = words_of({1, 2, 3, 4, 5, 6}), steps = words_of({0, 0, 1, 2, 2, 3});
  for (int i = 0; i < 300; ++i) (i % 2 ? fitter : other).add(steps.view(), fields.view());
  fitter.add(other);
  const auto fit = fitter.finish();
  REQUIRE(fit);
  CHECK(fit->stored == dsl::stored_classes({3, 4, 6}));
  // One table: thirds and sixths; four: nothing at all.
  CHECK(fit->saved_bits > 1800 * 1.9);
  CHECK(fit->saved_bits < 1800 * 1.93);
}

TEST_CASE("update: too few fields for four classes") {
  dsl::UpdateFitter fitter(0, 8);
  fitter.add(words_of({0, 1, 2}).view(), words_of({7, 8, 9}).view());
  CHECK_FALSE(fitter.finish());
  CHECK_FALSE(dsl::UpdateFitter(0, 8).finish());
}
