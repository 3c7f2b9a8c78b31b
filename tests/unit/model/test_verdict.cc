// SPDX-License-Identifier: Apache-2.0
//
// From entries and file size to a verdict: the layout rules, truncation, sane tensors, limits, and hostile headers.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <random>

#include "brevis/model.h"
#include "model/safetensors.h"
#include "support/safetensors_writer.h"
#include "support/temp_dir.h"

using namespace brevis;
using test::safetensors_bytes;
using test::safetensors_raw;

namespace {

Verdict examine(const ByteVector& file, uint64_t file_size) {
  uint64_t header = 0;
  if (file.size() >= 8) std::memcpy(&header, file.data(), 8);
  const size_t prefix = file.size() < 8 || header > file.size() - 8 ? file.size() : 8 + header;
  return examine_prefix(ByteSpan(file).first(prefix), file_size);
}
Verdict examine(const ByteVector& file) { return examine(file, file.size()); }
// A file whose data is not there: only its size counts.
Verdict examine(const std::string& header, uint64_t data = 0) {
  return examine(safetensors_raw(header), 8 + header.size() + data);
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape, uint64_t begin,
                  uint64_t end) {
  std::string out = "\"";
  out.append(name).append("\":{\"dtype\":\"").append(dtype).append("\",\"shape\":").append(shape);
  out.append(",\"data_offsets\":[").append(std::to_string(begin)).append(",").append(std::to_string(end));
  return out.append("]}");
}

std::string header(std::initializer_list<std::string> entries) {
  std::string out = "{";
  for (const std::string& e : entries) {
    if (out.size() > 1) out += ',';
    out += e;
  }
  out += '}';
  return out;
}

std::string names(const Verdict& verdict) {
  std::string out;
  for (const TensorInfo& tensor : verdict.tensors) {
    if (!out.empty()) out += ' ';
    out += tensor.name;
  }
  return out;
}

}  // namespace

TEST_CASE("layout: what is broken first in the data is named, with its place in the file") {
  struct Case {
    std::string header;
    uint64_t data;
    const char* rule;
    uint64_t at;  // data byte
    const char* sane;
  };
  const Case cases[] = {
      {header({entry("a", "U8", "[4]", 0, 4), entry("b", "U8", "[4]", 8, 12)}), 12,
       "tensor 'b': begins at data byte 8, but the one before it ends at 4 (hole)", 8, "a b"},
      {header({entry("a", "U8", "[4]", 1, 5)}), 5, "(hole)", 1, "a"},
      {header({entry("a", "U8", "[4]", 0, 4), entry("b", "U8", "[4]", 2, 6)}), 6,
       "tensor 'b': begins at data byte 2, but the one before it ends at 4 (overlap)", 2, ""},
      {header({entry("a", "U8", "[4]", 0, 4), entry("b", "U8", "[4]", 0, 4), entry("c", "U8", "[1]", 4, 5)}), 5,
       "(overlap)", 0, "c"},
      {header({entry("a", "U8", "[4]", 4, 0)}), 4, "ends at data byte 0, before it begins at 4", 0, ""},
      {header({entry("a", "F32", "[2]", 0, 4)}), 4, "shape [2] of F32 takes 8 bytes, its offsets span 4", 0, ""},
      {header({entry("a", "F4", "[3]", 0, 2)}), 2, "does not fill whole bytes", 0, ""},
      {header({entry("a", "U8", "[9223372036854775808,4,0]", 0, 0)}), 0, "more than 64 bits can count", 0, ""},
      {header({entry("a", "F64", "[4611686018427387904]", 0, 0)}), 0, "more than 64 bits can count", 0, ""},
      {header({entry("a", "U8", "[4]", 0, 4), entry("e", "U8", "[0]", 2, 2)}), 4, "(overlap)", 2, "a"},
      {header({entry("a", "U8", "[9]", 0, 9), entry("b", "U8", "[1]", 2, 3), entry("c", "U8", "[2]", 4, 6),
               entry("d", "U8", "[1]", 9, 10)}),
       10, "(overlap)", 2, "d"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.header);
    const Verdict verdict = examine(c.header, c.data);
    CHECK(verdict.kind == VerdictKind::lenient);
    CHECK_MESSAGE(contains(verdict.reason, c.rule), verdict.reason);
    CHECK(verdict.reason_offset == 8 + c.header.size() + c.at);
    CHECK(names(verdict) == c.sane);
  }
}

