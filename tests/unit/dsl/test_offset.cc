// SPDX-License-Identifier: Apache-2.0
//
// The operator `offset`: what its definition says word by word, what its gates refuse, and steps that stay right when
// rows are zero or single words absurd.
#include <doctest/doctest.h>

#include "bits/bit_io.h"
#include "dsl/op.h"
#include "dsl/verify.h"
#include "support/bound.h"
#include "support/words.h"

using namespace brevis;
using namespace brevis::dsl;
using test::must;

namespace {

Node node_of(unsigned width, std::vector<uint64_t> params) {
  return {OpId::offset, static_cast<uint8_t>(width), std::move(params), {1}};
}

// The stored form, all Rice parameters 5.
ByteVector stored_steps(const std::vector<std::vector<int>>& axes) {
  ByteVector out;
  bits::BitWriter writer(out);
  for (const auto& steps : axes) {
    writer.put(5, 4);
    for (const int step : steps) {
      const auto z = static_cast<uint64_t>(step < 0 ? -2 * step - 1 : 2 * step);
      writer.put_unary(z >> 5);
      writer.put(z & 31, 5);
    }
  }
  writer.finish();
  return out;
}

std::string refusal(unsigned width, const std::string& parameters) {
  const auto program = parse_program(test::typed(width, "offset(" + parameters + "; literal(packed))"));
  return program ? "" : program.error().message();
}

// BF16 words with exponents 120 or rarely 121 + row + column scales, mantissas random.
bits::OwnedWords scaled(size_t rows, size_t columns, uint64_t seed) {
  test::Random random(seed);
  bits::OwnedWords words(16, rows * columns);
  for (size_t i = 0; i < words.count(); ++i) {
    const uint64_t exponent = 120 + i / columns * 7 % 9 + i % columns * 5 % 11 + (random.below(8) == 0);
    words.words().set(i, random.below(2) << 15 | exponent << 7 | random.below(128));
  }
  return words;
}

constexpr std::string_view kScaled =
    "u16 = offset(7, 8, 40, 100, 1, 40; merge(1, 8, 7; literal(packed), literal(packed), literal(packed)))";

// Words of more than one exponent that are left after the steps that suit `words`.
size_t strays(bits::ConstWords words) {
  const Node node = node_of(16, {7, 8, 40, 100, 1, 40});
  const Window window{0, words};
  Target target;
  target.width = 16;
  target.windows = {&window, 1};
  const SlotTable table = must(load_slot(node, *suit_slot(node, target)));
  std::vector<bits::OwnedWords> children;
  std::vector<uint64_t> counts;
  CHECK(must(spec_of(OpId::offset).invert({node, nullptr, 0, {}, table.blob.get()}, words, children, counts)));
  std::array<size_t, 256> exponents{};
  for (size_t i = 0; i < words.count; ++i) ++exponents[children[0].view().at(i) >> 7 & 255];
  return words.count - *std::max_element(exponents.begin(), exponents.end());
}

}  // namespace

TEST_CASE("offset: words are what the definition says, wherever a frame begins") {
  const std::vector<std::vector<uint64_t>> shapes = {{7, 8, 9, 5, 1, 9},
                                                     {0, 16, 1, 3},
                                                     {3, 4, 700, 3, 1, 700, 35, 20},
                                                     {15, 1, 1, 1000, 3, 999},
                                                     {0, 5, 2, 2, 64, 64, 1, 2, 4, 16}};
  test::Random random(1);
  for (const auto& params : shapes) {
    CAPTURE(params);
    std::vector<std::vector<int>> steps;
    for (size_t k = 2; k < params.size(); k += 2) {
      steps.emplace_back();
      for (uint64_t i = 0; i < params[k + 1]; ++i) steps.back().push_back(static_cast<int>(random.below(8192)) - 4096);
    }
    const Node node = node_of(16, params);
    const SlotTable table = must(load_slot(node, stored_steps(steps)));
    for (const uint64_t first : {uint64_t{0}, uint64_t{1}, uint64_t{4099}, (uint64_t{1} << 50) + 12345}) {
      const bits::OwnedWords child = test::make_words(test::Shape::uniform, 16, 3000, first);
      const bits::ConstWords in = child.view();
      bits::OwnedWords out(16, 3000);
      must(spec_of(OpId::offset).run({node, nullptr, first, {}, table.blob.get()}, {&in, 1}, out.words()));
      for (size_t j = 0; j < 3000; ++j) {
        int sum = 2;
        for (size_t k = 0; k < steps.size(); ++k) sum += steps[k][(first + j) / params[2 + 2 * k] % params[3 + 2 * k]];
        const auto whole = static_cast<uint64_t>(int64_t{sum >= 0 ? sum / 4 : -((3 - sum) / 4)});
        const uint64_t mask = bits::low_mask(static_cast<unsigned>(params[1])) << params[0], word = in.at(j);
        REQUIRE(out.view().at(j) == ((word & ~mask) | ((word + (whole << params[0])) & mask)));
      }
    }
  }
}

