// SPDX-License-Identifier: Apache-2.0
//
// Scalar kernels are the truth: every variant that this CPU can run gives what they give, whatever the length, the
// place in memory and the words, also hostile ones.
#include <doctest/doctest.h>

#include <algorithm>

#include "bits/combine.h"
#include "laws/kernel_streams.h"

using namespace brevis;
using namespace brevis::test;

TEST_CASE("kernels: pack, unpack and any_bits of every variant equal scalar") {
  for (const Kernels& variant : variants()) {
    CAPTURE(variant.full_name());
    Random random(1);
    for (unsigned width = 1; width <= 64; ++width)
      for (unsigned b = 1; b <= width; b += width > 17 ? 1 + static_cast<unsigned>(random.below(5)) : 1)
        for (size_t count = 0; count <= 512; count += width < 17 && b == width ? 1 : 1 + random.below(40)) {
          CAPTURE(width);
          CAPTURE(b);
          CAPTURE(count);
          const auto narrow = test::make_words(test::Shape::uniform, b, count, count);
          bits::OwnedWords in(width, count), out(width, count), expected(width, count);
          for (size_t i = 0; i < count; ++i) in.words().set(i, narrow.view().at(i));
          const size_t bytes = (count * b + 7) / 8, misaligned = random.below(64);
          Exact packed(bytes, misaligned, 0xee), truth(bytes, misaligned, 0x11);
          variant.pack(in.view(), b, packed.data());
          scalar().pack(in.view(), b, truth.data());
          REQUIRE(packed == truth);
          REQUIRE(variant.any_bits(in.view()) == scalar().any_bits(in.view()));
          if (count * b % 8 != 0) packed.data()[bytes - 1] |= static_cast<uint8_t>(0xff << count * b % 8);
          variant.unpack(packed.data(), b, out.words());
          REQUIRE(
              std::equal(out.view().byte_span().begin(), out.view().byte_span().end(), in.view().byte_span().begin()));
        }
  }
}

TEST_CASE("kernels: take_field, pack_field and look_up of every variant equal scalar") {
  for (const Kernels& variant : variants()) {
    CAPTURE(variant.full_name());
    Random random(7);
    for (unsigned trial = 0; trial < 3000; ++trial) {
      const unsigned width = 1 + static_cast<unsigned>(random.below(64)),
                     shift = static_cast<unsigned>(random.below(width));
      const unsigned field = 1 + static_cast<unsigned>(random.below(width - shift)), b = std::min(field, 16u);
      const size_t count = random.below(trial % 8 == 0 ? 1200 : 200);
      const auto in = test::make_words(trial % 2 == 0 ? test::Shape::uniform : test::Shape::bell, width, count, trial);
      Exact taken(count * bits::lane_bytes(field), 0), truth(count * bits::lane_bytes(field), 0);
      const auto into = [&](Exact& bytes) -> bits::Words { return {bytes.data(), count, static_cast<uint8_t>(field)}; };
      variant.take_field(in.view(), shift, into(taken));
      scalar().take_field(in.view(), shift, into(truth));
      REQUIRE(taken == truth);
      for (size_t i = 0; i < count; ++i)
        REQUIRE(into(truth).operator bits::ConstWords().at(i) == (in.view().at(i) >> shift & bits::low_mask(field)));
      Exact packed((count * field + 7) / 8, 0, 0xee), expected_packed((count * field + 7) / 8, 0, 0x11);
      variant.pack_field(in.view(), shift, field, packed.data());
      scalar().pack(into(truth), field, expected_packed.data());
      REQUIRE(packed == expected_packed);
      scalar().pack_field(in.view(), shift, field, packed.data());
      REQUIRE(packed == expected_packed);
      Exact table((size_t{1} << b) + 3, 0), found(count, random.below(64)), expected(count, 0);
      fill_random(random, table);
      if (trial % 3 != 0) {  // as lists have them: neighbours differ, and one entry is everywhere else
        const size_t first = random.below(size_t{1} << b), some = 1 + random.below(trial % 3 == 1 ? 300 : 80);
        for (size_t i = 0; i + 3 < table.size(); ++i)
          if (i < first || i >= first + some) table.data()[i] = static_cast<uint8_t>(trial);
      }
      variant.look_up(in.view(), shift, b, table.data(), found.data());
      scalar().look_up(in.view(), shift, b, table.data(), expected.data());
      REQUIRE(found == expected);
    }
  }
}

