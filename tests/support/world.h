// SPDX-License-Identifier: Apache-2.0
//
// A whole stream in memory as an archive would hold it: a program, its tables, the stored frames of every region, and
// the original file that references point into. With it, the reading of ranges from frames, as slow as can be.
//
// Errors:  std::runtime_error with the product's message. Threads: one.
#pragma once

#include <algorithm>
#include <functional>

#include "dsl/plan.h"
#include "support/bound.h"

namespace brevis::test {

// What the `base` node of that number stands for: any bytes will do that do not repeat.
inline ByteVector base_bytes(uint32_t number, uint64_t offset, uint64_t length) {
  ByteVector out(length);
  for (uint64_t i = 0; i < length; ++i)
    out[i] = static_cast<uint8_t>(((offset + i) * 0x9e3779b97f4a7c15u >> 56) + number);
  return out;
}

// The bytes of every base of a frame.
struct FrameBases {
  std::vector<ByteVector> bytes;
  std::vector<ByteSpan> spans;

  FrameBases(const dsl::Program& program, uint32_t region, uint64_t first, uint64_t words) {
    const dsl::Region& where = program.regions()[region];
    for (uint32_t i = where.first_base; i < where.first_base + where.bases; ++i) {
      const uint64_t lane = program.nodes()[program.bases()[i]].width / 8u;
      bytes.push_back(base_bytes(i, first * lane, words * lane));
    }
    for (const ByteVector& one : bytes) spans.push_back(one);
  }
};

struct World {
  struct Region {
    std::vector<ByteVector> frames;  // as stored
    ByteVector bytes;                // what they hold
  };
  std::shared_ptr<const dsl::BoundProgram> bound;
  std::vector<Region> regions;
  std::vector<uint64_t> frame_words;
  ByteVector original;

  uint64_t words_in(uint32_t region, uint64_t frame) const {
    const uint64_t all = regions[region].bytes.size() / (bound->program().width() / 8);
    return std::min(frame_words[region], all - frame * frame_words[region]);
  }
};

// A stream of `words` words: `stream` gives the words of each region, `frame_words` its frame length. Nothing when the
// program cannot express them.
inline std::optional<World> make_world(std::shared_ptr<const dsl::Program> program, uint64_t words,
                                       const std::function<bits::OwnedWords(uint64_t count)>& stream,
                                       const std::function<uint64_t(uint64_t count)>& frame_words,
                                       ByteVector original) {
  World world;
  world.original = std::move(original);
  const std::vector<uint64_t> lengths = must(dsl::region_lengths(*program, words));
  std::vector<bits::OwnedWords> streams;
  std::vector<ByteVector> stored(program->slots().size());
  for (uint32_t r = 0; r < lengths.size(); ++r) {
    streams.push_back(stream(lengths[r]));
    const uint64_t each = std::max<uint64_t>(1, std::min(lengths[r], frame_words(lengths[r])));
    world.frame_words.push_back(each);
    const auto tables = must(dsl::train(*program, r, (lengths[r] + each - 1) / each, each, [&](uint64_t frame) {
      return Result<bits::ConstWords>(streams[r].view().part(frame * each, std::min(each, lengths[r] - frame * each)));
    }));
    if (!tables) return std::nullopt;
    for (size_t slot = 0; slot < stored.size(); ++slot)
      if (program->nodes()[program->slots()[slot].node].region == static_cast<int32_t>(r))
        stored[slot] = (*tables)[slot];
  }
  world.bound = bind_stored(std::move(program), stored);
  for (uint32_t r = 0; r < lengths.size(); ++r) {
    World::Region region;
    region.bytes = file_bytes(streams[r].view());
    for (uint64_t at = 0; at < lengths[r]; at += world.frame_words[r]) {
      const uint64_t count = std::min(world.frame_words[r], lengths[r] - at);
      const FrameBases bases(world.bound->program(), r, at, count);
      std::optional<ByteVector> frame = encode(*world.bound, streams[r].view().part(at, count), at, r, bases.spans);
      if (!frame) return std::nullopt;
      region.frames.push_back(std::move(*frame));
    }
    world.regions.push_back(std::move(region));
  }
  return world;
}

// The bytes of a range of the output, decoding each frame that a piece of it names.
inline ByteVector read_range(const World& world, uint64_t words, Range range, Arena& arena) {
  const dsl::Program& program = world.bound->program();
  std::vector<dsl::Piece> pieces;
  must(dsl::plan(program, words, world.frame_words, range, pieces));
  ByteVector out(range.length);
  for (const dsl::Piece& piece : pieces) {
    const MutByteSpan to = MutByteSpan(out).subspan(piece.at, piece.length);
    const auto source = static_cast<ptrdiff_t>(piece.source);
    switch (piece.kind) {
      case dsl::Piece::Kind::fill: dsl::run_fill(piece, to); break;
      case dsl::Piece::Kind::copy: dsl::run_copy(piece, out); break;
      case dsl::Piece::Kind::base: {
        const ByteVector bytes = base_bytes(piece.region, piece.source, piece.length);
        std::copy(bytes.begin(), bytes.end(), to.begin());
        break;
      }
      case dsl::Piece::Kind::ref: std::copy_n(world.original.begin() + source, piece.length, to.begin()); break;
      case dsl::Piece::Kind::frame: {
        ByteVector frame(world.words_in(piece.region, piece.frame) * (program.width() / 8));
        const uint64_t first = piece.frame * world.frame_words[piece.region];
        const FrameBases bases(program, piece.region, first, world.words_in(piece.region, piece.frame));
        must(dsl::decode_frame(*world.bound, piece.region, first, world.regions[piece.region].frames[piece.frame],
                               frame, arena, bases.spans));
        std::copy_n(frame.begin() + source, piece.length, to.begin());
        break;
      }
    }
  }
  return out;
}

}  // namespace brevis::test