TEST_CASE("F08: empty tensors, several at one offset and at the end") {
  const std::string text =
      header({entry("a", "F32", "[0]", 0, 0), entry("b", "F32", "[2,0]", 0, 0), entry("c", "F32", "[0,5]", 0, 0),
              entry("d", "U8", "[4]", 0, 4), entry("e", "F8_E4M3", "[0]", 4, 4), entry("f", "I64", "[3,0]", 4, 4)});
  const Verdict verdict = examine(text, 4);
  CHECK(verdict.kind == VerdictKind::valid);
  CHECK(names(verdict) == "a b c d e f");
  for (const TensorInfo& tensor : verdict.tensors) CHECK(tensor.span.length == (tensor.name == "d" ? 4 : 0));
  CHECK(verdict.tensors[5].span.offset == 8 + text.size() + 4);
}

TEST_CASE("F09: a scalar has no dimensions and one element") {
  const Verdict verdict = examine(header({entry("s", "I32", "[]", 0, 4)}), 4);
  CHECK(verdict.kind == VerdictKind::valid);
  REQUIRE(verdict.tensors.size() == 1);
  CHECK(verdict.tensors[0].shape.empty());
  CHECK(verdict.tensors[0].span.length == 4);
}

TEST_CASE("F10: tensors in any order") {
  const std::string text =
      header({entry("e", "U8", "[5]", 10, 15), entry("d", "U8", "[4]", 6, 10), entry("c", "U8", "[3]", 3, 6),
              entry("b", "U8", "[2]", 1, 3), entry("a", "U8", "[1]", 0, 1)});
  const Verdict verdict = examine(text, 15);
  CHECK(verdict.kind == VerdictKind::valid);
  CHECK(names(verdict) == "a b c d e");
  CHECK(verdict.tensors[0].ordinal == 4);
  CHECK(verdict.tensors[4].ordinal == 0);
}

TEST_CASE("F12: stray bytes after the last tensor") {
  ByteVector file = safetensors_bytes({test::flat_tensor("a", Dtype::U8, ByteVector(10))});
  CHECK(examine(file).kind == VerdictKind::valid);
  const uint64_t end = file.size();
  file.insert(file.end(), {0x09, 0x07, 0x2f, 0x00});
  const Verdict verdict = examine(file);
  CHECK(verdict.kind == VerdictKind::lenient);
  CHECK(verdict.reason == "4 trailing bytes after the last tensor's end");
  CHECK(verdict.reason_offset == end);
  CHECK(verdict.trailing_bytes == 4);
  CHECK(names(verdict) == "a");
  CHECK(examine("{}", 1).reason == "1 trailing byte after the last tensor's end");
}

TEST_CASE("F13: a file cut anywhere says how much is missing") {
  const ByteVector whole = safetensors_bytes({test::flat_tensor("first", Dtype::BF16, ByteVector(20, 1)),
                                              test::flat_tensor("second", Dtype::U8, ByteVector(11, 2))},
                                             {{"format", "pt"}}, 1);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, whole.data(), 8);
  const uint64_t data_start = 8 + header_bytes;
  CHECK(examine(whole).kind == VerdictKind::valid);
  for (size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    const Verdict verdict = examine(ByteVector(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)));
    if (size < 8) {
      CHECK(verdict.kind == VerdictKind::not_safetensors);
      CHECK(contains(verdict.reason, "too short"));
      continue;
    }
    CHECK(verdict.kind == VerdictKind::truncated);
    const uint64_t missing = (size < data_start ? data_start : whole.size()) - size;
    CHECK(verdict.missing_bytes == missing);
    CHECK(contains(verdict.reason, "file is " + std::to_string(missing) + " byte"));
    CHECK(contains(verdict.reason, "short of what its header declares"));
    CHECK(verdict.prefix_bytes == (size < data_start ? 0 : data_start));
    CHECK(names(verdict) == (size >= data_start + 20 ? "first" : ""));
  }
}