TEST_CASE("kernels: alias_decode of every variant equals scalar") {
  for (const Kernels& variant : variants()) {
    CAPTURE(variant.full_name());
    Random random(2);
    for (unsigned trial = 0; trial < 3000; ++trial) {
      const auto table = alias_table(random, 1 + static_cast<unsigned>(random.below(6)), trial % 4);
      const bits::AliasDecoder decoder = decoder_of(random, table);
      const unsigned lanes = draw_lanes(random);
      const size_t rounds = random.below(lanes == 64 ? 20 : 60);
      Stream stream(random, lanes, random.below(lanes * (rounds + 2) + 1));
      Run expected(stream), run(stream);
      Exact truth(rounds * lanes, 0, 0xee), out(rounds * lanes, random.below(64), 0xee);
      const size_t done = scalar().alias_decode(decoder, expected.cursor, truth.data(), rounds);
      REQUIRE(variant.alias_decode(decoder, run.cursor, out.data(), rounds) == done);
      REQUIRE(run == expected);
      REQUIRE(same(out.data(), truth.data(), done * lanes));
    }
  }
}

TEST_CASE("kernels: both forms of an alias table decode alike") {
  Random random(13);
  for (unsigned trial = 0; trial < 500; ++trial) {
    const auto table = alias_table(random, 1 + static_cast<unsigned>(random.below(6)), trial % 4);
    const Kernels& used = bits::kernels();
    bits::use_kernels(scalar());
    const bits::AliasDecoder decoder = codec::alias_decoder(table.get());
    bits::use_kernels(used);
    REQUIRE(decoder.slots != nullptr);
    for (uint32_t slot = 0; slot < 4096; ++slot) {
      const uint32_t entry = decoder.slots[slot], high = static_cast<uint32_t>(random.below(0xfffff));
      uint32_t state = high << 12 | slot;
      REQUIRE(bits::alias_take(*decoder.planes, state) == entry >> 24);
      REQUIRE(state == (entry & 0xfff) * high + (entry >> 12 & 0xfff));
    }
  }
}

TEST_CASE("kernels: rans_decode of every variant equals scalar") {
  for (const Kernels& variant : variants()) {
    CAPTURE(variant.full_name());
    Random random(4);
    for (unsigned trial = 0; trial < 400; ++trial) {
      const unsigned scale_bits = 12 + static_cast<unsigned>(random.below(5));
      const size_t scale = size_t{1} << scale_bits;
      const uint8_t widths[] = {3, 8, 11, 16, 24, 32, 40, 64};
      const uint8_t width = widths[random.below(8)];
      const size_t lane = bits::lane_bytes(width);
      Exact slots(4 * scale, 0), words(lane * scale + 3, 0);
      fill_random(random, words);
      // Runs of one word each.
      for (size_t slot = 0; slot < scale;) {
        const size_t frequency = std::min(1 + (random.next() >> random.below(64)) % scale, scale - slot);
        for (size_t rank = 0; rank < frequency; ++rank, ++slot) {
          const uint32_t entry = static_cast<uint32_t>(std::min<size_t>(frequency, 0xffff) | rank << 16);
          std::memcpy(slots.data() + 4 * slot, &entry, 4);
        }
      }
      const bits::RansDecoder decoder{scale_bits, reinterpret_cast<uint32_t*>(slots.data()), words.data()};
      const unsigned lanes = draw_lanes(random);
      const size_t rounds = random.below(lanes == 64 ? 20 : 60);
      Stream stream(random, lanes, random.below(lanes * (rounds + 2) + 1));
      Run expected(stream), run(stream);
      bits::OwnedWords truth(width, rounds * lanes), out(width, rounds * lanes);
      const size_t done = scalar().rans_decode(decoder, expected.cursor, truth.words(), rounds);
      REQUIRE(variant.rans_decode(decoder, run.cursor, out.words(), rounds) == done);
      REQUIRE(run == expected);
      REQUIRE(same(out.view().data, truth.view().data, done * lanes * lane));
    }
  }
}

