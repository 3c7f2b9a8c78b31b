// SPDX-License-Identifier: Apache-2.0
//
// Laws of the operators and of running programs: what an operator inverts it runs back to the same words; a range of a
// program's output is that slice of the whole; bytes that were tampered with never do more than give an error.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "dsl/histogram.h"
#include "dsl/op.h"
#include "support/random_program.h"
#include "support/scaled_words.h"
#include "support/words.h"
#include "support/world.h"

using namespace brevis;
using namespace brevis::dsl;
using test::must;
using test::Random;
using test::Rng;

namespace {

constexpr unsigned kWidths[] = {1, 2, 3, 5, 6, 7, 8, 9, 10, 15, 16, 17, 20, 24, 31, 32, 33, 48, 63, 64};
constexpr size_t kCounts[] = {0, 1, 2, 3, 7, 255, 4097};

// Streams beyond test::kShapes that operators care about.
enum class Extra { ramp, runs, zeros, floats, nans, pairs, levels, scaled };
constexpr Extra kExtras[] = {Extra::ramp, Extra::runs,  Extra::zeros,  Extra::floats,
                             Extra::nans, Extra::pairs, Extra::levels, Extra::scaled};

bits::OwnedWords make_extra(Extra extra, unsigned width, size_t count, uint64_t seed) {
  Random random(seed);
  bits::OwnedWords words(width, count);
  const uint64_t mask = bits::low_mask(width);
  if (extra == Extra::scaled && (width == 16 || width == 32)) {  // levels times a scale that lasts 20 words
    const unsigned type = width == 32 ? 0 : 1 + static_cast<unsigned>(random.below(2));
    return test::scaled_words({static_cast<unsigned>(random.below(4)), type, 20, 20, 1, 4, seed % 3 == 0 ? 2u : 0u}, 0,
                              count, seed);
  }
  uint64_t last = 0;
  for (size_t i = 0; i < count; ++i) {
    uint64_t word = 0;
    switch (extra) {
      case Extra::ramp: word = 250 + 3 * i; break;
      case Extra::runs: word = random.below(20) == 0 ? random.next() : last; break;
      case Extra::zeros: word = random.below(3) == 0 ? random.next() : 0; break;
      case Extra::floats: {  // a bell of exponents, the rest free, low bits often clear
        const unsigned exponent = width > 8 ? 8 : width / 2;
        const uint64_t e = (uint64_t{1} << exponent) / 2 - static_cast<unsigned>(std::countr_zero(random.next() | 64));
        word =
            (e << (width - 1 - exponent)) ^ (random.next() & (mask >> 1 >> exponent)) ^ random.below(2) << (width - 1);
        if (width > 16) word &= ~bits::low_mask(width - 16);
        break;
      }
      case Extra::nans: {  // all ones from some bit on, and single bits: infinities, NaNs, zeros, denormals
        const unsigned bit = static_cast<unsigned>(random.below(width));
        word = random.below(2) ? ~bits::low_mask(bit) : uint64_t{1} << bit;
        word ^= random.below(2) << (width - 1);
        break;
      }
      case Extra::pairs: word = i % 2 ? random.next() : 7; break;
      case Extra::scaled:    // of widths that have no scales
      case Extra::levels: {  // a few multiples of a step that lasts 200 words, signs at the top; at times anything
        const uint64_t step = Random(seed + i / 200).next() & mask >> 1 >> width / 4;
        word = step * random.below(1 + width / 4) ^ random.below(2) << (width - 1);
        if (i / 200 % 7 == 3) word = random.next();
        break;
      }
    }
    last = word & mask;
    words.words().set(i, last);
  }
  return words;
}

bool same(bits::ConstWords a, bits::ConstWords b) {
  return a.width == b.width && std::ranges::equal(a.byte_span(), b.byte_span());
}

// Every parameter list worth trying; an operator that this test has no word about gets guesses, as its gate allows.
std::vector<std::vector<uint64_t>> params_for(const OpSpec& spec, unsigned width) {
  std::vector<std::vector<uint64_t>> lists;
  const uint64_t mask = bits::low_mask(width);
  switch (spec.id) {
    case OpId::merge:
      for (uint64_t first = 1; first < width; first = first * 2 + 1) {
        lists.push_back({first, width - first});
        if (width - first > 3) lists.push_back({first, 2, width - first - 2});
      }
      lists.push_back(std::vector<uint64_t>(width, 1));
      break;
    case OpId::rank: lists = {{1}, {2}, {3}, {4}, {63}, {255}, {256}, {1000}}; break;
    case OpId::palette: lists = {{2}, {3}, {4}, {5}, {17}, {256}, {257}}; break;
    case OpId::scan:
      for (uint64_t f = 0; f < spec.keywords.size(); ++f)
        for (const uint64_t stride : {1, 2, 3, 16, 100, 5000}) lists.push_back({f, stride});
      break;
    case OpId::context:
      for (uint64_t f = 0; f < spec.keywords.size(); ++f)
        for (const uint64_t low : {uint64_t{0}, uint64_t{width / 2}}) {
          lists.push_back({f, low, width - low, 1, 1});
          lists.push_back({f, low, width - low, 60, 4});
          lists.push_back({f, low, (width - low + 1) / 2, 1, 2, 64, 2, 65, 1, 5000, 1});
        }
      break;
    case OpId::offset:
    case OpId::select:
      lists = {
          {0, width, 1, 2}, {0, 1, 5, 3, 1, 5}, {0, width, 7, 3, 1, 7, 2, 2, 21, 100}, {0, width, 1, 700, 1, 1100}};
      if (width > 3) lists.push_back({2, width - 3, 9, 4, 36, 50});
      if (width == 16) lists.push_back({7, 8, 64, 60, 1, 64});
      break;
    case OpId::transpose: lists = {{2, 2}, {2, 3}, {17, 3}, {64, 64}, {33, 40}, {2, 5000}}; break;
    case OpId::update:
      for (uint64_t f = 0; f < spec.keywords.size(); ++f) {
        lists.push_back({f, 0, std::min(width, 16u)});
        if (width > 3) lists.push_back({f, width / 2 - 1, 2});
        if (width == 16) lists.push_back({f, 7, 8});
      }
      break;
    case OpId::combine: lists = {{0}, {1}, {2}, {3}}; break;
    case OpId::levels:
      for (uint64_t kind = 0; kind < spec.keywords.size(); ++kind)
        for (const auto& [row, columns, rows] : std::vector<std::array<uint64_t, 3>>{{200, 200, 1},
                                                                                     {200, 30, 1},
                                                                                     {64, 1, 1u << 20},
                                                                                     {100, 17, 7},
                                                                                     {1, 1, 1},
                                                                                     {5000, 5000, 3},
                                                                                     {70, 70, 40}})
          lists.push_back({kind, row, columns, rows});
      break;
    case OpId::dequantise:
      for (uint64_t kind = 0; kind < spec.keywords.size(); ++kind)
        for (uint64_t type = 0; type < 3; ++type)
          for (const auto& [row, columns, rows] : std::vector<std::array<uint64_t, 3>>{
                   {200, 200, 1}, {200, 30, 1}, {64, 1, 1u << 20}, {100, 17, 7}, {1, 1, 1}, {20, 20, 2}, {70, 70, 40}})
            lists.push_back({kind, type, row, columns, rows});
      break;
    case OpId::ramp: lists = {{250 & mask, 3 & mask}, {mask, mask}, {0, 0}}; break;
    default:
      lists = {{}, {0x5a5a5a5a5a5a5a5a & mask}};
      for (uint64_t f = 0; f < std::max<size_t>(spec.keywords.size(), 4); ++f)
        for (const uint64_t arg : {uint64_t{0}, uint64_t{1}, uint64_t{width - 1}, mask, mask / 3}) {
          lists.push_back({f});
          lists.push_back({f, arg});
        }
  }
  std::sort(lists.begin(), lists.end());
  lists.erase(std::unique(lists.begin(), lists.end()), lists.end());
  return lists;
}

struct Tally {
  size_t inverted = 0, recomposed = 0;
};

// run(invert(target)) == target, with children of the lengths that child_lengths tells. False: not expressible.
bool round_trip(const OpSpec& spec, const Node& node, const SlotTable& table, bits::ConstWords target) {
  const NodeArgs blind{node, table.list.get(), 1000, {}, table.blob.get()};
  std::vector<bits::OwnedWords> children;
  std::vector<uint64_t> counts;
  if (!must(spec.invert(blind, target, children, counts))) return false;
  REQUIRE(counts.size() == spec.counts);
  REQUIRE(children.size() == node.children.size());
  std::vector<uint64_t> lengths(children.size());
  must(spec.child_lengths(node, target.count, counts, lengths));
  const std::vector<uint8_t> widths = must(spec.child_widths(node, children.size()));
  std::vector<bits::ConstWords> in;
  for (size_t i = 0; i < children.size(); ++i) {
    REQUIRE(children[i].count() == lengths[i]);
    REQUIRE(children[i].width() == widths[i]);
    for (size_t j = 0; j < children[i].count(); ++j)
      if (children[i].view().at(j) > bits::low_mask(widths[i])) FAIL("a word has bits above its width");
    in.push_back(children[i].view());
  }
  bits::OwnedWords out(node.width, target.count);
  must(spec.run({node, table.list.get(), 1000, counts, table.blob.get()}, in, out.words()));
  REQUIRE(same(out.view(), target));
  if (spec.in_place) {
    bits::OwnedWords place(node.width, target.count);
    std::ranges::copy(in[0].byte_span(), place.words().data);
    const bits::ConstWords child = place.view();
    must(spec.run({node, table.list.get(), 1000, counts, table.blob.get()}, {&child, 1}, place.words()));
    REQUIRE(same(place.view(), target));
  }

  if (spec.push_down) {  // tells what the children's words really are
    std::vector<std::optional<codec::Histogram>> told;
    REQUIRE(spec.push_down(blind, test::histogram_of(target), told));
    REQUIRE(told.size() == children.size());
    for (size_t i = 0; i < told.size(); ++i)
      if (told[i]) {
        REQUIRE(told[i]->width == widths[i]);
        REQUIRE(told[i]->counts == test::histogram_of(children[i].view()).counts);
      }
  }
  return true;
}

// Children of random words, run forward: whatever comes out must invert and come out again.
bool forward_trip(const OpSpec& spec, const Node& node, const SlotTable& table, size_t n, Random& random) {
  const std::vector<uint8_t> widths = must(spec.child_widths(node, node.children.size()));
  std::vector<uint64_t> counts(spec.counts, random.below(n + 1)), lengths(widths.size());
  if (spec.counts > 1) {  // they depend on each other: those of some words, which may not suit others
    std::vector<bits::OwnedWords> some;
    const bits::OwnedWords words = make_extra(Extra::floats, node.width, n, random.next());
    if (!must(spec.invert({node, table.list.get(), 1000, {}, table.blob.get()}, words.view(), some, counts)))
      return false;
  }
  must(spec.child_lengths(node, n, counts, lengths));
  std::vector<bits::OwnedWords> children;
  std::vector<bits::ConstWords> in;
  for (size_t i = 0; i < widths.size(); ++i)
    children.push_back(
        test::make_words(test::kShapes[random.below(test::kShapes.size())], widths[i], lengths[i], random.next()));
  for (const auto& child : children) in.push_back(child.view());
  bits::OwnedWords out(node.width, n);
  const Status status = spec.run({node, table.list.get(), 1000, counts, table.blob.get()}, in, out.words());
  if (!status) {
    REQUIRE(status.error().kind() == Errc::corrupt);
    return false;
  }
  for (size_t i = 0; i < n; ++i)
    if (out.view().at(i) > bits::low_mask(node.width)) FAIL("a word has bits above its width");
  REQUIRE(round_trip(spec, node, table, out.view()));
  return true;
}

void try_node(const OpSpec& spec, const Node& node, Tally& tally) {
  Random random(node.width);
  auto with_table = [&](bits::ConstWords target, auto&& f) {
    if (spec.slot == SlotKind::none) return f(SlotTable());
    const codec::Histogram histogram = test::histogram_of(target);
    const Window window{1000, target};
    Target sample;
    sample.width = node.width;
    sample.windows = {&window, 1};
    sample.histogram = &histogram;
    if (const auto stored = suit_slot(node, sample)) return f(must(load_slot(node, *stored)));
  };
  for (const size_t count : kCounts) {
    auto both = [&](const bits::OwnedWords& target) {
      with_table(target.view(),
                 [&](const SlotTable& table) { tally.inverted += round_trip(spec, node, table, target.view()); });
    };
    for (const test::Shape shape : test::kShapes) both(test::make_words(shape, node.width, count, count + 1));
    for (const Extra extra : kExtras) both(make_extra(extra, node.width, count, count + 1));
    if (spec.id == OpId::dequantise)
      for (const unsigned odd : {0u, 2u, 20u}) {
        const std::vector<uint64_t>& params = node.params;
        both(test::scaled_words({static_cast<unsigned>(params[0]), static_cast<unsigned>(params[1]), params[2],
                                 params[3], params[4], odd == 2 ? 8u : 4u, odd},
                                1000, count, count + odd));
      }
    if (spec.slot != SlotKind::word_list) {
      const bits::OwnedWords other = make_extra(Extra::floats, node.width, 4000, count);
      with_table(other.view(),
                 [&](const SlotTable& table) { tally.recomposed += forward_trip(spec, node, table, count, random); });
    } else {  // a list from nowhere, ascending over the whole range
      auto list = std::make_shared<WordList>();
      const uint64_t step = std::max<uint64_t>(1, bits::low_mask(node.width) / node.params[0]);
      for (uint64_t i = 0; i < node.params[0]; ++i) list->words.push_back(i * step);
      SlotTable table;
      table.list = std::move(list);
      tally.recomposed += forward_trip(spec, node, table, count, random);
    }
  }
}

// Random words for every region of the program, encoded; nothing when the program cannot express them.
std::optional<test::World> random_world(std::shared_ptr<const Program> program, uint64_t words, Random& random) {
  const unsigned width = program->width();
  auto stream = [&](uint64_t count) {
    const auto pick = random.below(test::kShapes.size() + std::size(kExtras));
    return pick < test::kShapes.size() ? test::make_words(test::kShapes[pick], width, count, random.next())
                                       : make_extra(kExtras[pick - test::kShapes.size()], width, count, random.next());
  };
  auto frame_words = [&](uint64_t) { return 1 + random.below(3000); };
  return test::make_world(std::move(program), words, stream, frame_words, test::random_bytes(4096, random.next()));
}

}  // namespace