TEST_CASE("offset: the gate refuses fields and axes that cannot be") {
  CHECK(refusal(16, "7, 8, 64, 60, 1, 64") == "");
  CHECK(refusal(8, "0, 8, 17592186044416, 2") == "");
  CHECK(refusal(16, "7, 8") != "");
  CHECK(refusal(16, "7, 8, 1") != "");
  CHECK(refusal(16, "7, 10, 1, 5") != "");
  CHECK(refusal(16, "16, 1, 1, 5") != "");
  CHECK(refusal(16, "7, 0, 1, 5") != "");
  CHECK(refusal(16, "18446744073709551615, 2, 1, 5") != "");
  CHECK(refusal(16, "7, 8, 0, 5") != "");
  CHECK(refusal(16, "7, 8, 17592186044417, 5") != "");
  CHECK(refusal(16, "7, 8, 1, 1") != "");
  CHECK(refusal(16, "7, 8, 1, 262144") == "");
  CHECK(refusal(16, "7, 8, 1, 262145") != "");
  CHECK(refusal(16, "7, 8, 1, 262000, 1, 145") != "");
  CHECK(refusal(16, "7, 8, 1, 18446744073709551615, 1, 2") != "");
  CHECK(refusal(16, "7, 8, 1, 2, 1, 2, 1, 2, 1, 2") == "");
  CHECK(refusal(16, "7, 8, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2") != "");
}

TEST_CASE("offset: stored steps are refused unless they are exactly that many") {
  const Node node = node_of(16, {7, 8, 1, 3});
  const auto loads = [&](const ByteVector& stored) {
    const auto table = load_slot(node, stored);
    if (!table) CHECK(table.error().kind() == Errc::corrupt);
    return table.has_value();
  };
  const ByteVector good = stored_steps({{4095, -4096, 0}});
  CHECK(loads(good));
  CHECK_FALSE(loads({}));
  CHECK_FALSE(loads(ByteVector(good.begin(), good.end() - 1)));
  ByteVector longer = good;
  longer.push_back(0);
  CHECK_FALSE(loads(longer));
  CHECK_FALSE(loads(stored_steps({{4096, 0, 0}})));
  CHECK_FALSE(loads(stored_steps({{0, 0}})));
  CHECK_FALSE(loads({0x0e, 0, 0, 0, 0, 0}));  // Rice parameter 14
  ByteVector padding = stored_steps({{0, 0, 0}});
  padding.back() |= 0x80;
  CHECK_FALSE(loads(padding));
  // A small table cannot ask for the memory of a large axis.
  CHECK_FALSE(load_slot(node_of(16, {7, 8, 1, 262144}), ByteVector(100)));
  const SlotTable table = must(
      load_slot(node_of(16, {0, 8, 300, 300, 1, 299}), stored_steps({std::vector<int>(300), std::vector<int>(299)})));
  CHECK(table.blob->bytes() < 100000);
}

TEST_CASE("offset: steps bring rows and columns to one exponent, zero rows and absurd words notwithstanding") {
  bits::OwnedWords words = scaled(100, 40, 1);
  CHECK(strays(words.view()) < 600);
  for (size_t i = 0; i < 40; ++i) words.words().set(3 * 40 + i, 0);           // a row of zeros
  for (size_t i = 0; i < 100; i += 2) words.words().set(i * 40 + 7, 0x8000);  // half a column of them
  words.words().set(5 * 40 + 5, 0x0001);                                      // a denormal
  words.words().set(50 * 40 + 5, 0x7f80);                                     // an infinity
  CHECK(strays(words.view()) < 850);
}

TEST_CASE("offset: a frame is decoded alike by kernels and node by node, aligned or not") {
  const bits::OwnedWords words = scaled(100, 40, 2);
  const ByteVector bytes = test::file_bytes(words.view());
  for (const std::string_view text :
       {kScaled, std::string_view("u16 = offset(7, 8, 40, 100, 1, 40; merge(1, 8, 7; literal(packed), "
                                  "rank(1; literal(alias), literal(packed), literal(packed)), literal(packed)))")}) {
    CAPTURE(text);
    const auto program = test::program_of(text);
    const auto tables = must(train(*program, 0, 4, 1000, [&](uint64_t frame) {
      return Result<bits::ConstWords>(words.view().part(frame * 1000, 1000));
    }));
    REQUIRE(tables);
    for (const bool fuse : {true, false}) {
      const auto bound = test::bind_stored(program, *tables, fuse);
      for (const size_t first : {0, 1000, 3000})
        for (const size_t misaligned : {0, 1}) {
          const auto frame = test::encode(*bound, words.view().part(first, 1000), first);
          REQUIRE(frame);
          const ByteVector out = must(test::decode(*bound, *frame, 1000, first, 0, misaligned));
          CHECK(std::equal(out.begin(), out.end(), bytes.begin() + static_cast<ptrdiff_t>(2 * first)));
        }
    }
  }
}

TEST_CASE("offset: proposals name axes of the shape, pass the gate, and need a float") {
  Target target;
  target.width = 16;
  target.dtype = Dtype::BF16;
  const std::vector<std::vector<uint64_t>> shapes = {
      {64, 64}, {32, 16, 3, 3}, {1, 5000}, {3, 3, 16, 32}, {2, 3, 4, 5, 6, 7}};
  const auto propose = [&] {
    std::vector<Proposal> out;
    spec_of(OpId::offset).propose(target, out);
    return out;
  };
  for (const auto& shape : shapes) {
    CAPTURE(shape);
    target.shape = shape;
    const auto proposals = propose();
    CHECK(proposals.size() <= 12);
    if (shape[0] != 1) CHECK(proposals.size() >= 3);
    for (const Proposal& proposal : proposals) {
      CHECK(proposal.params[0] == 7);
      CHECK(proposal.params[1] == 8);
      CHECK(spec_of(OpId::offset).child_widths(node_of(16, proposal.params), 1));
    }
  }
  target.shape = {};
  CHECK(propose().empty());
  target.shape = shapes[0];
  target.dtype = Dtype::I16;
  CHECK(propose().empty());
  target.dtype = Dtype::unknown;
  CHECK(propose().empty());
}