namespace {

// Encoders' constants of random frequencies that sum to 2^scale_bits.
std::vector<bits::RansSymbol> random_symbols(Random& random, unsigned scale_bits, size_t count) {
  std::vector<uint32_t> frequencies(count);
  const uint32_t scale = 1u << scale_bits;
  const unsigned kind = static_cast<unsigned>(random.below(3));
  for (uint32_t left = scale; left != 0;) {
    const size_t at = kind == 0 ? 0 : random.below(count);
    const uint32_t most = std::min(left, scale - 1 - frequencies[at]);
    const uint32_t some = kind == 0 ? most : std::min(most, 1 + static_cast<uint32_t>(random.below(scale / count * 2)));
    frequencies[at] += some;
    left -= some;
    if (kind == 0 && left != 0) ++frequencies[1 + random.below(count - 1)], --left;
  }
  std::vector<bits::RansSymbol> symbols(count);
  uint32_t start = 0;
  for (size_t s = 0; s < count; start += frequencies[s++]) {
    const uint32_t f = frequencies[s];
    if (f != 0)
      symbols[s] = {((uint64_t{1} << 63) - 1) / f + 1, f << (32 - scale_bits), static_cast<uint16_t>(f),
                    static_cast<uint16_t>(start)};
  }
  return symbols;
}

// Both encoders from the same random states, into buffers of `count` words.
template <class In, class Encode>
void compare_encoders(Random& random, unsigned lanes, const std::vector<In>& in, Encode&& encode) {
  std::vector<uint32_t> states(lanes);
  for (uint32_t& state : states)
    state = static_cast<uint32_t>(0x10000 + (random.next() >> random.below(20)) % 0xffff0000u);
  Exact symbols(in.size() * sizeof(In), sizeof(In) * random.below(9)), words(2 * in.size(), 2 * random.below(9), 0xee),
      truth(2 * in.size(), 0, 0xee);
  if (!in.empty()) std::memcpy(symbols.data(), in.data(), symbols.size());
  const auto run = [&](const Kernels& kernels, std::vector<uint32_t>& from, Exact& to) -> size_t {
    uint16_t* const end = reinterpret_cast<uint16_t*>(to.data() + to.size());
    const uint16_t* const first =
        encode(kernels, from.data(), reinterpret_cast<const In*>(symbols.data()), in.size(), end);
    return first == nullptr ? SIZE_MAX : static_cast<size_t>(end - first);
  };
  for (const Kernels& variant : variants()) {
    CAPTURE(variant.full_name());
    std::vector<uint32_t> own_states = states, scalar_states = states;
    const size_t expected = run(scalar(), scalar_states, truth), given = run(variant, own_states, words);
    REQUIRE(given == expected);
    if (given == SIZE_MAX) continue;
    REQUIRE(own_states == scalar_states);
    REQUIRE(same(words.data() + words.size() - 2 * given, truth.data() + truth.size() - 2 * given, 2 * given));
  }
}

}  // namespace