TEST_CASE("F13: a cut file that could not have been safetensors is not called truncated") {
  ByteVector file = safetensors_raw(R"({"a":01)");
  file[0] = 200;
  CHECK(examine(file).kind == VerdictKind::not_safetensors);
  file = safetensors_raw("\x80\x02}q");
  file[0] = 200;
  CHECK(examine(file).kind == VerdictKind::not_safetensors);
}

TEST_CASE("truncated comes before lenient") {
  const Verdict verdict = examine(header({entry("a", "Q9", "[4]", 0, 4), entry("b", "U8", "[4]", 6, 10)}), 8);
  CHECK(verdict.kind == VerdictKind::truncated);
  CHECK(verdict.missing_bytes == 2);
  CHECK(names(verdict) == "a");
}

TEST_CASE("F14: nothing needs to be aligned") {
  const std::string text = header({entry("a", "U8", "[3]", 0, 3), entry("b", "F32", "[2]", 3, 11)});
  for (size_t pad = 0; pad < 8; ++pad) {
    const Verdict verdict = examine(text + std::string(pad, ' '), 11);
    CHECK(verdict.kind == VerdictKind::valid);
    CHECK(verdict.tensors[1].span.offset == 8 + text.size() + pad + 3);
  }
}

TEST_CASE("F16: unknown dtypes are bounds-checked like all others") {
  const uint64_t huge = UINT64_MAX;
  for (const auto& [begin, end] : {std::pair<uint64_t, uint64_t>{huge - 8, huge},
                                   {0, huge},
                                   {huge, huge},
                                   {huge, 4},
                                   {huge / 2 + 1, huge / 2 + 9}}) {
    const Verdict verdict = examine(header({entry("q", "Q9", "[4]", begin, end), entry("b", "U8", "[4]", 0, 4)}), 4);
    CHECK(verdict.kind == VerdictKind::lenient);
    CHECK(contains(verdict.reason, "unknown dtype 'Q9'"));
    CHECK(names(verdict) == (begin == 0 ? "" : "b"));
  }
  CHECK(examine(header({entry("q", "Q9", "[4]", 0, 1000)}), 4).kind == VerdictKind::truncated);
}

TEST_CASE("F17, F18: offsets that do not fit the shape are no tensor") {
  for (const char* shape : {"[1024,1024]", "[0]", "[2]", "[]"}) {
    const Verdict verdict = examine(header({entry("a", "F16", shape, 0, 8), entry("b", "F16", "[4]", 8, 16)}), 16);
    CHECK(verdict.kind == VerdictKind::lenient);
    CHECK(contains(verdict.reason, "its offsets span 8"));
    CHECK(names(verdict) == "b");
  }
}

TEST_CASE("F20: every dtype of the table, at its width") {
  CHECK(all_dtypes().size() == 22);
  for (const DtypeInfo& dtype : all_dtypes()) {
    CAPTURE(dtype.name);
    const uint64_t bytes = dtype.bits;  // of 8 elements
    const Verdict verdict = examine(header({entry("a", std::string(dtype.name), "[2,4]", 0, bytes)}), bytes);
    CHECK(verdict.kind == VerdictKind::valid);
    CHECK(verdict.tensors.at(0).dtype == dtype.id);
    CHECK(verdict.tensors.at(0).dtype_name == dtype.name);
    CHECK(examine(header({entry("a", std::string(dtype.name), "[2,4]", 0, bytes + 1)}), bytes + 1).kind ==
          VerdictKind::lenient);
  }
}

