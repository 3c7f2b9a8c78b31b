// SPDX-License-Identifier: Apache-2.0
//
// Law: assembling the pieces of a range gives that slice of the whole stream, for every program and range; the pieces
// come in order, without gap or overlap, and their number stays within its bound. Frames are stood for by random bytes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "dsl/plan.h"
#include "dsl/text.h"
#include "dsl/verify.h"
#include "support/random_program.h"
#include "support/world.h"

using namespace brevis;
using namespace brevis::dsl;
using test::Rng;

namespace {

// What stands for the data of one tensor: the bytes of each region, and the original file that refs point into.
struct World {
  std::vector<ByteVector> regions;
  std::vector<uint64_t> frame_words;
  ByteVector original;
};

// The whole stream, by the plain meaning of each operator, as slowly as can be.
ByteVector whole(const Program& program, const World& world, uint32_t at, uint64_t words) {
  const Node& node = program.nodes()[at];
  const size_t bytes = node.width / 8u;
  if (node.region >= 0) return world.regions[static_cast<size_t>(node.region)];
  ByteVector out;
  switch (node.op) {
    case OpId::concat:
      for (size_t i = 0; i < node.children.size(); ++i) {
        const uint64_t part = i < node.params.size() ? node.params[i] : words - out.size() / bytes;
        const ByteVector child = whole(program, world, node.children[i], part);
        out.insert(out.end(), child.begin(), child.end());
      }
      break;
    case OpId::repeat: {
      const ByteVector child = whole(program, world, node.children[0], words / node.params[0]);
      for (uint64_t i = 0; i < node.params[0]; ++i) out.insert(out.end(), child.begin(), child.end());
      break;
    }
    case OpId::ref: {
      const auto from = world.original.begin() + static_cast<ptrdiff_t>(node.params[0]);
      out.assign(from, from + static_cast<ptrdiff_t>(words * bytes));
      break;
    }
    case OpId::base: return test::base_bytes(static_cast<uint32_t>(node.base), 0, words * bytes);
    case OpId::constant:
    case OpId::ramp:
      for (uint64_t i = 0; i < words; ++i) {
        const uint64_t word = node.params[0] + (node.op == OpId::ramp ? i * node.params[1] : 0);
        for (size_t b = 0; b < bytes; ++b) out.push_back(static_cast<uint8_t>(word >> 8 * b));
      }
      break;
    default: FAIL("not of the skeleton");
  }
  return out;
}

ByteVector assemble(const Program& program, const World& world, const std::vector<Piece>& pieces, uint64_t length) {
  ByteVector out(length, 0xee);
  uint64_t at = 0;
  for (const Piece& piece : pieces) {
    REQUIRE(piece.at == at);
    REQUIRE(piece.length > 0);
    REQUIRE(piece.length <= length - at);
    at += piece.length;
    const MutByteSpan to = MutByteSpan(out).subspan(piece.at, piece.length);
    switch (piece.kind) {
      case Piece::Kind::frame: {
        const ByteVector& region = world.regions[piece.region];
        const uint64_t frame_bytes = world.frame_words[piece.region] * (program.width() / 8);
        REQUIRE(piece.source + piece.length <= frame_bytes);
        const uint64_t from = piece.frame * frame_bytes + piece.source;
        REQUIRE(from + piece.length <= region.size());
        std::copy_n(region.begin() + static_cast<ptrdiff_t>(from), piece.length, to.begin());
        break;
      }
      case Piece::Kind::fill: run_fill(piece, to); break;
      case Piece::Kind::ref:
        REQUIRE(piece.source + piece.length <= world.original.size());
        std::copy_n(world.original.begin() + static_cast<ptrdiff_t>(piece.source), piece.length, to.begin());
        break;
      case Piece::Kind::base: {
        const ByteVector based = test::base_bytes(piece.region, piece.source, piece.length);
        std::copy(based.begin(), based.end(), to.begin());
        break;
      }
      case Piece::Kind::copy:
        REQUIRE(piece.source > 0);
        REQUIRE(piece.source <= piece.at);
        run_copy(piece, out);
        break;
    }
  }
  REQUIRE(at == length);
  return out;
}

Range random_range(Rng& rng, uint64_t size) {
  switch (rng.below(5)) {
    case 0: return {rng.below(size + 1), 0};
    case 1: return size == 0 ? Range{} : Range{rng.below(size), 1};
    case 2: return {0, size};
    default: {
      const uint64_t offset = rng.below(size + 1);
      return {offset, rng.below(std::min<uint64_t>(size - offset, rng.below(2) ? 40 : size) + 1)};
    }
  }
}

// Highest number of pieces that plan.h allows: frames touched, plus a few for every skeleton node and level.
uint64_t most_pieces(const Program& program, const World& world, uint64_t bytes) {
  uint64_t frame = UINT64_MAX;
  for (const uint64_t words : world.frame_words) frame = std::min(frame, words * program.width() / 8);
  return 2 * (bytes / frame) + 8 * program.nodes().size() + 8;
}

}  // namespace

TEST_CASE("law: the pieces of a range are that slice of the whole") {
  Rng rng(11);
  size_t bases = 0, copies = 0, unaligned = 0, fills = 0, refs = 0, frames = 0;
  for (int round = 0; round < 1500; ++round) {
    const unsigned width = rng.below(6) == 0 ? 8 * (1 + static_cast<unsigned>(rng.below(8))) : test::random_width(rng);
    const uint64_t words = rng.below(3) == 0 ? rng.below(20) : 60 * rng.below(100);
    World world;
    world.original = test::random_bytes(1 + rng.below(uint64_t{1} << 16), rng.next());
    test::ProgramShape shape;
    shape.original_bytes = world.original.size();
    shape.bases = true;
    shape.max_nodes = 1 + rng.below(60);
    const Program program = test::random_program(rng, width, words, shape);
    const auto lengths = region_lengths(program, words);
    REQUIRE(lengths);
    for (const uint64_t length : *lengths) {
      world.regions.push_back(test::random_bytes(length * width / 8, rng.next()));
      world.frame_words.push_back(1 + rng.below(rng.below(2) ? 20 : 2000));
    }
    const ByteVector all = whole(program, world, 0, words);
    REQUIRE(all.size() == words * width / 8);
    for (int i = 0; i < 30; ++i) {
      const Range range = random_range(rng, all.size());
      std::vector<Piece> pieces(3);  // must be replaced
      REQUIRE(plan(program, words, world.frame_words, range, pieces));
      const ByteVector part = assemble(program, world, pieces, range.length);
      const ByteSpan expected = ByteSpan(all).subspan(range.offset, range.length);
      if (!std::ranges::equal(part, expected))
        FAIL(print(program) << " of " << words << " words, bytes " << range.offset << " + " << range.length);
      CHECK(pieces.size() <= most_pieces(program, world, range.length));
      for (const Piece& piece : pieces) {
        copies += piece.kind == Piece::Kind::copy;
        fills += piece.kind == Piece::Kind::fill;
        bases += piece.kind == Piece::Kind::base;
        refs += piece.kind == Piece::Kind::ref;
        frames += piece.kind == Piece::Kind::frame;
        unaligned += piece.length % (width / 8) != 0;
      }
    }
  }
  // The law is not kept by never meeting a case.
  for (const size_t seen : {bases, copies, fills, refs, frames, unaligned}) CHECK(seen > 300);
}