TEST_CASE("kernels: alias_encode of every variant equals scalar, and refuses what it refuses") {
  Random random(5);
  for (unsigned trial = 0; trial < 3000; ++trial) {
    const auto symbols = random_symbols(random, 12, 64);
    Exact slots(2 * 4097, 0);
    for (size_t i = 0; i < 4096; ++i) {
      const uint16_t slot = static_cast<uint16_t>(random.below(4096));
      std::memcpy(slots.data() + 2 * i, &slot, 2);
    }
    const bits::AliasEncoder encoder{symbols.data(), reinterpret_cast<uint16_t*>(slots.data())};
    std::vector<uint8_t> coded, in(random.below(700));
    for (unsigned s = 0; s < 64; ++s)
      if (symbols[s].frequency != 0) coded.push_back(static_cast<uint8_t>(s));
    for (uint8_t& symbol : in) symbol = coded[random.below(coded.size())];
    if (trial % 8 == 0 && !in.empty()) in[random.below(in.size())] = static_cast<uint8_t>(random.below(256));
    const unsigned lanes = draw_lanes(random);
    compare_encoders(random, lanes, in,
                     [&](const Kernels& kernels, uint32_t* states, const uint8_t* from, size_t count, uint16_t* end) {
                       return kernels.alias_encode(encoder, lanes, states, from, count, end);
                     });
  }
}

TEST_CASE("kernels: rans_encode of every variant equals scalar") {
  Random random(6);
  for (unsigned trial = 0; trial < 1000; ++trial) {
    const unsigned scale_bits = 12 + static_cast<unsigned>(random.below(5));
    const auto symbols = random_symbols(random, scale_bits, 2 + random.below(1 + random.below(600)));
    const bits::RansEncoder encoder{scale_bits, symbols.data()};
    std::vector<uint16_t> coded, in(random.below(700));
    for (unsigned s = 0; s < symbols.size(); ++s)
      if (symbols[s].frequency != 0) coded.push_back(static_cast<uint16_t>(s));
    for (uint16_t& symbol : in) symbol = coded[random.below(coded.size())];
    const unsigned lanes = draw_lanes(random);
    compare_encoders(random, lanes, in,
                     [&](const Kernels& kernels, uint32_t* states, const uint16_t* from, size_t count, uint16_t* end) {
                       return kernels.rans_encode(encoder, lanes, states, from, count, end);
                     });
  }
}

TEST_CASE("kernels: move_field of every variant equals scalar, which moves back what it moved") {
  Random random(7);
  for (unsigned trial = 0; trial < 4000; ++trial) {
    const unsigned width = 1 + static_cast<unsigned>(random.below(64));
    const unsigned shift = static_cast<unsigned>(random.below(width));
    bits::FieldMove field{shift, 1 + static_cast<unsigned>(random.below(width - shift)), false};
    const bits::OwnedWords words = test::make_words(test::Shape::uniform, width, random.below(200), random.next());
    const size_t n = words.count(), lane = bits::lane_bytes(width);
    Exact steps(2 * n, 2 * random.below(5));
    for (size_t i = 0; i < n; ++i) {
      const auto step = static_cast<int16_t>(static_cast<int>(random.below(16384)) - 8192);
      std::memcpy(steps.data() + 2 * i, &step, 2);
    }
    const auto base = static_cast<int16_t>(static_cast<int>(random.below(16384)) - 8192);
    const auto run = [&](const Kernels& kernels, Exact& out) {
      kernels.move_field({out.data(), n, static_cast<uint8_t>(width)}, field,
                         reinterpret_cast<const int16_t*>(steps.data()), base);
    };
    Exact original(n * lane, 0), truth(n * lane, 0);
    if (n != 0) std::memcpy(original.data(), words.view().data, n * lane);
    if (n != 0) std::memcpy(truth.data(), words.view().data, n * lane);
    run(scalar(), truth);
    for (size_t i = 0; i < n; ++i) {
      int16_t step;
      std::memcpy(&step, steps.data() + 2 * i, 2);
      const uint64_t mask = bits::low_mask(field.bits) << shift, word = words.view().at(i);
      const auto whole = static_cast<uint64_t>(int64_t{(step + base) >> 2});
      const bits::ConstWords moved{truth.data(), n, static_cast<uint8_t>(width)};
      REQUIRE(moved.at(i) == ((word & ~mask) | ((word + (whole << shift)) & mask)));
    }
    for (const Kernels& variant : variants()) {
      CAPTURE(variant.full_name());
      Exact out(n * lane, 0);
      if (n != 0) std::memcpy(out.data(), words.view().data, n * lane);
      field.back = false;
      run(variant, out);
      REQUIRE(out == truth);
      field.back = true;
      run(variant, out);
      REQUIRE(out == original);
    }
  }
}

