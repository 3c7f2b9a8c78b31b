// SPDX-License-Identifier: Apache-2.0
//
// Fuzz: the wire form of a program, the gate behind it, lengths and plans. Input: a program, then up to three varints
// for the number of words and a byte range.
#include <algorithm>

#include "dsl/op.h"
#include "dsl/plan.h"
#include "dsl/text.h"
#include "dsl/wire.h"
#include "fuzz/fuzz.h"

using namespace brevis;
using namespace brevis::dsl;

namespace {

void check_plan(const Program& program, uint64_t words, Range wanted) {
  const auto lengths = region_lengths(program, words);
  if (!lengths) return;
  BREVIS_FUZZ_CHECK(lengths->size() == program.regions().size());
  if (program.width() % 8 != 0 || words == 0) return;
  const uint64_t size = words * program.width() / 8;
  // Short enough for the pieces of tiny frames to stay few.
  Range range{wanted.offset % size, 0};
  range.length = std::min(wanted.length % 100000, size - range.offset);
  const std::vector<uint64_t> frames(program.regions().size(), 64);
  std::vector<Piece> pieces;
  BREVIS_FUZZ_CHECK(plan(program, words, frames, range, pieces));
  uint64_t at = 0;
  for (const Piece& piece : pieces) {
    BREVIS_FUZZ_CHECK(piece.at == at && piece.length > 0 && piece.length <= range.length - at);
    if (piece.kind == Piece::Kind::copy) BREVIS_FUZZ_CHECK(piece.source > 0 && piece.source <= piece.at);
    if (piece.kind == Piece::Kind::frame)
      BREVIS_FUZZ_CHECK(piece.region < frames.size() &&
                        piece.frame * 64 + (piece.source + piece.length - 1) / (program.width() / 8) <
                            (*lengths)[piece.region]);
    at += piece.length;
  }
  BREVIS_FUZZ_CHECK(at == range.length);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ByteReader in(ByteSpan(data, size));
  const Result<Program> program = read_program(in);
  if (!program) {
    BREVIS_FUZZ_CHECK(program.error().kind() == Errc::corrupt || program.error().kind() == Errc::unsupported);
    return 0;
  }
  ByteVector again;
  write_program(*program, again);
  BREVIS_FUZZ_CHECK(again.size() == in.position() && std::equal(again.begin(), again.end(), data));
  const Result<Program> parsed = parse_program(print(*program));
  BREVIS_FUZZ_CHECK(parsed && parsed->expr() == program->expr());

  uint64_t numbers[3] = {1000, 0, 5000};
  for (uint64_t& number : numbers) number = in.varint().value_or(number);
  check_plan(*program, numbers[0], {numbers[1], numbers[2]});
  return 0;
}
