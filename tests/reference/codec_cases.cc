// SPDX-License-Identifier: Apache-2.0
//
// Prints payloads of all codecs with what they mean, one case a line, in hex: CODEC WIDTH COUNT TABLE PAYLOAD LANES
// (a dash for nothing). The reference decoder is held against them.
#include <algorithm>
#include <cstdio>
#include <string>

#include "codec/codec.h"
#include "support/words.h"

using namespace brevis;

namespace {

std::string hex(ByteSpan bytes) { return bytes.empty() ? "-" : to_hex(bytes); }

void print_case(const codec::CodecSpec& spec, test::Shape shape, unsigned width, size_t count) {
  if (!spec.accepts(width)) return;
  const auto in = test::make_words(shape, width, count, 11 * count + width);
  ByteVector stored, payload;
  codec::TablePtr table;
  if (spec.needs_table) {
    auto trained = spec.train(test::histogram_of(in.view()));
    if (!trained) return;
    stored = std::move(*trained);
    table = *spec.load(stored, width);
  }
  if (!spec.encode(table.get(), in.view(), payload)) return;
  std::printf("%u %u %zu %s %s %s\n", static_cast<unsigned>(spec.id), width, count, hex(stored).c_str(),
              hex(payload).c_str(), hex(in.view().byte_span()).c_str());
}

// Numbers that count up, in a text of its own for every seed.
void print_text(unsigned seed) {
  test::Random random(seed);
  std::string text;
  for (uint64_t n = 95 + random.below(9); text.size() < 200;)
    text += std::string(1, static_cast<char>('a' + random.below(26))) + (random.below(5) == 0 ? " 0" : ": ") +
            std::to_string(n += random.below(8) != 0) + (random.below(6) == 0 ? "\n" : ", ");
  bits::OwnedWords in(8, text.size());
  std::copy(text.begin(), text.end(), in.words().byte_span().begin());
  ByteVector payload;
  if (!codec::text_codec.encode(nullptr, in.view(), payload)) return;
  std::printf("%u 8 %zu - %s %s\n", static_cast<unsigned>(codec::CodecId::text), text.size(), hex(payload).c_str(),
              hex(in.view().byte_span()).c_str());
}

}  // namespace

int main() {
  for (unsigned seed = 0; seed < 40; ++seed) print_text(seed);
  for (const auto* spec : codec::all_codecs())
    for (const auto shape : test::kShapes) {
      for (unsigned width : {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 16, 24, 33, 64})
        for (size_t count : {0, 1, 2, 7, 150}) print_case(*spec, shape, width, count);
      if (shape != test::Shape::bell && shape != test::Shape::skewed) continue;
      for (unsigned width : {5, 10})
        for (size_t count : {4095, 4097, 16390}) print_case(*spec, shape, width, count);
      for (unsigned width : {6, 16}) print_case(*spec, shape, width, 65601);
    }
}
