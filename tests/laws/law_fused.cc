// SPDX-License-Identifier: Apache-2.0
//
// A kernel that stands for a whole subtree gives the words that its nodes give one by one, and refuses what they
// refuse: for every shape that gets one, every level of kernels, length and misalignment, and for damaged frames.
#include <doctest/doctest.h>

#include <string>

#include "base/coding.h"
#include "bits/kernels.h"
#include "dsl/fused.h"
#include "support/bound.h"
#include "support/words.h"

using namespace brevis;
using test::Random;

namespace {

// A merge at random: one alias-coded field among others, most of which are packed, raw or constant.
struct Shape {
  unsigned width;        // of the words
  unsigned field_width;  // of the coded field
  unsigned shift;        // its place
  std::string text;
  size_t distinct;  // words of the coded field to draw from, besides exceptions
  bool exceptions;
  uint64_t fixed_mask = 0, fixed = 0;  // constants
};

std::string number(uint64_t value) { return std::to_string(value); }

// A field whose stream is computed by itself.
std::string other_field(Random& random, unsigned b) {
  const uint64_t kind = random.below(7);
  if (kind == 0 && b <= 12) return "literal(huffman)";
  if (kind == 1 && b <= 6) return "literal(alias)";
  if (kind == 2 && b <= 6) return "palette(" + number(uint64_t{1} << b) + "; literal(alias))";
  if (kind == 3 && b >= 2 && b <= 20) return "rank(3; literal(alias), literal(packed), literal(packed))";
  if (kind == 4 && b >= 2 && b <= 12) return "merge(1, " + number(b - 1) + "; literal(packed), literal(huffman))";
  if (kind == 5) return "literal(sparse)";
  return "literal(rans)";
}

// A plain field of `b` bits whose lowest bit is `shift`, or sometimes another one.
std::string plain_field(Random& random, unsigned b, unsigned shift, Shape& shape) {
  if (random.below(6) == 0) {
    const uint64_t value = random.next() & bits::low_mask(b);
    shape.fixed_mask |= bits::low_mask(b) << shift;
    shape.fixed |= value << shift;
    return "constant(" + number(value) + ")";
  }
  if (random.below(6) == 0) return other_field(random, b);
  return (b == 8 || b == 16) && random.below(2) == 0 ? "literal(raw)" : "literal(packed)";
}

Shape random_shape(Random& random) {
  Shape shape{};
  shape.width = 8u << random.below(3);
  const unsigned kind = static_cast<unsigned>(random.below(3));
  std::string coded;
  const unsigned room = shape.width - (random.below(8) == 0 ? 0 : 1);
  if (kind == 0) {
    shape.field_width = 1 + static_cast<unsigned>(random.below(std::min(6u, shape.width - 1)));
    shape.distinct = size_t{1} << shape.field_width;
    coded = "literal(alias)";
  } else {
    shape.field_width = 1 + static_cast<unsigned>(random.below(std::min(room, 20u)));
    const uint64_t words = bits::low_mask(std::min(shape.field_width, 6u)) + 1;
    if (kind == 1) {
      const uint64_t common[] = {1, 2, 15, 31, 63};
      uint64_t t = random.below(2) == 0 ? common[random.below(5)] : 1 + random.below(63);
      t = std::min(t, words);
      if (t == 64) t = 63;
      shape.distinct = t;
      shape.exceptions = true;
      coded = "rank(" + number(t) + "; literal(alias), literal(packed), literal(" +
              (random.below(2) == 0 ? "packed" : "rans") + "))";
    } else {
      const uint64_t size = 2 + random.below(words - 1);
      shape.distinct = size;
      coded = "palette(" + number(size) + "; literal(alias))";
    }
  }
  if (shape.field_width == shape.width) {
    shape.text = coded;
    return shape;
  }
  // Fields above, most significant first, then the coded one, then those below.
  std::vector<unsigned> above, below;
  unsigned rest = shape.width - shape.field_width;
  while (rest != 0 && above.size() + below.size() < 3) {
    const unsigned b = above.size() + below.size() == 2 || random.below(3) == 0
                           ? rest
                           : std::min(rest, 1 + static_cast<unsigned>(random.below(random.below(2) == 0 ? 1 : rest)));
    (random.below(2) == 0 ? above : below).push_back(b);
    rest -= b;
  }
  std::string widths, children;
  unsigned shift = shape.width;
  const auto add = [&](unsigned b, const std::string& child) {
    widths += (widths.empty() ? "" : ", ") + number(b);
    children += (children.empty() ? "" : ", ") + child;
  };
  for (const unsigned b : above) add(b, plain_field(random, b, shift -= b, shape));
  shape.shift = shift -= shape.field_width;
  add(shape.field_width, coded);
  for (const unsigned b : below) add(b, plain_field(random, b, shift -= b, shape));
  shape.text = "merge(" + widths + "; " + children + ")";
  return shape;
}

bits::OwnedWords draw_words(Random& random, const Shape& shape, size_t count) {
  std::vector<uint64_t> list;
  while (list.size() < shape.distinct) {
    const uint64_t word = random.next() & bits::low_mask(shape.field_width);
    if (std::find(list.begin(), list.end(), word) == list.end()) list.push_back(word);
  }
  bits::OwnedWords words(shape.width, count);
  const uint64_t field = bits::low_mask(shape.field_width) << shape.shift;
  const unsigned skew = 1 + static_cast<unsigned>(random.below(3)), rare = 1u << random.below(12);
  for (size_t i = 0; i < count; ++i) {
    uint64_t pick = random.below(list.size());
    for (unsigned k = 1; k < skew; ++k) pick = std::min(pick, random.below(list.size()));
    uint64_t coded = list[i < list.size() ? i : pick];
    if (shape.exceptions && random.below(rare) == 0) coded = random.next() & bits::low_mask(shape.field_width);
    words.words().set(i, (random.next() & bits::low_mask(shape.width) & ~field & ~shape.fixed_mask) | shape.fixed |
                             coded << shape.shift);
  }
  return words;
}

struct Pair {
  std::shared_ptr<const dsl::BoundProgram> fused, plain;
};
std::optional<Pair> bind_both(const Shape& shape, bits::ConstWords words) {
  const auto program = test::program_of(test::typed(shape.width, shape.text));
  const auto tables =
      test::must(dsl::train(*program, 0, 1, words.count, [&](uint64_t) { return Result<bits::ConstWords>(words); }));
  if (!tables) return std::nullopt;
  return Pair{test::bind_stored(program, *tables), test::bind_stored(program, *tables, false)};
}

bool has_kernel(const dsl::BoundProgram& bound) { return bound.fused(0) != nullptr; }

size_t draw_count(Random& random, unsigned trial) {
  const size_t near[] = {4096, 16384, 65536, 65536 + 64, 70000, 131072};
  if (trial % 4 == 0) return near[random.below(6)] + random.below(130) - 65;
  return random.below(trial % 4 == 1 ? 300 : 20000);
}

// Every level decodes as the nodes do in scalar code.
void compare(const Pair& pair, ByteSpan frame, size_t count, size_t misaligned) {
  const ByteVector stored(frame.begin(), frame.end());  // of its exact size, so that sanitizers see reading beyond
  bits::use_kernels(bits::all_kernels().front());
  const auto expected = test::decode(*pair.plain, stored, count);
  for (const bits::Kernels& kernels : bits::all_kernels()) {
    bits::use_kernels(kernels);
    CAPTURE(kernels.full_name());
    for (const auto* bound : {&pair.plain, &pair.fused}) {
      const auto result = test::decode(**bound, stored, count, 0, 0, misaligned);
      REQUIRE(result.has_value() == expected.has_value());
      if (result)
        REQUIRE(*result == *expected);
      else
        REQUIRE(result.error().kind() == expected.error().kind());
    }
  }
  bits::use_kernels(bits::all_kernels().back());
}

}  // namespace