TEST_CASE("F21: an unknown dtype with sane offsets is a tensor of bytes") {
  const Verdict verdict = examine(header({entry("a", "F9_NEW", "[7]", 0, 5), entry("b", "U8", "[1]", 5, 6)}), 6);
  CHECK(verdict.kind == VerdictKind::lenient);
  CHECK(contains(verdict.reason, "tensor 'a': unknown dtype 'F9_NEW', treated as bytes"));
  CHECK(names(verdict) == "a b");
  CHECK(verdict.tensors[0].dtype == Dtype::unknown);
  CHECK(verdict.tensors[0].dtype_name == "F9_NEW");
}

TEST_CASE("F01: the limits of a header's length") {
  // Spaces after the object: as cheap to scan as a header can be.
  const auto padded = [](uint64_t size) {
    ByteVector file(8 + size, ' ');
    std::memcpy(file.data(), &size, 8);
    file[8] = '{';
    file[9] = '}';
    return file;
  };
  CHECK(examine(padded(100'000'000)).kind == VerdictKind::valid);
  const Verdict above = examine(padded(100'000'001));
  CHECK(above.kind == VerdictKind::lenient);
  CHECK(above.reason == "header of 100000001 bytes is above the limit of 100000000");
  CHECK(above.prefix_bytes == 100'000'009);
  ByteVector beyond = padded(64);
  for (const uint64_t size : {model::kMaxReadHeader + 1, UINT64_MAX, uint64_t{1} << 63}) {
    std::memcpy(beyond.data(), &size, 8);
    const Verdict verdict = examine(beyond);
    CHECK(verdict.kind == VerdictKind::not_safetensors);
    CHECK(contains(verdict.reason, std::to_string(size)));
  }
}

TEST_CASE("F25: time grows with the number of tensors, not with its square") {
  const auto text_of = [](size_t count) {
    std::string text = "{";
    for (size_t i = 0; i < count; ++i) {
      if (i != 0) text += ',';
      text += entry("model.layers." + std::to_string(i) + ".weight", "F32", "[16,16]", i * 1024, (i + 1) * 1024);
    }
    text += '}';
    return text;
  };
  const auto seconds = [&](size_t count) {
    const std::string text = text_of(count);
    double best = 1e9;
    for (int run = 0; run < 3; ++run) {
      const auto start = std::chrono::steady_clock::now();
      const Verdict verdict = examine(text, count * 1024);
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      CHECK(verdict.kind == VerdictKind::valid);
      CHECK(verdict.tensors.size() == count);
    }
    return best;
  };
  const double small = seconds(12'500), large = seconds(100'000);
  MESSAGE("100,000 tensors: ", large, " s");
  CHECK(large < 20 * small + 0.05);  // 8 times as many
}