TEST_CASE("law: what an operator inverts, it runs back") {
  for (const OpSpec* spec : all_ops()) {
    if (!spec->run || !spec->invert) continue;
    CAPTURE(spec->name);
    Tally tally;
    for (const unsigned width : kWidths)
      for (const std::vector<uint64_t>& params : params_for(*spec, width))
        for (const size_t arity : {0, 1, 2, 3, 4, 5, static_cast<int>(width)}) {
          Node node{spec->id, static_cast<uint8_t>(width), params, std::vector<uint32_t>(arity)};
          CAPTURE(width);
          CAPTURE(params);
          if (spec->child_widths(node, arity)) try_node(*spec, node, tally);
        }
    CHECK(tally.inverted > 20);
    CHECK(tally.recomposed > 20);
  }
}

TEST_CASE("law: what is proposed passes the gate and recomposes its sample, or is refused") {
  constexpr Dtype kDtypes[] = {Dtype::unknown, Dtype::I8,  Dtype::F8_E4M3, Dtype::BF16, Dtype::F16,
                               Dtype::F32,     Dtype::F64, Dtype::C64,     Dtype::I32};
  std::set<OpId> proposed;
  size_t recomposed = 0, turn = 0;
  auto ask = [&](Dtype dtype, const bits::OwnedWords& stream, const std::vector<uint64_t>& shape) {
    std::vector<Window> windows;
    const size_t each = std::max<size_t>(1, stream.count() / 5);
    for (size_t at = 0; at + each <= stream.count(); at += 2 * each)
      windows.push_back({at, stream.view().part(at, each)});
    Counter counter(stream.width());
    for (const Window& window : windows) counter.add(window.words);
    const codec::Histogram histogram = counter.histogram();
    const Target target{stream.width(), dtype, stream.count(), shape, windows, &histogram};
    for (const OpSpec* spec : all_ops()) {
      if (!spec->propose) continue;
      CAPTURE(spec->name);
      std::vector<Proposal> proposals, again;
      spec->propose(target, proposals);
      spec->propose(target, again);
      REQUIRE(proposals.size() <= 12);
      REQUIRE(again.size() == proposals.size());
      std::set<std::pair<std::vector<uint64_t>, size_t>> distinct;
      for (size_t i = 0; i < proposals.size(); ++i) {
        const Proposal& proposal = proposals[i];
        CAPTURE(proposal.params);
        REQUIRE(again[i].params == proposal.params);
        REQUIRE(distinct.emplace(proposal.params, proposal.child_dtypes.size()).second);
        const size_t arity = proposal.child_dtypes.size();
        const Node node{spec->id, static_cast<uint8_t>(stream.width()), proposal.params, std::vector<uint32_t>(arity)};
        REQUIRE(spec->child_widths(node, arity));
        proposed.insert(spec->id);
        if (!spec->invert) continue;
        SlotTable table;
        if (spec->slot != SlotKind::none) {
          const auto stored = suit_slot(node, target);
          if (!stored) continue;
          table = must(load_slot(node, *stored));
        }
        for (const Window& window : windows) recomposed += round_trip(*spec, node, table, window.words);
      }
    }
  };
  for (const Dtype dtype : kDtypes) {
    const unsigned width = dtype_info(dtype).word_bits();
    CAPTURE(dtype_info(dtype).name);
    for (const size_t count : {1, 5, 300, 6000}) {
      const std::vector<std::vector<uint64_t>> shapes = {{}, {count}, {count / 20, 20}, {2, 3, 5, count / 30}};
      for (const test::Shape words : test::kShapes)
        ask(dtype, test::make_words(words, width, count, 7), shapes[++turn % 4]);
      for (const Extra words : kExtras) ask(dtype, make_extra(words, width, count, 7), shapes[++turn % 4]);
    }
  }
  // Nested targets have odd widths and no meaning.
  for (const unsigned width : {1u, 2u, 3u, 7u, 10u, 20u, 33u, 63u})
    for (const Extra words : kExtras) ask(Dtype::unknown, make_extra(words, width, 5000, 8), {});
  CHECK(recomposed > 1000);
  for (const OpSpec* spec : all_ops()) {
    CAPTURE(spec->name);
    if (spec->propose) CHECK(proposed.count(spec->id) == 1);
  }
}

