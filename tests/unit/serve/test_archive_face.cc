// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "base/checksum.h"
#include "brevis/archive.h"
#include "support/simple_pack.h"
#include "support/temp_dir.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::test;

namespace {

ByteVector model_file() {
  return safetensors_bytes(
      {flat_tensor("a.weight", Dtype::BF16, gaussian_words(Dtype::BF16, 5000, 1)),
       flat_tensor("a.bias", Dtype::F32, random_bytes(40, 2)), flat_tensor("empty", Dtype::F32, {}),
       flat_tensor("b.bias", Dtype::F32, random_bytes(80, 3)),
       flat_tensor("zero", Dtype::I64, constant_words(64, 1000, 0))},
      {{"format", "pt"}});
}

}  // namespace

TEST_CASE("an archive tells what it holds under the names of its stored header") {
  const TempDir dir;
  const ByteVector file = model_file();
  REQUIRE(simple_pack(dir / "m.safetensors.brv", parts_of(file, 100)));
  const auto archive = Archive::open(dir / "m.safetensors.brv").value();
  CHECK(archive->info().original_size == file.size());
  CHECK(archive->info().archive_size == read_file(dir / "m.safetensors.brv").size());
  CHECK(archive->info().provenance.at("packer") == "test");
  CHECK(archive->info().sha256.has_value());
  const Verdict verdict = archive->verdict().value();
  CHECK(verdict.kind == VerdictKind::valid);
  CHECK(verdict.metadata.at(0).second == "pt");

  const auto spans = archive->spans().value();
  REQUIRE(spans.size() == 6);
  CHECK(spans[0].kind == SpanKind::prefix);
  uint64_t at = 0, packed = 0;
  for (const ArchiveSpan& span : spans) {
    CHECK(span.span.offset == at);
    at = span.span.end();
    packed += span.packed_bytes;
    if (span.span.length == 0 || span.bundled) continue;
    CHECK(span.digest == xxh3_128(ByteSpan(file).subspan(span.span.offset, span.span.length)));
  }
  CHECK(at == file.size());
  CHECK(packed <= archive->info().archive_size);
  const auto span_of = [&](const std::string& name) {
    for (const ArchiveSpan& span : spans)
      if (span.kind == SpanKind::tensor && span.tensor.name == name) return span;
    FAIL("no span of ", name);
    return spans[0];
  };
  CHECK(span_of("a.bias").bundled);
  CHECK(span_of("b.bias").bundled);
  CHECK_FALSE(span_of("a.weight").bundled);
  CHECK(span_of("zero").packed_bytes == 0);
  CHECK(span_of("empty").span.length == 0);
  CHECK(archive->explain(span_of("empty")).value().program.empty());

  const Explanation weight = archive->explain(span_of("a.weight")).value();
  CHECK(weight.program.starts_with("u16 = merge(9, 7; rank("));
  CHECK(weight.words == 5000);
  CHECK(weight.frames == 3);
  REQUIRE(weight.leaves.size() == 4);
  CHECK(weight.leaves[0].path == "merge[0] rank[0] literal(packed)");
  CHECK(weight.leaves[3].path == "merge[1] literal(packed)");
  CHECK(weight.leaves[3].width == 7);
  uint64_t sum = weight.frame_overhead_bytes;
  for (const LeafUse& leaf : weight.leaves) sum += leaf.bytes;
  CHECK(sum == weight.record_bytes);
  CHECK(weight.record_bytes == span_of("a.weight").packed_bytes);
  CHECK(weight.tables.size() == 1);

  ByteVector part(1000);
  CHECK(archive->read({100, 1000}, part));
  CHECK(std::equal(part.begin(), part.end(), file.begin() + 100));
}

TEST_CASE("Z04: a tensor stored once and named twice is shown as a duplicate") {
  const TempDir dir;
  const ByteVector words = random_bytes(6000, 1);
  const ByteVector file = safetensors_bytes({flat_tensor("a", Dtype::U8, words), flat_tensor("b", Dtype::U8, words)});
  auto parts = parts_of(file);
  REQUIRE(parts.size() == 3);
  parts[2].program = "u8 = ref(" + std::to_string(parts[0].bytes.size()) + ")";
  REQUIRE(simple_pack(dir / "m.brv", parts));
  const auto archive = Archive::open(dir / "m.brv").value();
  const auto spans = archive->spans().value();
  CHECK_FALSE(spans[1].duplicate);
  CHECK(spans[2].duplicate);
  CHECK(spans[2].packed_bytes == 0);
  CHECK(spans[1].digest == spans[2].digest);
  CHECK(archive->info().archive_size < 7000);
  ByteVector out(file.size());
  REQUIRE(archive->read({0, file.size()}, out));
  CHECK(out == file);
}

TEST_CASE("a stored header that contradicts the segments is corrupt") {
  const TempDir dir;
  auto parts = parts_of(model_file());
  std::swap(parts[1].ordinal, parts[2].ordinal);
  REQUIRE(simple_pack(dir / "m.brv", parts));
  const auto archive = Archive::open(dir / "m.brv").value();
  CHECK(archive->spans().error().kind() == Errc::corrupt);
}

TEST_CASE("64 bytes tell an archive from other files") {
  const TempDir dir;
  const ByteVector file = model_file();
  REQUIRE(simple_pack(dir / "m.brv", parts_of(file)));
  const auto summary = peek_archive(dir / "m.brv").value();
  REQUIRE(summary);
  CHECK(summary->original_size == file.size());
  write_file(dir / "other", file);
  CHECK_FALSE(peek_archive(dir / "other").value());
  write_file(dir / "nothing", "");
  CHECK_FALSE(peek_archive(dir / "nothing").value());
  CHECK(peek_archive(dir / "absent").error().kind() == Errc::not_found);
  ByteVector damaged = read_file(dir / "m.brv");
  damaged[20] ^= 1;
  write_file(dir / "m.brv", damaged);
  CHECK(peek_archive(dir / "m.brv").error().kind() == Errc::corrupt);
}

TEST_CASE("an archive of something else names what it looks like") {
  const TempDir dir;
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
  REQUIRE(simple_pack(dir / "m.brv", {{archive::SegmentKind::opaque, {pointer.begin(), pointer.end()}}}));
  const Verdict verdict = Archive::open(dir / "m.brv").value()->verdict().value();
  CHECK(verdict.kind == VerdictKind::not_safetensors);
  CHECK(verdict.looks_like.find("LFS") != std::string::npos);
}
