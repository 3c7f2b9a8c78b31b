// SPDX-License-Identifier: Apache-2.0
//
// Programs that run, for tests: trained on their own words and bound.
//
// Errors:  std::runtime_error with the product's message, which ends the test case. Threads: one.
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "bits/words.h"
#include "dsl/encode.h"
#include "dsl/text.h"

namespace brevis::test {

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message());
  return std::move(*result);
}
inline void must(const Status& status) {
  if (!status) throw std::runtime_error(status.error().message());
}

inline std::shared_ptr<const dsl::Program> program_of(std::string_view text) {
  return std::make_shared<const dsl::Program>(must(dsl::parse_program(text)));
}

// "u<width> = <expr>".
inline std::string typed(unsigned width, std::string_view expr) {
  return std::string("u").append(std::to_string(width)).append(" = ").append(expr);
}

// One stored table a slot.
inline std::shared_ptr<const dsl::BoundProgram> bind_stored(std::shared_ptr<const dsl::Program> program,
                                                            const std::vector<ByteVector>& stored, bool fuse = true) {
  std::vector<std::vector<dsl::SlotTable>> tables;
  for (size_t slot = 0; slot < stored.size(); ++slot)
    tables.push_back({must(dsl::load_slot(*program, program->slots()[slot], stored[slot]))});
  return must(dsl::BoundProgram::bind(std::move(program), std::move(tables), fuse));
}

// Trained on one frame of its only region; null when the program cannot express it.
inline std::shared_ptr<const dsl::BoundProgram> train_on(std::shared_ptr<const dsl::Program> program,
                                                         bits::ConstWords words) {
  const auto tables =
      must(dsl::train(*program, 0, 1, words.count, [&](uint64_t) { return Result<bits::ConstWords>(words); }));
  return tables ? bind_stored(std::move(program), *tables) : nullptr;
}

inline std::optional<ByteVector> encode(const dsl::BoundProgram& bound, bits::ConstWords words, uint64_t first = 0,
                                        uint32_t region = 0, std::span<const ByteSpan> bases = {}) {
  ByteVector out;
  if (!must(dsl::encode_frame(bound, region, first, words, out, bases))) return std::nullopt;
  return out;
}

// `misaligned` bytes off a word's border, with guards on both sides.
inline Result<ByteVector> decode(const dsl::BoundProgram& bound, ByteSpan stored, size_t words, uint64_t first = 0,
                                 uint32_t region = 0, size_t misaligned = 0, std::span<const ByteSpan> bases = {}) {
  constexpr size_t kGuard = 64;
  const size_t bytes = words * bound.program().width() / 8;
  ByteVector buffer(bytes + misaligned + 2 * kGuard, 0xa5);
  const MutByteSpan out = MutByteSpan(buffer).subspan(kGuard + misaligned, bytes);
  Arena arena;
  const Status status = dsl::decode_frame(bound, region, first, stored, out, arena, bases);
  for (size_t i = 0; i < buffer.size(); ++i)
    if ((i < kGuard + misaligned || i >= kGuard + misaligned + bytes) && buffer[i] != 0xa5)
      throw std::runtime_error("a decode wrote outside its output");
  if (!status) return status.error();
  return ByteVector(out.begin(), out.end());
}

// Words of whole bytes as they stand in a file.
inline ByteVector file_bytes(bits::ConstWords words) {
  ByteVector out;
  for (size_t i = 0; i < words.count; ++i)
    for (unsigned byte = 0; byte < words.width / 8u; ++byte)
      out.push_back(static_cast<uint8_t>(words.at(i) >> 8 * byte));
  return out;
}
inline bits::OwnedWords words_of(ByteSpan bytes, unsigned width) {
  bits::OwnedWords words(width, bytes.size() / (width / 8));
  for (size_t i = 0; i < words.count(); ++i) {
    uint64_t word = 0;
    for (unsigned byte = 0; byte < width / 8; ++byte) word |= uint64_t{bytes[i * (width / 8) + byte]} << 8 * byte;
    words.words().set(i, word);
  }
  return words;
}
inline bits::OwnedWords words_of(std::initializer_list<uint64_t> list, unsigned width) {
  bits::OwnedWords words(width, list.size());
  size_t i = 0;
  for (const uint64_t word : list) words.words().set(i++, word);
  return words;
}

}  // namespace brevis::test
