// SPDX-License-Identifier: Apache-2.0
#include "support/simple_pack.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "base/checksum.h"
#include "dsl/encode.h"
#include "dsl/plan.h"
#include "dsl/text.h"
#include "dsl/verify.h"

namespace brevis::test {

namespace {

// The output bytes of every frame, found by planning the whole stream.
struct FrameTarget {
  uint32_t region;
  uint64_t frame;
  bits::OwnedWords words;
};

std::vector<FrameTarget> targets_of(const dsl::Program& program, const archive::Record& record, ByteSpan bytes) {
  std::vector<dsl::Piece> pieces;
  REQUIRE(dsl::plan(program, record.words, record.frame_words, {0, bytes.size()}, pieces));
  std::map<std::pair<uint32_t, uint64_t>, ByteSpan> found;
  for (const dsl::Piece& piece : pieces) {
    if (piece.kind == dsl::Piece::Kind::frame && piece.source == 0)
      found.emplace(std::pair(piece.region, piece.frame), bytes.subspan(piece.at, piece.length));
  }
  std::vector<FrameTarget> targets;
  const unsigned word_bytes = program.width() / 8;
  for (const auto& [place, part] : found) {
    bits::OwnedWords words(program.width(), part.size() / word_bytes);
    std::copy(part.begin(), part.end(), words.words().data);
    targets.push_back({place.first, place.second, std::move(words)});
  }
  return targets;
}

// The base's bytes under a frame of a program that is one region; nothing for programs without a base.
std::vector<ByteSpan> base_part(const PackPart* based, const dsl::Program& program, const archive::Record& record,
                                const FrameTarget& target) {
  if (based == nullptr || program.bases().empty()) return {};
  const uint64_t lane = program.width() / 8, at = target.frame * record.frame_words[target.region] * lane;
  return {ByteSpan(based->base_bytes).subspan(at, target.words.count() * lane)};
}

}  // namespace

uint32_t add_stream(archive::Writer& writer, ByteSpan bytes, const std::string& text, const SimplePackOptions& options,
                    bool bundle, const PackPart* based) {
  auto parsed = dsl::parse_program(text);
  REQUIRE_MESSAGE(parsed, text, parsed ? "" : parsed.error().message());
  const auto program = std::make_shared<const dsl::Program>(std::move(*parsed));
  archive::Record record;
  record.program = writer.add_program(program);
  REQUIRE(bytes.size() % (program->width() / 8) == 0);
  record.words = bytes.size() / (program->width() / 8);
  record.bundle = bundle;
  if (based != nullptr && !program->bases().empty()) record.bases = {based->spans};
  record.digest = options.false_digest ? *options.false_digest : xxh3_128(bytes);
  for (const dsl::Region& region : program->regions())
    record.frame_words.push_back(dsl::default_frame_words(*program, region, options.frame_bytes));
  const std::vector<FrameTarget> targets = targets_of(*program, record, bytes);

  std::vector<std::vector<dsl::SlotTable>> tables(program->slots().size());
  record.bindings.resize(program->slots().size());
  for (uint32_t region = 0; region < program->regions().size(); ++region) {
    std::vector<bits::ConstWords> frames;
    for (const FrameTarget& target : targets)
      if (target.region == region) frames.push_back(target.words.view());
    if (frames.empty()) continue;
    // One training over all frames, or one for each.
    const size_t trainings = options.table_sets ? std::min(frames.size(), dsl::kMaxTableSet) : 1;
    for (size_t training = 0; training < trainings; ++training) {
      const size_t first = options.table_sets ? training : 0, count = options.table_sets ? 1 : frames.size();
      auto trained = dsl::train(*program, region, count, record.frame_words[region],
                                [&](uint64_t frame) -> Result<bits::ConstWords> { return frames[first + frame]; });
      REQUIRE_MESSAGE(trained, text, trained ? "" : trained.error().message());
      REQUIRE_MESSAGE(trained->has_value(), text);
      for (size_t slot = 0; slot < tables.size(); ++slot) {
        if (program->nodes()[program->slots()[slot].node].region != int32_t(region)) continue;
        auto loaded = dsl::load_slot(*program, program->slots()[slot], (**trained)[slot]);
        REQUIRE(loaded);
        tables[slot].push_back(*loaded);
        record.bindings[slot].push_back(writer.add_table((**trained)[slot]));
      }
    }
  }
  if (!program->regions().empty()) {
    auto bound = dsl::BoundProgram::bind(program, tables);
    REQUIRE_MESSAGE(bound, text, bound ? "" : bound.error().message());
    for (const FrameTarget& target : targets) {
      ByteVector stored;
      const std::vector<ByteSpan> base = base_part(based, *program, record, target);
      auto encoded = dsl::encode_frame(**bound, target.region, target.frame * record.frame_words[target.region],
                                       target.words.view(), stored, base);
      REQUIRE_MESSAGE((encoded && *encoded), text, encoded ? "" : encoded.error().message());
      REQUIRE(writer.append_frame(stored));
    }
  }
  return writer.add_record(std::move(record));
}

Result<archive::Writer::Sealed> simple_pack(const std::string& path, const std::vector<PackPart>& parts,
                                            const SimplePackOptions& options) {
  BREVIS_ASSIGN(archive::Writer writer, archive::Writer::create(path, true));
  for (const archive::Base& base : options.bases) writer.add_base(base);
  std::map<int, std::pair<uint32_t, uint64_t>> bundles;  // number -> record, bytes handed out
  for (size_t i = 0; i < parts.size(); ++i) {
    const PackPart& part = parts[i];
    archive::Segment segment{part.kind, 0, part.bytes.size(), part.ordinal, 0, 0};
    if (!part.bytes.empty() && part.bundle < 0) {
      segment.record = add_stream(writer, part.bytes, part.program, options, false, &part);
    } else if (!part.bytes.empty()) {
      if (bundles.count(part.bundle) == 0) {
        ByteVector all;
        for (const PackPart& member : parts)
          if (member.bundle == part.bundle) all.insert(all.end(), member.bytes.begin(), member.bytes.end());
        bundles[part.bundle] = {add_stream(writer, all, part.program, options, true), 0};
      }
      segment.record = bundles[part.bundle].first;
      segment.record_offset = bundles[part.bundle].second;
      bundles[part.bundle].second += part.bytes.size();
    }
    writer.add_segment(segment);
  }
  writer.set_provenance("packer", "test");
  if (options.sha256) {
    Sha256Hasher hasher;
    hasher.update(joined(parts));
    writer.set_sha256(hasher.finish());
  }
  return writer.seal(options.mode, options.mtime_ns, options.mtime_ns);
}

ByteVector joined(const std::vector<PackPart>& parts) {
  ByteVector all;
  for (const PackPart& part : parts) all.insert(all.end(), part.bytes.begin(), part.bytes.end());
  return all;
}

}  // namespace brevis::test