TEST_CASE("F25: a hundred thousand times the same name") {
  std::string text = "{";
  for (size_t i = 0; i < 100'000; ++i) text += entry("same", "U8", "[0]", 0, 0) + ",";
  text.back() = '}';
  const Verdict verdict = examine(text);
  CHECK(contains(verdict.reason, "tensor 'same': duplicate name"));
  CHECK(verdict.tensors.empty());
}

TEST_CASE("F27: offsets beyond 2^31 and 2^32, in a sparse file") {
  const uint64_t big = uint64_t{6} << 30, word = uint64_t{1} << 32;
  const std::string text = header({entry("big", "F32", "[" + std::to_string(big / 4) + "]", 0, big),
                                   entry("tail", "U8", "[" + std::to_string(word + 3) + "]", big, big + word + 3)});
  const test::TempDir dir;
  const std::string path = dir / "sparse.safetensors";
  test::write_file(path, safetensors_raw(text));
  REQUIRE(::truncate(path.c_str(), static_cast<off_t>(8 + text.size() + big + word + 3)) == 0);
  const auto verdict = examine_file(path);
  REQUIRE(verdict);
  CHECK(verdict->kind == VerdictKind::valid);
  REQUIRE(verdict->tensors.size() == 2);
  CHECK(verdict->tensors[1].span == Range{8 + text.size() + big, word + 3});
}

TEST_CASE("examine_file: missing files and directories are errors, anything readable has a verdict") {
  const test::TempDir dir;
  const auto missing = examine_file(dir / "none");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().kind() == Errc::not_found);
  CHECK(contains(missing.error().message(), "none"));
  CHECK_FALSE(examine_file(dir.path()));
  test::write_file(dir / "empty", "");
  const auto empty = examine_file(dir / "empty");
  REQUIRE(empty);
  CHECK(empty->kind == VerdictKind::not_safetensors);
  CHECK(empty->looks_like == "empty file");
  // A header longer than the first look.
  const ByteVector file =
      safetensors_bytes({test::flat_tensor("a", Dtype::U8, ByteVector(9))}, {{"pad", std::string(9000, 'x')}});
  test::write_file(dir / "long", file);
  const auto verdict = examine_file(dir / "long");
  REQUIRE(verdict);
  CHECK(verdict->kind == VerdictKind::valid);
  CHECK(verdict->tensors.size() == 1);
}

TEST_CASE("a prefix that is too short is no crash") {
  const ByteVector file = safetensors_bytes({test::flat_tensor("a", Dtype::U8, ByteVector(9))});
  for (size_t size = 0; size < 40; ++size)
    CHECK(examine_prefix(ByteSpan(file).first(size), file.size()).kind == VerdictKind::not_safetensors);
}

TEST_CASE("hostile: what a verdict says is always inside the file, whatever the header") {
  const ByteVector good = safetensors_bytes(test::mixed_model(7, 1), {{"format", "pt"}});
  std::mt19937_64 random(11);
  const std::string_view pieces[] = {"{",
                                     "}",
                                     "[",
                                     "]",
                                     ",",
                                     ":",
                                     "\"",
                                     "\\u",
                                     "-",
                                     "e9",
                                     "0",
                                     "18446744073709551615",
                                     "\"a\"",
                                     "null",
                                     "__metadata__",
                                     "data_offsets",
                                     "\xff",
                                     "[[[[",
                                     "\\ud800"};
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, good.data(), 8);
  int kinds[4] = {};
  for (int round = 0; round < 20'000; ++round) {
    ByteVector file = good;
    const size_t edits = 1 + random() % 3;
    for (size_t i = 0; i < edits; ++i) {
      const size_t at = random() % (8 + header_bytes);
      switch (random() % 4) {
        case 0: file[at] = static_cast<uint8_t>(random()); break;
        case 1: file[at] ^= static_cast<uint8_t>(1u << random() % 8); break;
        case 2: {
          const std::string_view piece = pieces[random() % std::size(pieces)];
          std::memcpy(file.data() + at, piece.data(), std::min(piece.size(), file.size() - at));
          break;
        }
        default: file.resize(file.size() - std::min<size_t>(file.size(), random() % 64));
      }
      if (file.size() < 8 + header_bytes) break;
    }
    const Verdict verdict = examine(file);
    ++kinds[static_cast<int>(verdict.kind)];
    CHECK((verdict.kind == VerdictKind::valid) == verdict.reason.empty());
    REQUIRE(verdict.prefix_bytes <= file.size());
    uint64_t at = verdict.prefix_bytes;
    for (const TensorInfo& tensor : verdict.tensors) {
      REQUIRE(tensor.span.offset >= at);
      REQUIRE(tensor.span.length <= file.size() - tensor.span.offset);
      at = tensor.span.end();
    }
  }
  for (const int count : kinds) CHECK(count > 0);
}
