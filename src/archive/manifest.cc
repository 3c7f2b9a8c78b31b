// SPDX-License-Identifier: Apache-2.0
//
// Look-ups in a manifest, and the writing side of the index. What stands where and why: docs/format.md, "The index".
// Fields of a kind stand together (columns), so that zstd sees their repetition and digests, which have none, do not
// come between.
#include "archive/manifest.h"

#include <algorithm>

#include "archive/format.h"
#include "archive/index_model.h"
#include "base/coding.h"
#include "dsl/wire.h"

namespace brevis::archive {

namespace {

void add_section(ByteVector& out, Section tag, const ByteVector& body) {
  ByteWriter writer(out);
  writer.varint(static_cast<uint64_t>(tag));
  writer.varint(body.size());
  writer.bytes(body);
}

void write_blob(ByteWriter& out, ByteSpan bytes) {
  out.varint(bytes.size());
  out.bytes(bytes);
}

ByteSpan bytes_of(const std::string& text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }

ByteVector provenance_section(const Manifest& manifest) {
  ByteVector body;
  ByteWriter out(body);
  out.varint(manifest.provenance.size());
  for (const auto& [key, value] : manifest.provenance) {
    write_blob(out, bytes_of(key));
    write_blob(out, bytes_of(value));
  }
  return body;
}

ByteVector programs_section(const Manifest& manifest) {
  ByteVector body;
  ByteWriter(body).varint(manifest.programs.size());
  for (const auto& program : manifest.programs) dsl::write_program(*program, body);
  return body;
}

ByteVector tables_section(const Manifest& manifest) {
  ByteVector body;
  ByteWriter out(body);
  out.varint(manifest.tables.size());
  for (const ByteVector& table : manifest.tables) out.varint(table.size());
  for (const ByteVector& table : manifest.tables) out.bytes(table);
  return body;
}

ByteVector records_section(const Manifest& manifest) {
  ByteVector body;
  ByteWriter out(body);
  out.varint(manifest.records.size());
  for (const Record& record : manifest.records) out.varint(uint64_t{record.program} << 1 | (record.bundle ? 1 : 0));
  for (const Record& record : manifest.records) out.varint(record.words);
  for (const Record& record : manifest.records)
    for (const uint64_t words : record.frame_words) out.varint(words);
  // Most tables belong to one record and are numbered as they come: against the one before, they are all 1.
  uint64_t last = 0;
  for (const Record& record : manifest.records) {
    for (const Binding& binding : record.bindings) {
      out.varint(binding.size() - 1);
      for (const uint32_t table : binding) {
        out.varint(zigzag(table - last));
        last = table;
      }
    }
  }
  for (const Record& record : manifest.records) {
    out.fixed(record.digest.low);
    out.fixed(record.digest.high);
  }
  return body;
}

ByteVector segments_section(const Manifest& manifest) {
  ByteVector tags, places, lengths, ordinals;
  ByteWriter place_out(places), length_out(lengths), ordinal_out(ordinals);
  PlaceCursor cursor;
  uint64_t ordinal = 0;
  for (const Segment& segment : manifest.segments) {
    const Placement placement = cursor.placement_of(segment);
    tags.push_back(static_cast<uint8_t>(static_cast<uint8_t>(placement) << 2 | static_cast<uint8_t>(segment.kind)));
    if (placement == Placement::explicitly) {
      place_out.varint(segment.record);
      place_out.varint(segment.record_offset);
    }
    if (segment.length != 0 && manifest.records[segment.record].bundle) length_out.varint(segment.length);
    if (segment.kind == SegmentKind::tensor) {
      ordinal_out.varint(zigzag(segment.ordinal - ordinal));
      ordinal = uint64_t{segment.ordinal} + 1;
    }
    cursor.advance(segment);
  }
  ByteVector body;
  ByteWriter out(body);
  out.varint(manifest.segments.size());
  for (const ByteVector* column : {&tags, &places, &lengths, &ordinals}) out.bytes(*column);
  return body;
}

ByteVector frames_section(const Manifest& manifest) {
  ByteVector body;
  ByteWriter out(body);
  out.varint(manifest.frames.size());
  for (const FrameEntry& frame : manifest.frames) out.varint(frame.length);
  for (const FrameEntry& frame : manifest.frames) out.fixed(frame.checksum);
  return body;
}

// Spans mostly follow each other, and the last of a stream ends with it: its length need not be said.
void write_spans(ByteWriter& out, const std::vector<BaseSpan>& spans, uint64_t& expected) {
  out.varint(spans.size());
  for (size_t i = 0; i < spans.size(); ++i) {
    out.varint(spans[i].base);
    out.varint(zigzag(spans[i].range.offset - expected));
    if (i + 1 < spans.size()) out.varint(spans[i].range.length);
    expected = spans[i].range.end();
  }
}

ByteVector bases_section(const Manifest& manifest) {
  ByteVector body;
  ByteWriter out(body);
  out.varint(manifest.bases.size());
  for (const Base& base : manifest.bases) {
    out.fixed(base.id.low);
    out.fixed(base.id.high);
    out.varint(base.original_size);
    out.varint(base.depth);
    write_blob(out, bytes_of(base.hint));
  }
  uint64_t expected = 0;
  for (const Record& record : manifest.records)
    for (const auto& spans : record.bases) write_spans(out, spans, expected);
  return body;
}

}  // namespace

ByteVector encode_manifest(const Manifest& manifest) {
  ByteVector out;
  add_section(out, Section::provenance, provenance_section(manifest));
  add_section(out, Section::programs, programs_section(manifest));
  add_section(out, Section::tables, tables_section(manifest));
  add_section(out, Section::records, records_section(manifest));
  add_section(out, Section::segments, segments_section(manifest));
  add_section(out, Section::frames, frames_section(manifest));
  ByteVector digest;
  if (manifest.sha256) digest.assign(manifest.sha256->begin(), manifest.sha256->end());
  add_section(out, Section::digest, digest);
  if (!manifest.bases.empty()) add_section(out, Section::bases, bases_section(manifest));
  return out;
}

uint64_t Manifest::frames_of(const Record& record) const {
  uint64_t frames_sum = 0;
  for (size_t region = 0; region < record.region_words.size(); ++region) frames_sum += record.frames_of(region);
  return frames_sum;
}

uint64_t Manifest::stored_bytes_of(const Record& record) const {
  if (record.first_frame.empty()) return 0;
  const uint64_t first = record.first_frame.front(), count = frames_of(record);
  if (count == 0) return 0;
  const FrameEntry& last = frames[first + count - 1];
  return last.offset + last.length - frames[first].offset;
}

std::pair<uint32_t, uint32_t> Manifest::owner_of_frame(uint64_t frame) const {
  // First record with a region that starts beyond the frame; records without regions carry no number, so they are
  // searched around.
  size_t low = 0, high = records.size();
  const auto starts_after = [&](size_t index) {
    while (index < records.size() && records[index].first_frame.empty()) ++index;
    return index == records.size() || records[index].first_frame.front() > frame;
  };
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (starts_after(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  while (low > 0) {
    const Record& record = records[--low];
    for (size_t region = record.region_words.size(); region-- > 0;) {
      if (record.first_frame[region] <= frame && frame - record.first_frame[region] < record.frames_of(region))
        return {static_cast<uint32_t>(low), static_cast<uint32_t>(region)};
    }
  }
  return {0, 0};
}

uint32_t Manifest::features() const {
  uint32_t features = 0;
  for (const auto& program : programs) features |= program->features();
  return features;
}

bool Manifest::uses_ref() const {
  return std::any_of(programs.begin(), programs.end(), [](const auto& program) { return program->uses_ref(); });
}

uint32_t Manifest::depth() const {
  uint32_t depth = 0;
  for (const Base& base : bases) depth = std::max(depth, base.depth + 1);
  return depth;
}

size_t Manifest::segment_at(uint64_t offset) const {
  const auto after = std::upper_bound(segments.begin(), segments.end(), offset,
                                      [](uint64_t at, const Segment& segment) { return at < segment.offset; });
  // Empty segments at the same offset stand before the one that holds the byte.
  return static_cast<size_t>(after - segments.begin()) - 1;
}

uint64_t Manifest::memory() const {
  constexpr uint64_t kBlock = 32;  // what the heap adds to an allocation, generously
  uint64_t sum = sizeof(Manifest);
  for (const auto& [key, value] : provenance) sum += key.size() + value.size() + 4 * kBlock;
  for (const auto& program : programs) {
    sum += sizeof(dsl::Program) + kBlock;
    for (const dsl::Node& node : program->nodes())
      sum += sizeof(dsl::Node) + 2 * kBlock + 8 * node.params.size() + 4 * node.children.size();
    sum += program->slots().size() * sizeof(dsl::Slot) + program->regions().size() * sizeof(dsl::Region);
  }
  for (const ByteVector& table : tables) sum += sizeof(ByteVector) + kBlock + table.size();
  for (const Record& record : records) {
    sum += sizeof(Record) + record.bindings.size() * (sizeof(Binding) + kBlock) + 3 * kBlock;
    for (const auto& spans : record.bases) sum += sizeof(spans) + kBlock + spans.size() * sizeof(BaseSpan);
    sum += 8 * (record.frame_words.size() + record.region_words.size() + record.first_frame.size());
  }
  for (const Base& base : bases) sum += sizeof(Base) + base.hint.size() + kBlock;
  return sum + segments.size() * sizeof(Segment) + frames.size() * sizeof(FrameEntry);
}

void base_spans_of(const Record& record, uint32_t number, Range range, std::vector<BaseSpan>& out) {
  uint64_t at = 0;  // of a span in the node's stream
  for (const BaseSpan& span : record.bases[number]) {
    const uint64_t from = std::max(at, range.offset), to = std::min(at + span.range.length, range.end());
    if (from < to) out.push_back({span.base, {span.range.offset + (from - at), to - from}});
    at += span.range.length;
    if (at >= range.end()) return;
  }
}

}  // namespace brevis::archive