TEST_CASE("kernels: deal of every variant gives each place the next word of its class's stream, split the inverse") {
  Random random(11);
  for (unsigned trial = 0; trial < 2000; ++trial) {
    const unsigned width = 1 + static_cast<unsigned>(random.below(64));
    const size_t n = random.below(700), lane = bits::lane_bytes(width);
    const uint64_t skew = 1 + random.below(4);  // streams that are empty, too
    std::vector<uint8_t> classes(n);
    for (uint8_t& one : classes) one = static_cast<uint8_t>(random.below(skew));
    const bits::OwnedWords words = test::make_words(test::Shape::uniform, width, n, random.next());
    std::vector<Exact> streams;
    for (uint8_t c = 0; c < bits::DealHands::kHands; ++c) {
      const auto of_class = static_cast<size_t>(std::count(classes.begin(), classes.end(), c));
      streams.emplace_back(of_class * lane, 0);
      for (size_t i = 0, at = 0; i < n; ++i)
        if (classes[i] == c) std::memcpy(streams[c].data() + at++ * lane, words.view().data + i * lane, lane);
    }
    for (const Kernels& kernels : bits::all_kernels()) {
      CAPTURE(kernels.full_name());
      bits::DealHands hands{};
      for (size_t c = 0; c < streams.size(); ++c) {
        hands.next[c] = streams[c].data();
        hands.end[c] = streams[c].data() + streams[c].size();
      }
      Exact out(n * lane, 0);
      kernels.deal(classes.data(), hands, {out.data(), n, static_cast<uint8_t>(width)});
      REQUIRE(same(out.data(), words.view().data, n * lane));
      REQUIRE(hands.next == hands.end);
      std::vector<Exact> apart;
      for (Exact& stream : streams) apart.emplace_back(stream.size(), 0, 0xee);
      kernels.split(classes.data(), words.view(), {apart[0].data(), apart[1].data(), apart[2].data(), apart[3].data()});
      for (size_t c = 0; c < streams.size(); ++c) REQUIRE(apart[c] == streams[c]);
    }
  }
}

TEST_CASE("kernels: classes of every variant are those of the definition, and as many") {
  Random random(13);
  for (unsigned trial = 0; trial < 1500; ++trial) {
    const unsigned width = 2 + static_cast<unsigned>(random.below(63));
    const unsigned b = 2 + static_cast<unsigned>(random.below(std::min(width, 16u) - 1));
    const auto shift = static_cast<unsigned>(random.below(width - b + 1));
    const size_t n = random.below(trial % 50 == 0 ? 40000 : 700);
    const uint64_t mask = bits::low_mask(b);
    std::array<uint32_t, 3> begins;
    for (uint32_t& begin : begins) begin = static_cast<uint32_t>(random.below(mask + 1));
    std::sort(begins.begin(), begins.end());
    const bits::OwnedWords words = test::make_words(test::Shape::uniform, width, n, random.next());
    std::vector<uint8_t> truth(n);
    std::array<size_t, bits::DealHands::kHands> counts{};
    for (size_t i = 0; i < n; ++i) {
      for (const uint32_t begin : begins) truth[i] += (words.view().at(i) >> shift & mask) >= begin;
      ++counts[truth[i]];
    }
    for (const Kernels& kernels : bits::all_kernels()) {
      CAPTURE(kernels.full_name());
      Exact out(n, 9);
      kernels.classify(words.view(), shift, mask, begins.data(), out.data());
      REQUIRE(same(out.data(), truth.data(), n));
      std::array<size_t, bits::DealHands::kHands> found{};
      kernels.count_classes(truth.data(), n, found.data());
      REQUIRE(found == counts);
    }
  }
}