TEST_CASE("fused: common programs get a kernel") {
  for (const char* text : {"u16 = merge(1, 10, 5; literal(packed), rank(63; literal(alias), literal(packed), "
                           "literal(packed)), literal(packed))",
                           "u8 = merge(1, 6, 1; literal(packed), literal(alias), literal(packed))",
                           "u32 = merge(9, 23; palette(40; literal(alias)), literal(packed))",
                           "u16 = merge(8, 5, 3; literal(raw), literal(alias), constant(5))",
                           "u16 = merge(1, 11, 4; literal(packed), literal(huffman), literal(packed))",
                           "u8 = merge(4, 4; literal(alias), literal(alias))"}) {
    const auto program = test::program_of(text);
    bits::OwnedWords words(program->width(), 2000);
    Random random(1);
    for (size_t i = 0; i < words.count(); ++i)
      words.words().set(i, (i % 64 * 0x6b43a9b5 & bits::low_mask(words.width()) & ~uint64_t{7}) | 5);
    const auto tables = test::must(
        dsl::train(*program, 0, 1, words.count(), [&](uint64_t) { return Result<bits::ConstWords>(words.view()); }));
    CAPTURE(text);
    if (!tables) continue;
    CHECK(has_kernel(*test::bind_stored(program, *tables)));
    CHECK(!has_kernel(*test::bind_stored(program, *tables, false)));
  }
}

