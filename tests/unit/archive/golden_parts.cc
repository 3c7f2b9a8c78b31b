// SPDX-License-Identifier: Apache-2.0
#include "golden_parts.h"

#include "archive/format.h"
#include "base/checksum.h"
#include "support/scaled_words.h"
#include "support/weights.h"

namespace brevis::test {
namespace {

using namespace archive;
using enum archive::SegmentKind;
// A tensor for each codec, in the widths it is for.
std::vector<PackPart> codec_parts() {
  const ByteVector weights = gaussian_words(Dtype::BF16, 3000, 1);
  return {
      {prefix, random_bytes(30, 2), "u8 = literal(raw)"},
      {tensor, weights, "u16 = literal(raw)", 0},
      {tensor, palette_words(32, 700, 30, 3), "u32 = literal(packed)", 1},
      {tensor, weights, "u16 = merge(6, 10; literal(alias), literal(packed))", 2},
      {tensor, palette_words(16, 2500, 300, 4), "u16 = literal(rans)", 3},
      {tensor, weights, "u16 = merge(8, 8; literal(huffman), literal(raw))", 4},
      {tensor, zero_heavy_words(Dtype::F32, 1500, 5, 990), "u32 = literal(sparse)", 5},
      {tensor, ramp_words(64, 600, 9, 1000), "u64 = literal(zstd)", 6},
      {tensor, ByteVector{42}, "u8 = literal(sparse)", 7},
  };
}

// A tensor for each operator.
std::vector<PackPart> operator_parts() {
  const ByteVector weights = gaussian_words(Dtype::BF16, 2500, 11);
  ByteVector periodic;
  const ByteVector period = random_bytes(80, 12);
  for (int i = 0; i < 40; ++i) periodic.insert(periodic.end(), period.begin(), period.end());
  ByteVector mixed = constant_words(16, 100, 7);
  mixed.insert(mixed.end(), weights.begin(), weights.end());
  ByteVector runs;
  for (uint8_t i = 0; i < 60; ++i) runs.insert(runs.end(), size_t(1 + i * 3 % 70), uint8_t(i * 37));
  return {
      {prefix, random_bytes(21, 13), "u8 = literal(raw)"},
      {tensor, weights, "u16 = merge(9, 7; rank(7; literal(alias), literal(packed), literal(packed)), literal(packed))",
       0},
      {tensor, weights, "u16 = ref(21)", 1},
      {tensor, constant_words(32, 2000, 0x3f800000), "u32 = constant(0x3f800000)", 2},
      {tensor, ramp_words(64, 300, 5, 3), "u64 = ramp(5, 3)", 3},
      {tensor, periodic, "u8 = repeat(40; literal(raw))", 4},
      {tensor, mixed, "u16 = concat(100; constant(7), literal(rans))", 5},
      {tensor, palette_words(32, 1500, 12, 14), "u32 = palette(12; literal(packed))", 6},
      {tensor, weights, "u16 = map(xor, 0x8001; map(rotate, 1; map(zigzag, 0; literal(packed))))", 7},
      {tensor, ramp_words(16, 2400, 3, 7), "u16 = scan(add, 2; literal(packed), literal(sparse))", 8},
      {tensor, upcast_words(1200, 15), "u32 = cast(bf16_f32; literal(rans))", 9},
      {tensor, weights, "u16 = interleave(literal(packed), literal(rans))", 10},
      {tensor, runs, "u8 = runs(literal(packed), literal(packed))", 11},
      {tensor, zero_heavy_words(Dtype::F16, 2000, 16, 800), "u16 = zeros(literal(packed), literal(packed))", 12},
      {tensor, {}, "", 13},
  };
}

// Tensors whose rows and columns have scales of their own.
std::vector<PackPart> offset_parts() {
  ByteVector scaled = gaussian_words(Dtype::BF16, 60 * 50, 40);
  for (size_t i = 0; i < 60 * 50; ++i) {
    const unsigned exponents = static_cast<unsigned>(i / 50 % 7 + i % 50 % 5);  // added, modulo a byte
    const unsigned word = scaled[2 * i] | scaled[2 * i + 1] << 8;
    const unsigned moved = (word & 0x807f) | ((word + (exponents << 7)) & 0x7f80);
    scaled[2 * i] = static_cast<uint8_t>(moved);
    scaled[2 * i + 1] = static_cast<uint8_t>(moved >> 8);
  }
  return {
      {prefix, random_bytes(9, 41), "u8 = literal(raw)"},
      {tensor, scaled,
       "u16 = offset(7, 8, 50, 60, 1, 50; merge(1, 10, 5; literal(packed), rank(15; literal(alias), literal(packed), "
       "literal(packed)), literal(packed)))",
       0},
      {tensor, scaled, "u16 = merge(1, 15; literal(packed), offset(7, 8, 1, 3000; literal(zstd)))", 1},
      {tensor, gaussian_words(Dtype::F32, 2000, 42), "u32 = offset(23, 8, 9, 20, 180, 11; literal(raw))", 2},
      {tensor, random_bytes(5000, 43), "u8 = offset(0, 8, 1, 3, 3, 5, 2, 2, 1000, 2; literal(raw))", 3},
  };
}

// Scales of rows and columns, and sizes that go with those of the words before.
std::vector<PackPart> dealt_parts() {
  ByteVector scaled = offset_parts()[1].bytes, waves = gaussian_words(Dtype::BF16, 3000, 71), steps;
  for (size_t i = 0; i < 3000; ++i) {
    const unsigned word = waves[2 * i] | waves[2 * i + 1] << 8;
    const unsigned moved = (word & 0x807f) | ((word + (i / 100 % 6 << 7)) & 0x7f80);
    waves[2 * i] = static_cast<uint8_t>(moved);
    waves[2 * i + 1] = static_cast<uint8_t>(moved >> 8);
    const unsigned step = (moved & 0x7f) >> i / 80 % 6;  // of changing size
    const unsigned signed_step = moved & 0x8000 ? 0 - step : step;
    steps.push_back(static_cast<uint8_t>(signed_step));
    steps.push_back(static_cast<uint8_t>(signed_step >> 8));
  }
  const std::string four =
      "literal(packed), literal(zstd), merge(1, 10, 5; literal(packed), rank(7; literal(packed), literal(packed), "
      "literal(packed)), literal(packed)), literal(raw))";
  return {
      {prefix, random_bytes(9, 70), "u8 = literal(raw)"},
      {tensor, scaled, "u16 = select(7, 8, 50, 60, 1, 50; " + four, 0},
      {tensor, scaled, "u16 = offset(7, 8, 1, 50; select(0, 7, 1, 3000; " + four + ")", 1},
      {tensor, waves, "u16 = context(field, 5, 10, 1, 2, 100, 2, 101, 1, 2, 1; " + four, 2},
      {tensor, waves, "u16 = context(field, 7, 8, 64, 1; " + four, 3},
      {tensor, steps, "u16 = context(size, 0, 16, 1, 4; " + four, 4},
      {tensor, gaussian_words(Dtype::F32, 2000, 72),
       "u32 = context(size, 3, 20, 40, 3, 1000000, 1; literal(raw), literal(packed), literal(packed), literal(packed))",
       5},
  };
}

// Few words in each row, group and square, with places that have none of their own.
std::vector<PackPart> levels_parts() {
  ByteVector rows, squares;
  const ByteVector noise = random_bytes(8192, 81);
  for (unsigned i = 0; i < 60 * 64; ++i) {
    const unsigned row = i / 64, square = i / 64 / 20 * 4 + i % 64 / 16;
    const unsigned level = noise[i] % 16;
    const auto word_of = [&](unsigned scale) {  // a sign, a scale of its own and a multiple of it
      return (level & 8) << 12 | (0x3a00 + scale * 37 + (level & 7) * (16 + scale % 5));
    };
    const unsigned by_row = row % 9 == 4 ? noise[i] * 256u + noise[i + 1] : word_of(row), by_square = word_of(square);
    rows.insert(rows.end(), {uint8_t(by_row), uint8_t(by_row >> 8)});
    squares.insert(squares.end(), {uint8_t(by_square), uint8_t(by_square >> 8), uint8_t(square), 0x3f});
  }
  return {
      {prefix, random_bytes(9, 80), "u8 = literal(raw)"},
      {tensor, rows, "u16 = levels(signed, 64, 64, 1; literal(packed), literal(zstd), literal(rans), literal(raw))", 0},
      {tensor, rows, "u16 = levels(plain, 64, 32, 1; literal(raw), literal(packed), literal(packed), literal(packed))",
       1},
      {tensor, squares,
       "u32 = levels(signed, 64, 16, 20; literal(raw), literal(packed), palette(16; literal(alias)), literal(raw))", 2},
      {tensor, rows, "u16 = levels(signed, 64, 1, 0x100000; literal(raw), literal(raw), literal(raw), literal(raw))",
       3},
  };
}

// Levels of each kind times scales in each type, cut by frames, with words among them that no scale gives.
std::vector<PackPart> dequantise_parts() {
  const auto made = [](const Quantised& how, size_t count, uint64_t seed) {
    bits::OwnedWords words = scaled_words(how, 0, count, seed);
    const FloatForm form = kScaledForms[how.type];
    for (size_t i = 0; i < count; ++i) {
      uint64_t word = words.view().at(i);
      if (i / how.row % 3 == 1 && how.rows == 1) word ^= form.sign();  // negative scales
      if (i % 301 == 7) word = form.infinity() | i % 4;                // no numbers
      words.words().set(i, word);
    }
    const ByteSpan bytes = words.view().byte_span();
    return ByteVector(bytes.begin(), bytes.end());
  };
  ByteVector squares = made({1, 1, 80, 32, 32}, 80 * 60, 95);
  const ByteVector noise = random_bytes(2 * 5 * 80, 96);
  for (size_t i = 0; i < noise.size(); ++i)
    if (i / 2 % 80 < 20) squares[2 * 80 * 40 + i] = noise[i];
  return {
      {prefix, random_bytes(9, 90), "u8 = literal(raw)"},
      {tensor, made({0, 1, 96, 32, 1, 4}, 96 * 50, 91),
       "u16 = dequantise(integer, 1, 96, 32, 1; merge(12, 11, 9; literal(packed), literal(packed), literal(packed)), "
       "literal(packed), literal(raw))",
       0},
      {tensor, made({0, 2, 40, 1, 0x100000, 8}, 40 * 150, 92),
       "u16 = dequantise(integer, 2, 40, 1, 0x100000; literal(zstd), literal(rans), literal(packed))", 1},
      {tensor, made({0, 0, 100, 100, 1, 8}, 3000, 93),
       "u32 = dequantise(integer, 0, 100, 100, 1; literal(raw), literal(rans), merge(23, 9; literal(packed), "
       "literal(packed)))",
       2},
      {tensor, squares, "u16 = dequantise(e4m3, 1, 80, 32, 32; literal(raw), literal(packed), literal(packed))", 3},
      {tensor, made({2, 0, 60, 60, 2}, 3000, 97),
       "u32 = dequantise(e5m2, 0, 60, 60, 2; literal(raw), literal(packed), literal(raw))", 4},
      {tensor, made({3, 2, 128, 64, 1}, 3000, 98),
       "u16 = dequantise(nf4, 2, 128, 64, 1; literal(packed), literal(packed), literal(raw))", 5},
      {tensor, made({3, 1, 7, 3, 9}, 2500, 99),
       "u16 = dequantise(nf4, 1, 7, 3, 9; literal(packed), literal(packed), literal(raw))", 6},
  };
}

std::vector<PackPart> transpose_parts() {
  ByteVector columns;  // 70 rows of 30 columns, each its own word
  for (int row = 0; row < 70; ++row)
    for (int column = 0; column < 30; ++column) columns.insert(columns.end(), {uint8_t(column * 7), uint8_t(column)});
  return {
      {prefix, random_bytes(8, 51), "u8 = literal(raw)"},
      {tensor, columns, "u16 = transpose(35, 30; runs(literal(packed), literal(packed)))", 0},
      {tensor, gaussian_words(Dtype::F32, 1500, 52),
       "u32 = transpose(7, 11; merge(9, 23; literal(rans), literal(packed)))", 1},
      {tensor, random_bytes(300, 53), "u8 = transpose(20, 16; literal(raw))", 2},
  };
}

// Entries that are numbered one by one, and text without numbers.
std::vector<PackPart> text_parts() {
  std::string counted = "{", plain;
  for (unsigned i = 0; i < 700; ++i) {
    counted += "\"" + std::string(1 + i * 7 % 5, static_cast<char>('a' + i * 11 % 26)) + std::to_string(i * 31 % 90) +
               "\": " + std::to_string(i < 400 ? 90 + i : 999'999'400 + i) + (i % 50 == 0 ? ",\n" : ", ");
    plain += std::string(1 + i * 5 % 9, static_cast<char>('a' + i * 13 % 26)) + ' ';
  }
  const auto bytes = [](const std::string& s) { return ByteVector(s.begin(), s.end()); };
  ByteVector every = random_bytes(300, 71);  // no byte is left for a marker
  for (unsigned i = 0; i < 256; ++i) every.push_back(static_cast<uint8_t>(i));
  return {
      {opaque, bytes(counted), "u8 = literal(text)"},
      {opaque, bytes(plain), "u8 = literal(text)"},
      {opaque, every, "u8 = literal(text)"},
      {opaque, bytes("7"), "u8 = literal(text)"},
  };
}

std::vector<PackPart> bundle_parts() {
  std::vector<PackPart> parts = {{prefix, random_bytes(12, 20), "u8 = literal(zstd)"}};
  for (uint32_t i = 0; i < 40; ++i)
    parts.push_back(
        {tensor, gaussian_words(Dtype::F32, 1 + i % 9, 21 + i), "u32 = literal(packed)", 39 - i, int(i % 3)});
  parts.push_back({opaque, random_bytes(5, 61)});
  return parts;
}

// The first golden's bytes are what the second one's bases give: equal, as a difference in each way, and patched.
std::vector<PackPart> base_parts() {
  return {{prefix, random_bytes(40, 60), "u8 = literal(raw)"},
          {tensor, gaussian_words(Dtype::BF16, 3000, 61), "u16 = literal(zstd)", 0},
          {tensor, gaussian_words(Dtype::F32, 1500, 62), "u32 = literal(raw)", 1}};
}

std::vector<PackPart> on_base_parts() {
  const ByteVector base = joined(base_parts());
  const auto part = [&](uint64_t at, uint64_t n) {
    return ByteVector(base.begin() + static_cast<ptrdiff_t>(at), base.begin() + static_cast<ptrdiff_t>(at + n));
  };
  const auto moved = [&](uint64_t at, uint64_t n, unsigned lane, uint64_t seed) {
    ByteVector bytes = part(at, n);
    const ByteVector noise = random_bytes(n, seed);
    for (size_t i = 0; i < n; i += lane) bytes[i] = static_cast<uint8_t>(bytes[i] + noise[i] % 9);
    return bytes;
  };
  ByteVector patched = part(6040, 6000);
  for (size_t i = 40; i < patched.size(); i += 900) patched[i] ^= 0x81;
  const ByteVector equal = part(6040, 2000), head = part(40, 100);
  ByteVector joint = head;
  joint.insert(joint.end(), equal.begin(), equal.end());
  std::vector<PackPart> parts = {{prefix, random_bytes(40, 63), "u8 = literal(raw)"}};
  const char* const ways[] = {"order", "xor", "add", "sub"};
  for (uint32_t i = 0; i < 4; ++i) {
    const std::string way = ways[i];
    parts.push_back({tensor,
                     moved(40, 6000, 2, 64 + i),
                     "u16 = combine(" + way + "; map(zigzag, 0; literal(packed)), base)",
                     i,
                     -1,
                     {{0, {40, 6000}}},
                     part(40, 6000)});
  }
  parts.push_back({tensor,
                   patched,
                   "u32 = patch(base, literal(packed), literal(raw))",
                   4,
                   -1,
                   {{0, {6040, 6000}}},
                   part(6040, 6000)});
  parts.push_back({tensor, joint, "u16 = base", 5, -1, {{0, {40, 100}}, {0, {6040, 2000}}}, {}});
  return parts;
}

// Steps dealt by fields of the base's words, in each way.
std::vector<PackPart> updated_parts() {
  const ByteVector base = joined(base_parts());
  const auto part = [&](uint64_t at, uint64_t n) {
    return ByteVector(base.begin() + static_cast<ptrdiff_t>(at), base.begin() + static_cast<ptrdiff_t>(at + n));
  };
  std::vector<PackPart> parts = {{prefix, random_bytes(40, 73), "u8 = literal(raw)"}};
  const char* const fields[] = {"order, 7, 8", "xor, 5, 10", "add, 0, 16", "sub, 9, 2"};
  for (uint32_t i = 0; i < 4; ++i) {
    ByteVector bytes = part(40, 6000);
    const ByteVector noise = random_bytes(6000, 74 + i);
    for (size_t at = 0; at < bytes.size(); at += 2) bytes[at] = static_cast<uint8_t>(bytes[at] + noise[at] % 9);
    parts.push_back({tensor,
                     bytes,
                     std::string("u16 = update(") + fields[i] +
                         "; base, literal(packed), literal(zstd), merge(12, 4; literal(packed), literal(packed)), "
                         "literal(sparse))",
                     i,
                     -1,
                     {{0, {40, 6000}}},
                     part(40, 6000)});
  }
  ByteVector wide = part(6040, 6000);
  for (size_t at = 0; at < wide.size(); at += 4) wide[at] ^= static_cast<uint8_t>(at % 7);
  parts.push_back(
      {tensor,
       wide,
       "u32 = update(order, 23, 8; base, literal(packed), literal(packed), literal(packed), literal(packed))",
       4,
       -1,
       {{0, {6040, 6000}}},
       part(6040, 6000)});
  return parts;
}

}  // namespace

std::vector<Golden> goldens() {
  return {
      {"empty", {}},
      {"opaque", {{opaque, random_bytes(1000, 31)}}},
      {"codecs", codec_parts()},
      {"operators", operator_parts()},
      {"offset", offset_parts()},
      {"transpose", transpose_parts()},
      {"dealt", dealt_parts()},
      {"levels", levels_parts()},
      {"dequantise", dequantise_parts()},
      {"bundles", bundle_parts()},
      {"text", text_parts()},
      {"table_sets", codec_parts(), true},
      {"base", base_parts()},
      {"on_base", on_base_parts(), false, "base"},
      {"updated", updated_parts(), false, "base"},
  };
}

}  // namespace brevis::test