TEST_CASE("kernels: levels and classes of their sums are those of the definition") {
  Random random(14);
  for (unsigned trial = 0; trial < 1500; ++trial) {
    const unsigned width = 1 + static_cast<unsigned>(random.below(64));
    const unsigned b = 1 + static_cast<unsigned>(random.below(width));
    const auto shift = static_cast<unsigned>(random.below(width - b + 1));
    const size_t n = random.below(700);
    const uint64_t mask = bits::low_mask(b), low = random.next() & mask & random.next();
    const bits::OwnedWords words = test::make_words(test::Shape::uniform, width, n, random.next());
    std::vector<uint8_t> truth(n);
    for (size_t i = 0; i < n; ++i) {
      const uint64_t field = words.view().at(i) >> shift & mask;
      truth[i] = static_cast<uint8_t>(std::min<uint64_t>(field > low ? field - low : 0, 63));
    }
    bits::LevelSums sums{random.below(5), {}, {}, static_cast<uint16_t>(random.below(200)), {}};
    std::vector<ByteVector> levels;
    for (size_t k = 0; k < sums.terms; ++k) {
      levels.emplace_back(n);
      for (uint8_t& level : levels[k]) level = static_cast<uint8_t>(random.below(64));
      sums.levels[k] = levels[k].data();
      sums.weights[k] = static_cast<uint16_t>(1 + random.below(4));
    }
    for (uint16_t& begin : sums.begins) begin = static_cast<uint16_t>(random.below(700));
    std::sort(std::begin(sums.begins), std::end(sums.begins));
    std::vector<uint8_t> classes(n);
    for (size_t i = 0; i < n; ++i) {
      unsigned sum = sums.always;
      for (size_t k = 0; k < sums.terms; ++k) sum += sums.weights[k] * levels[k][i];
      for (const uint16_t begin : sums.begins) classes[i] = static_cast<uint8_t>(classes[i] + (sum >= begin));
    }
    for (const Kernels& kernels : bits::all_kernels()) {
      CAPTURE(kernels.full_name());
      Exact out(n, 9);
      kernels.levels(words.view(), shift, mask, low, out.data());
      REQUIRE(same(out.data(), truth.data(), n));
      kernels.sum_classes(sums, n, out.data());
      REQUIRE(same(out.data(), classes.data(), n));
    }
  }
}

TEST_CASE("kernels: combine of every variant equals scalar, and uncombine undoes it") {
  const Kernels& used = bits::kernels();
  Random random(12);
  for (const unsigned width : {1u, 7u, 8u, 9u, 16u, 20u, 31u, 32u, 48u, 64u})
    for (const auto f :
         {bits::Combine::exclusive_or, bits::Combine::add, bits::Combine::subtract, bits::Combine::order})
      for (const size_t count : {size_t{0}, size_t{1}, size_t{31}, size_t{100}, size_t{1021}}) {
        CAPTURE(width);
        CAPTURE(count);
        const auto p = test::make_words(test::Shape::uniform, width, count, random.next());
        const auto q = test::make_words(test::Shape::uniform, width, count, random.next());
        bits::OwnedWords truth(width, count), back(width, count);
        bits::use_kernels(scalar());
        bits::combine(f, p.view(), q.view(), truth.words());
        bits::uncombine(f, truth.view(), q.view(), back.words());
        REQUIRE(same(back.view().data, p.view().data, p.view().bytes()));
        for (const Kernels& variant : variants()) {
          CAPTURE(variant.full_name());
          bits::use_kernels(variant);
          Exact out(truth.view().bytes(), random.below(64), 0xee);
          bits::combine(f, p.view(), q.view(), {out.data(), count, static_cast<uint8_t>(width)});
          REQUIRE(same(out.data(), truth.view().data, truth.view().bytes()));
          // Folded, and into its own memory.
          bits::Words folded{out.data(), count, static_cast<uint8_t>(width)};
          for (size_t i = 0; i < count; ++i) {
            const uint64_t word = p.view().at(i), top = word >> (width - 1);
            const uint64_t small = (word << 1 ^ (uint64_t{0} - top)) & bits::low_mask(width);
            std::memcpy(out.data() + i * folded.lane(), &small, folded.lane());
          }
          bits::combine(f, folded, q.view(), folded, true);
          REQUIRE(same(out.data(), truth.view().data, truth.view().bytes()));
        }
      }
  bits::use_kernels(used);
}

