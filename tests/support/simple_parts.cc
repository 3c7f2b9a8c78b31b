// SPDX-License-Identifier: Apache-2.0
//
// The part of simple_pack.h that reads a safetensors header: apart, since tests of the archive link no model layer.
#include <algorithm>

#include "brevis/model.h"
#include "dsl/plan.h"
#include "dsl/text.h"
#include "support/simple_pack.h"

namespace brevis::test {

namespace {

bool expresses(const std::string& text, ByteSpan bytes) {
  auto program = dsl::parse_program(text);
  if (!program || bytes.size() % (program->width() / 8) != 0) return false;
  if (program->regions().empty()) {
    std::vector<dsl::Piece> pieces;
    const uint64_t words = bytes.size() / (program->width() / 8);
    if (!dsl::plan(*program, words, {}, {0, bytes.size()}, pieces) || pieces.size() != 1) return false;
    ByteVector out(bytes.size());
    dsl::run_fill(pieces[0], out);
    return std::equal(out.begin(), out.end(), bytes.begin());
  }
  return true;
}

}  // namespace

std::vector<PackPart> parts_of(ByteSpan file, size_t bundle_up_to) {
  const Verdict verdict = examine_prefix(file, file.size());
  std::vector<PackPart> parts;
  if (verdict.prefix_bytes == 0) {
    if (!file.empty()) parts.push_back({archive::SegmentKind::opaque, {file.begin(), file.end()}});
    return parts;
  }
  const ByteSpan prefix = file.first(verdict.prefix_bytes);
  parts.push_back({archive::SegmentKind::prefix, {prefix.begin(), prefix.end()}, "u8 = literal(zstd)"});
  uint64_t at = verdict.prefix_bytes;
  const auto opaque_to = [&](uint64_t end) {
    if (end > at) {
      const ByteSpan gap = file.subspan(at, end - at);
      parts.push_back({archive::SegmentKind::opaque, {gap.begin(), gap.end()}});
    }
    at = end;
  };
  for (const TensorInfo& tensor : verdict.tensors) {
    opaque_to(tensor.span.offset);
    const ByteSpan bytes = file.subspan(tensor.span.offset, tensor.span.length);
    const unsigned width = dtype_info(tensor.dtype).word_bits();
    const std::string word = "u" + std::to_string(width) + " = ";
    std::vector<std::string> programs = {word + "constant(0)", word + "constant(5)"};
    if (width == 16 && bytes.size() >= 4000)  // shorter ones may lack distinct words
      programs.push_back(word +
                         "merge(9, 7; rank(7; literal(packed), literal(packed), literal(packed)), "
                         "literal(packed))");
    programs.push_back(word + "literal(zstd)");
    PackPart part{archive::SegmentKind::tensor, {bytes.begin(), bytes.end()}, "", tensor.ordinal};
    if (!bytes.empty() && bytes.size() <= bundle_up_to) {
      part.bundle = static_cast<int>(tensor.dtype);
      part.program = programs.back();
    } else if (!bytes.empty()) {
      part.program =
          *std::find_if(programs.begin(), programs.end(), [&](const auto& text) { return expresses(text, bytes); });
    }
    parts.push_back(std::move(part));
    at = tensor.span.end();
  }
  opaque_to(file.size());
  return parts;
}

}  // namespace brevis::test