TEST_CASE("fused: every shape, length and misalignment equals the nodes") {
  Random random(1);
  size_t tried = 0, long_ones = 0;
  for (unsigned trial = 0; trial < 600; ++trial) {
    const Shape shape = random_shape(random);
    const size_t count = std::min(draw_count(random, trial), (size_t{1} << 20) * 8 / shape.width);
    const auto words = draw_words(random, shape, count);
    const auto pair = bind_both(shape, words.view());
    if (!pair) continue;
    CAPTURE(shape.text);
    CAPTURE(count);
    REQUIRE(has_kernel(*pair->fused));
    const auto stored = test::encode(*pair->plain, words.view());
    REQUIRE(stored.has_value());
    REQUIRE(*test::decode(*pair->fused, *stored, count) == test::file_bytes(words.view()));
    for (const bits::Kernels& kernels : bits::all_kernels()) {
      bits::use_kernels(kernels);
      REQUIRE(test::encode(*pair->fused, words.view()) == stored);
    }
    compare(*pair, *stored, count, random.below(64));
    ++tried;
    long_ones += count >= 65536;
  }
  CHECK(tried > 200);
  CHECK(long_ones > 40);
}

TEST_CASE("fused: damaged frames are refused or give the words that the nodes give") {
  Random random(2);
  for (unsigned trial = 0; trial < 150; ++trial) {
    const Shape shape = random_shape(random);
    const bool longer = trial % 8 == 0;
    const size_t count = longer ? 65536 + random.below(2000) : random.below(200);
    const auto words = draw_words(random, shape, count);
    const auto pair = bind_both(shape, words.view());
    if (!pair) continue;
    const auto stored = test::encode(*pair->plain, words.view());
    REQUIRE(stored.has_value());
    CAPTURE(shape.text);
    CAPTURE(count);
    for (unsigned change = 0; change < (longer ? 12u : 60u) && !stored->empty(); ++change) {
      ByteVector damaged = *stored;
      // Near the ends are the lengths, the states and the exceptions.
      const size_t reach = random.below(3) == 0 ? damaged.size() : std::min<size_t>(damaged.size(), 60);
      const size_t at = random.below(2) == 0 ? random.below(reach) : damaged.size() - 1 - random.below(reach);
      if (change % 10 == 9)
        damaged.resize(at);
      else
        damaged[at] = static_cast<uint8_t>(change % 3 == 0 ? random.next() : damaged[at] ^ 1u << random.below(8));
      compare(*pair, damaged, count, random.below(16));
    }
    for (const size_t other : {count + 1, count + 64, count / 2}) compare(*pair, *stored, other, 1);
  }
}