TEST_CASE("kernels: quarters, their terms and sums of every variant are what the definition says") {
  Random random(13);
  for (unsigned trial = 0; trial < 2000; ++trial) {
    const unsigned width = 1 + static_cast<unsigned>(random.below(64));
    const unsigned shift = static_cast<unsigned>(random.below(width));
    const unsigned field = 1 + static_cast<unsigned>(random.below(std::min(12u, width - shift)));
    const bits::OwnedWords words = test::make_words(test::Shape::uniform, width, random.below(300), random.next());
    const size_t n = words.count();
    const auto middle = static_cast<int16_t>(random.below(1 << 14)), cut = static_cast<int16_t>(1 + random.below(60));
    std::vector<uint16_t> quarters(n);
    std::vector<uint32_t> terms(n), sums(n);
    uint32_t sum = 0;
    for (size_t i = 0; i < n; ++i) {
      const uint64_t word = words.view().at(i), below = shift >= 2 ? word >> (shift - 2) : word << (2 - shift);
      quarters[i] = static_cast<uint16_t>(below & bits::low_mask(field + 2));
      const int apart = std::clamp(quarters[i] - middle, -int{cut}, int{cut}) + cut;
      terms[i] = quarters[i] < 4 ? 0 : (1u << bits::kTermSumBits) + static_cast<uint32_t>(apart);
      sums[i] = static_cast<uint32_t>(random.next());
      sum += terms[i];
    }
    for (const Kernels& variant : variants()) {
      CAPTURE(variant.full_name());
      std::vector<uint16_t> own_quarters(n);
      std::vector<uint32_t> own_terms(n), own_sums = sums;
      variant.quarters(words.view(), shift, field, own_quarters.data());
      REQUIRE(own_quarters == quarters);
      variant.quarter_terms(quarters.data(), n, middle, cut, own_terms.data());
      REQUIRE(own_terms == terms);
      REQUIRE(variant.sum_terms(terms.data(), n) == sum);
      variant.add_terms(own_sums.data(), terms.data(), n);
      for (size_t i = 0; i < n; ++i) REQUIRE(own_sums[i] == sums[i] + terms[i]);
    }
  }
}

TEST_CASE("kernels: weighted sums of levels of every variant are what the definition says") {
  Random random(17);
  for (unsigned trial = 0; trial < 500; ++trial) {
    const size_t n = random.below(300);
    const auto weight = static_cast<uint16_t>(1 + random.below(4));
    std::vector<uint8_t> levels(n);
    std::vector<uint16_t> sums(n);
    for (size_t i = 0; i < n; ++i) {
      levels[i] = static_cast<uint8_t>(random.below(256));
      sums[i] = static_cast<uint16_t>(random.below(1000));
    }
    for (const Kernels& variant : variants()) {
      CAPTURE(variant.full_name());
      std::vector<uint16_t> own = sums;
      variant.add_levels(own.data(), levels.data(), weight, n);
      for (size_t i = 0; i < n; ++i) REQUIRE(own[i] == sums[i] + weight * levels[i]);
    }
  }
}