TEST_CASE("law: a range of the output is that slice of the whole") {
  Rng rng(1);
  Random random(2);
  size_t made = 0;
  std::set<OpId> seen;
  for (int round = 0; round < 500; ++round) {
    const unsigned width = test::random_width(rng);
    const uint64_t words = random.below(8000);
    test::ProgramShape shape;
    shape.max_nodes = 24;
    shape.original_bytes = 4096;
    shape.bases = true;
    shape.expresses_all = round % 4 != 0;
    const auto program = std::make_shared<const Program>(test::random_program(rng, width, words, shape));
    CAPTURE(print(*program));
    const std::optional<test::World> world = random_world(program, words, random);
    if (!world) continue;
    ++made;
    for (const Node& node : program->nodes()) seen.insert(node.op);
    Arena arena;
    for (uint32_t r = 0; r < world->regions.size(); ++r) {
      ByteVector whole;
      for (uint64_t f = 0; f < world->regions[r].frames.size(); ++f) {
        const test::FrameBases bases(*program, r, f * world->frame_words[r], world->words_in(r, f));
        const ByteVector frame = must(test::decode(*world->bound, world->regions[r].frames[f], world->words_in(r, f),
                                                   f * world->frame_words[r], r, f % 3, bases.spans));
        whole.insert(whole.end(), frame.begin(), frame.end());
      }
      REQUIRE(whole == world->regions[r].bytes);
    }
    const uint64_t bytes = words * (width / 8);
    const ByteVector all = test::read_range(*world, words, {0, bytes}, arena);
    for (int i = 0; i < 12; ++i) {
      const uint64_t offset = random.below(bytes + 1), length = random.below(bytes - offset + 1);
      const Range range{offset, i == 0 ? std::min<uint64_t>(bytes - offset, 1) : i == 1 ? 0 : length};
      const ByteVector part = test::read_range(*world, words, range, arena);
      REQUIRE(std::equal(part.begin(), part.end(), all.begin() + static_cast<ptrdiff_t>(offset)));
      REQUIRE(part.size() == range.length);
    }
  }
  CHECK(made > 150);
  for (const OpSpec* spec : all_ops()) {
    CAPTURE(spec->name);
    if (spec->id != OpId::cast && spec->id != OpId::palette) CHECK(seen.count(spec->id) == 1);
  }
}