namespace {

// Words dealt to four programs by the words before them.
Shape dealt_shape(Random& random) {
  constexpr const char* kPrograms[] = {
      "merge(1, 10, 5; literal(packed), rank(40; literal(alias), literal(packed), literal(packed)), literal(packed))",
      "merge(10, 6; rank(63; literal(alias), literal(packed), literal(sparse)), literal(packed))",
      "merge(11, 5; literal(huffman), literal(packed))",
      "merge(8, 5, 3; literal(packed), literal(alias), literal(packed))",
      "merge(4, 6, 6; literal(alias), literal(alias), literal(rans))"};
  constexpr const char* kNear[] = {"64, 2, 63, 1, 65, 1", "32, 1", "1, 1, 300, 2"};
  Shape shape{16, 10, 5, "context(field, 5, 10, " + std::string(kNear[random.below(3)]), 50, true};
  for (unsigned c = 0; c < 4; ++c) shape.text += std::string(c == 0 ? "; " : ", ") + kPrograms[random.below(5)];
  shape.text += ")";
  return shape;
}

}  // namespace

TEST_CASE("fused: several frames at once give what they give one by one") {
  struct One {
    Pair pair;
    ByteVector stored, out;
    size_t bytes;
  };
  Random random(5);
  size_t dealt = 0, damaged = 0;
  for (unsigned trial = 0; trial < 60; ++trial) {
    std::vector<One> frames;
    while (frames.size() < 1 + trial % 19) {
      const bool deals = random.below(4) == 0;
      const Shape shape = deals ? dealt_shape(random) : random_shape(random);
      // Mostly streams of 4 and of 16 lanes.
      const size_t kinds[] = {random.below(3000), 4096 + random.below(9000), 16384 + random.below(9000),
                              deals ? 60000 + random.below(20000) : 16384};
      const size_t count = kinds[random.below(4)];
      const auto words = draw_words(random, shape, count);
      const auto pair = bind_both(shape, words.view());
      if (!pair) continue;
      auto stored = test::encode(*pair->plain, words.view());
      REQUIRE(stored.has_value());
      if (random.below(3) == 0 && !stored->empty()) {
        const size_t reach = random.below(2) == 0 ? stored->size() : std::min<size_t>(stored->size(), 80);
        const size_t at = random.below(2) == 0 ? random.below(reach) : stored->size() - 1 - random.below(reach);
        if (random.below(5) == 0)
          stored->resize(at);
        else
          (*stored)[at] = static_cast<uint8_t>((*stored)[at] ^ 1u << random.below(8));
      }
      const ByteVector exact(stored->begin(), stored->end());
      frames.push_back({*pair, exact, ByteVector(count * shape.width / 8 + 16), count * shape.width / 8});
      dealt += deals;
    }
    const size_t misaligned = random.below(9);
    for (const bits::Kernels& kernels : bits::all_kernels()) {
      CAPTURE(kernels.full_name());
      bits::use_kernels(kernels);
      std::vector<dsl::FrameTask> tasks;
      for (One& frame : frames)
        tasks.push_back(
            {frame.pair.fused.get(), 0, 0, frame.stored, MutByteSpan(frame.out).subspan(misaligned, frame.bytes)});
      Arena arena;
      dsl::decode_frames(tasks, arena);
      bits::use_kernels(bits::all_kernels().front());
      for (size_t i = 0; i < frames.size(); ++i) {
        const size_t width = frames[i].pair.plain->program().width();
        const auto expected = test::decode(*frames[i].pair.plain, frames[i].stored, frames[i].bytes * 8 / width);
        REQUIRE(tasks[i].status.has_value() == expected.has_value());
        damaged += !expected.has_value();
        if (expected)
          REQUIRE(std::equal(expected->begin(), expected->end(), tasks[i].out.begin(), tasks[i].out.end()));
        else
          REQUIRE(tasks[i].status.error().kind() == expected.error().kind());
      }
    }
  }
  bits::use_kernels(bits::all_kernels().back());
  CHECK(damaged > 20);
  CHECK(dealt > 30);
}

