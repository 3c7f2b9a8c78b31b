// SPDX-License-Identifier: Apache-2.0
//
// Fuzz: running programs. Input: a program in wire form, varints for the words of the stream, of a frame, and a byte
// range; the rest is data. The data are words to be trained on, encoded and read back, whole and in part; they are
// also taken for stored tables and for a stored frame of so many words that it has any number of lanes, which may be
// refused but do no harm; a frame beside another is what it is alone.
#include <optional>

#include "dsl/verify.h"
#include "dsl/wire.h"
#include "fuzz/fuzz.h"
#include "support/world.h"

using namespace brevis;
using namespace brevis::dsl;

namespace {

constexpr uint64_t kMaxWords = 3000;
constexpr uint64_t kMaxHostileWords = 70000;

// References have to stay inside the one original that there is.
bool refs_fit(const Program& program, size_t original) {
  for (const Node& node : program.nodes())
    if (node.op == OpId::ref && node.params[0] > original - kMaxWords * 8) return false;
  return true;
}

bits::OwnedWords repeated(ByteSpan data, unsigned width, uint64_t count) {
  ByteVector bytes(count * (width / 8));
  if (!data.empty())
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = data[i % data.size()];
  return test::words_of(bytes, width);
}

void check_range(std::shared_ptr<const Program> program, uint64_t words, uint64_t frame_words, Range range,
                 ByteSpan data) {
  const auto world = test::make_world(
      program, words, [&](uint64_t count) { return repeated(data, program->width(), count); },
      [&](uint64_t) { return frame_words; }, ByteVector(1 << 16, 7));
  if (!world) return;
  for (uint32_t r = 0; r < world->regions.size(); ++r)
    for (uint64_t f = 0; f < world->regions[r].frames.size(); ++f) {
      const test::FrameBases bases(*program, r, f * world->frame_words[r], world->words_in(r, f));
      const ByteVector frame =
          test::must(test::decode(*world->bound, world->regions[r].frames[f], world->words_in(r, f),
                                  f * world->frame_words[r], r, 0, bases.spans));
      const uint64_t at = f * world->frame_words[r] * (program->width() / 8);
      BREVIS_FUZZ_CHECK(std::equal(frame.begin(), frame.end(), world->regions[r].bytes.begin() + ptrdiff_t(at)));
    }
  Arena arena;
  const uint64_t size = words * program->width() / 8;
  const ByteVector all = test::read_range(*world, words, {0, size}, arena);
  range.offset %= size + 1;
  range.length = std::min(range.length, size - range.offset);
  const ByteVector part = test::read_range(*world, words, range, arena);
  BREVIS_FUZZ_CHECK(std::equal(part.begin(), part.end(), all.begin() + ptrdiff_t(range.offset)));
}

void check_hostile(std::shared_ptr<const Program> program, uint64_t words, ByteSpan data) {
  std::vector<std::vector<SlotTable>> tables;
  for (const Slot& slot : program->slots()) {
    // The shortest piece of the data that is a table of this slot.
    std::optional<SlotTable> found;
    for (size_t size = 0; size <= std::min<size_t>(data.size(), 600) && !found; ++size) {
      Result<SlotTable> table = load_slot(*program, slot, data.first(size));
      if (!table) continue;
      found = std::move(*table);
      data = data.subspan(size);
    }
    if (!found) return;
    tables.push_back({std::move(*found)});
  }
  const auto bound = BoundProgram::bind(program, std::move(tables));
  if (!bound) return;
  for (uint32_t r = 0; r < program->regions().size(); ++r) {
    const test::FrameBases bases(*program, r, 0, words);
    const auto result = test::decode(**bound, data, words, 0, r, 0, bases.spans);
    if (!result) BREVIS_FUZZ_CHECK(result.error().kind() == Errc::corrupt);
    ByteVector out(words * program->width() / 8), cut(out.size());
    const ByteSpan less = data.first(data.size() - std::min<size_t>(data.size(), 1));
    FrameTask tasks[] = {{bound->get(), r, 0, data, out, bases.spans, {}},
                         {bound->get(), r, 0, less, cut, bases.spans, {}}};
    Arena arena;
    decode_frames(tasks, arena);
    BREVIS_FUZZ_CHECK(tasks[0].status.has_value() == result.has_value());
    BREVIS_FUZZ_CHECK(!result || *result == out);
    BREVIS_FUZZ_CHECK(tasks[1].status.has_value() ==
                      test::decode(**bound, less, words, 0, r, 0, bases.spans).has_value());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ByteReader in(ByteSpan(data, size));
  Result<Program> read = read_program(in);
  if (!read || read->width() % 8 != 0 || read->nodes().size() > 200 || !refs_fit(*read, 1 << 16)) return 0;
  const auto program = std::make_shared<const Program>(std::move(*read));
  uint64_t numbers[4] = {100, 40, 3, 50};
  for (uint64_t& number : numbers) number = in.varint().value_or(number);
  const uint64_t words = numbers[0] % kMaxWords;
  const ByteSpan rest = ByteSpan(data, size).subspan(in.position());
  if (region_lengths(*program, words))
    check_range(program, words, numbers[1] % kMaxWords, {numbers[2], numbers[3]}, rest);
  check_hostile(program, numbers[0] % kMaxHostileWords, rest);
  return 0;
}