TEST_CASE("law: tampered frames give an error or words, never more") {
  Rng rng(3);
  Random random(4);
  for (int round = 0; round < 60; ++round) {
    const unsigned width = test::random_width(rng);
    const uint64_t words = 1 + random.below(60);
    test::ProgramShape shape;
    shape.max_nodes = 12;
    shape.skeleton = false;
    shape.expresses_all = true;
    const auto program = std::make_shared<const Program>(test::random_program(rng, width, words, shape));
    CAPTURE(print(*program));
    const std::optional<test::World> world = random_world(program, words, random);
    if (!world || world->regions.empty() || world->regions[0].frames.empty()) continue;
    const ByteVector& frame = world->regions[0].frames[0];
    const uint64_t count = std::min(words, world->frame_words[0]);
    auto attempt = [&](ByteVector bytes) {  // decode() watches the bytes around its output
      bytes.shrink_to_fit();
      const auto result = test::decode(*world->bound, bytes, count);
      if (!result) REQUIRE(result.error().kind() == Errc::corrupt);
      static_cast<void>(frame_leaves(*world->bound, 0, count, bytes));
    };
    for (size_t at = 0; at < frame.size(); ++at)
      for (unsigned change = 1; change<256; change = frame.size()> 40 ? change * 2 : change + 1) {
        ByteVector bytes = frame;
        bytes[at] = static_cast<uint8_t>(bytes[at] ^ change);
        attempt(bytes);
      }
    for (size_t size = 0; size < frame.size(); ++size) {
      const ByteVector cut(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(size));
      REQUIRE_FALSE(test::decode(*world->bound, cut, count).has_value());
      attempt(cut);
    }
    ByteVector longer = frame;
    longer.push_back(0);
    REQUIRE_FALSE(test::decode(*world->bound, longer, count).has_value());
    for (int i = 0; i < 50; ++i) attempt(test::random_bytes(random.below(2 * frame.size() + 8), random.next()));
  }
}