TEST_CASE("fused: what the nodes cannot express is not encoded either") {
  Random random(3);
  for (unsigned trial = 0; trial < 300; ++trial) {
    const Shape shape = random_shape(random);
    const size_t count = 1 + random.below(300);
    auto words = draw_words(random, shape, count);
    const auto pair = bind_both(shape, words.view());
    if (!pair) continue;
    words.words().set(random.below(count), random.next() & bits::low_mask(shape.width));
    CAPTURE(shape.text);
    REQUIRE(test::encode(*pair->fused, words.view()) == test::encode(*pair->plain, words.view()));
  }
}

TEST_CASE("fused: of sets of tables the same are chosen") {
  Random random(4);
  size_t tried = 0;
  for (unsigned trial = 0; trial < 300; ++trial) {
    const Shape shape = random_shape(random);
    const auto program = test::program_of(test::typed(shape.width, shape.text));
    std::vector<bits::OwnedWords> words;
    std::vector<std::vector<dsl::SlotTable>> tables(program->slots().size());
    for (unsigned i = 0; i < 4; ++i) {
      words.push_back(draw_words(random, shape, 1 + random.below(3000)));
      const auto trained = test::must(dsl::train(*program, 0, 1, words.back().count(), [&](uint64_t) {
        return Result<bits::ConstWords>(words.back().view());
      }));
      for (size_t slot = 0; trained && slot < trained->size(); ++slot)
        tables[slot].push_back(test::must(dsl::load_slot(*program, program->slots()[slot], (*trained)[slot])));
    }
    if (tables.empty() || tables[0].empty()) continue;
    const auto fused = test::must(dsl::BoundProgram::bind(program, tables)),
               plain = test::must(dsl::BoundProgram::bind(program, tables, false));
    CAPTURE(shape.text);
    for (const auto& some : words) {
      const auto stored = test::encode(*plain, some.view());
      REQUIRE(test::encode(*fused, some.view()) == stored);
      if (!stored) continue;
      compare({fused, plain}, *stored, some.count(), random.below(9));
      ++tried;
    }
  }
  CHECK(tried > 300);
}

// Tables whose symbols go beyond what a rank or palette has words for.
TEST_CASE("fused: symbols without a word are refused when they come, and only then") {
  const auto program = test::program_of(
      "u16 = merge(10, 6; rank(40; literal(alias), literal(packed), literal(packed)), literal(packed))");
  codec::Histogram symbols{6, {}};
  for (uint64_t s = 0; s < 64; ++s) symbols.counts.emplace_back(s, 64 - s);
  std::vector<uint64_t> list;
  for (uint64_t i = 0; i < 40; ++i) list.push_back(7 * i);
  const auto& alias = *codec::find_codec("alias");
  const std::vector<ByteVector> tables{dsl::store_word_list(list), test::must(alias.train(symbols))};
  const Pair pair{test::bind_stored(program, tables), test::bind_stored(program, tables, false)};
  const auto table = test::must(alias.load(tables[1], 6));
  for (const size_t count : {300, 66000})
    for (const uint64_t highest : {39, 40, 41, 63}) {
      Random random(count);
      bits::OwnedWords ranks(6, count), low(6, count), gaps(20, 0), others(10, 0);
      for (size_t i = 0; i < count; ++i) ranks.words().set(i, random.below(highest + 1));
      ByteVector payload, low_payload;
      test::must(alias.encode(table.get(), ranks.view(), payload));
      test::must(codec::find_codec("packed")->encode(nullptr, low.view(), low_payload));
      ByteVector stored;
      ByteWriter header(stored);
      header.varint(0);  // exceptions
      header.varint(payload.size());
      header.varint(0);
      header.varint(0);
      header.varint(low_payload.size());
      stored.insert(stored.end(), payload.begin(), payload.end());
      stored.insert(stored.end(), low_payload.begin(), low_payload.end());
      CHECK(test::decode(*pair.fused, stored, count).has_value() == (highest < 40));
      compare(pair, stored, count, 0);
    }
}

// A base is given wherever its reader has it, the output lies wherever it is wanted.
TEST_CASE("fused: differences to a base equal the nodes") {
  Random random(5);
  const char* const inner[] = {"literal(raw)", "literal(sparse)", "merge(W, 4; literal(rans), literal(packed))",
                               "merge(W, 4; literal(packed), literal(alias))"};
  for (unsigned trial = 0; trial < 160; ++trial) {
    const unsigned width = 8u << random.below(3);
    std::string text = inner[width == 32 ? random.below(4) / 2 * 2 : random.below(4)];
    if (const size_t at = text.find('W'); at != text.npos) text.replace(at, 1, number(width - 4));
    const bool folded = random.below(2) == 0;
    const std::string function[] = {"xor", "add", "sub", "order"};
    const size_t count = random.below(trial % 8 == 0 ? 70000 : 500);
    bits::OwnedWords steps(width, count);
    for (size_t i = 0; i < count; ++i) steps.words().set(i, random.below(60));
    const auto alone = test::program_of(test::typed(width, text));
    const auto tables =
        test::must(dsl::train(*alone, 0, 1, count, [&](uint64_t) { return Result<bits::ConstWords>(steps.view()); }));
    if (!tables) continue;
    const auto program =
        test::program_of(test::typed(width, "combine(" + function[random.below(4)] + "; " +
                                                (folded ? "map(zigzag, 0; " + text + ")" : text) + ", base)"));
    const Pair pair{test::bind_stored(program, *tables), test::bind_stored(program, *tables, false)};
    REQUIRE(has_kernel(*pair.fused));
    const auto stored = test::encode(*test::bind_stored(alone, *tables, false), steps.view());
    REQUIRE(stored.has_value());
    ByteVector memory(count * width / 8 + 8);
    for (uint8_t& byte : memory) byte = static_cast<uint8_t>(random.next());
    const ByteSpan base = ByteSpan(memory).subspan(random.below(8), count * width / 8);
    CAPTURE(width);
    CAPTURE(text);
    const auto expected = test::decode(*pair.plain, *stored, count, 0, 0, 0, {&base, 1});
    REQUIRE(expected.has_value());
    for (const bits::Kernels& kernels : bits::all_kernels()) {
      bits::use_kernels(kernels);
      REQUIRE(test::decode(*pair.fused, *stored, count, 0, 0, random.below(9), {&base, 1}) == *expected);
      REQUIRE(test::encode(*pair.fused, test::words_of(*expected, width).view(), 0, 0, {&base, 1}) == stored);
    }
    for (unsigned change = 0; change < 20 && !stored->empty(); ++change) {
      ByteVector damaged = *stored;
      damaged[random.below(damaged.size())] ^= static_cast<uint8_t>(1u << random.below(8));
      const auto truth = test::decode(*pair.plain, damaged, count, 0, 0, 0, {&base, 1});
      const auto result = test::decode(*pair.fused, damaged, count, 0, 0, random.below(9), {&base, 1});
      REQUIRE(result.has_value() == truth.has_value());
      if (truth) REQUIRE(*result == *truth);
    }
  }
  bits::use_kernels(bits::all_kernels().back());
}
