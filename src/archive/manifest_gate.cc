// SPDX-License-Identifier: Apache-2.0
//
// The gate of the index. Bytes come in that anybody may have written; what goes out is a Manifest in which every number
// is in range of every other. Three habits keep it safe: a count is compared with the bytes that are left before
// anything is reserved for it; sums are formed only of terms already bounded (kMaxOriginalBytes leaves four bits of
// room) or compared against the remainder instead of added; and nothing that was not checked is used as an index.
#include <algorithm>

#include "archive/format.h"
#include "archive/index_model.h"
#include "archive/manifest.h"
#include "base/coding.h"
#include "dsl/exec.h"
#include "dsl/verify.h"
#include "dsl/wire.h"

namespace brevis::archive {

namespace {

Error corrupt(std::string what) { return make_error(Errc::corrupt, std::move(what)); }

// A count of things that take at least `least` bytes each of what is left.
Result<uint64_t> read_count(ByteReader& in, uint64_t least, const char* what) {
  BREVIS_ASSIGN(const uint64_t count, in.varint());
  if (count > in.remaining() / least)
    return corrupt(std::to_string(count) + " " + what + " do not fit into " + std::to_string(in.remaining()) +
                   " bytes");
  return count;
}

// Provenance is shown to people: well-formed UTF-8 without control characters.
bool is_plain_text(ByteSpan text) {
  for (size_t i = 0; i < text.size();) {
    const uint8_t lead = text[i];
    if (lead < 0x20 || lead == 0x7f) return false;
    const unsigned more = lead < 0x80 ? 0 : lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead >= 0x80 && (lead < 0xc2 || lead > 0xf4)) return false;
    if (text.size() - i <= more) return false;
    uint32_t point = more == 0 ? lead : lead & (0x3fu >> more);
    for (unsigned k = 1; k <= more; ++k) {
      if ((text[i + k] & 0xc0) != 0x80) return false;
      point = point << 6 | (text[i + k] & 0x3fu);
    }
    constexpr uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
    if (point < kLeast[more] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return false;
    if (point >= 0x80 && point < 0xa0) return false;
    i += more + 1;
  }
  return true;
}

Result<std::string> read_text(ByteReader& in, uint64_t limit, const char* what) {
  BREVIS_ASSIGN(const uint64_t length, in.varint_up_to(limit, what));
  BREVIS_ASSIGN(const ByteSpan bytes, in.bytes(length));
  if (!is_plain_text(bytes)) return corrupt(std::string(what) + ": not plain UTF-8 text");
  return std::string(bytes.begin(), bytes.end());
}

class Gate {
 public:
  Gate(uint64_t original_size, uint64_t frames_end) : frames_end_(frames_end) {
    manifest_.original_size = original_size;
  }

  Result<Manifest> run(ByteSpan index) {
    ByteReader in(index);
    BREVIS_TRY(section(in, Section::provenance, "provenance", &Gate::read_provenance));
    BREVIS_TRY(section(in, Section::programs, "programs", &Gate::read_programs));
    BREVIS_TRY(section(in, Section::tables, "tables", &Gate::read_tables));
    BREVIS_TRY(section(in, Section::records, "records", &Gate::read_records));
    BREVIS_TRY(section(in, Section::segments, "segments", &Gate::read_segments));
    BREVIS_TRY(section(in, Section::frames, "frames", &Gate::read_frames));
    BREVIS_TRY(section(in, Section::digest, "digest", &Gate::read_digest));
    if (std::any_of(manifest_.programs.begin(), manifest_.programs.end(),
                    [](const auto& program) { return !program->bases().empty(); }))
      BREVIS_TRY(section(in, Section::bases, "bases", &Gate::read_bases));
    if (!in.at_end()) return corrupt("index: " + std::to_string(in.remaining()) + " bytes after the last section");
    if (auto checked = check_refs(); !checked) return std::move(checked).error().within("index, refs");
    return std::move(manifest_);
  }

 private:
  Status section(ByteReader& in, Section tag, const char* name, Status (Gate::*read)(ByteReader&)) {
    const std::string where = std::string("index, section '") + name + "'";
    const auto inner = [&]() -> Status {
      BREVIS_ASSIGN(const uint64_t found, in.varint());
      if (found != static_cast<uint64_t>(tag)) return corrupt("tag " + std::to_string(found) + " stands in its place");
      BREVIS_ASSIGN(const uint64_t length, in.varint());
      BREVIS_ASSIGN(const ByteSpan bytes, in.bytes(length));
      ByteReader body(bytes);
      BREVIS_TRY((this->*read)(body));
      if (!body.at_end()) return corrupt(std::to_string(body.remaining()) + " bytes too many");
      return {};
    };
    auto outcome = inner();
    if (!outcome) return std::move(outcome).error().within(where);
    return {};
  }

  Status read_provenance(ByteReader& in) {
    BREVIS_ASSIGN(const uint64_t count, in.varint_up_to(kMaxProvenance, "number of entries"));
    for (uint64_t i = 0; i < count; ++i) {
      BREVIS_ASSIGN(std::string key, read_text(in, kMaxProvenanceKey, "key"));
      BREVIS_ASSIGN(std::string value, read_text(in, kMaxProvenanceValue, "value"));
      if (!manifest_.provenance.empty() && key <= manifest_.provenance.rbegin()->first)
        return corrupt("key '" + key + "' is out of order");
      manifest_.provenance.emplace(std::move(key), std::move(value));
    }
    return {};
  }

  Status read_programs(ByteReader& in) {
    BREVIS_ASSIGN(const uint64_t count, read_count(in, 1, "programs"));
    uint64_t nodes = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const std::string where = "program " + std::to_string(i);
      auto read = dsl::read_program(in);
      if (!read) return std::move(read).error().within(where);
      const unsigned width = read->width();
      if (width != 8 && width != 16 && width != 32 && width != 64)
        return corrupt(where + ": its stream of " + std::to_string(width) + "-bit words is not one of bytes");
      nodes += read->nodes().size();
      if (nodes > kMaxProgramNodes) return corrupt("more than " + std::to_string(kMaxProgramNodes) + " nodes in all");
      manifest_.programs.push_back(std::make_shared<const dsl::Program>(std::move(*read)));
    }
    return {};
  }

  Status read_tables(ByteReader& in) {
    BREVIS_ASSIGN(const uint64_t count, read_count(in, 1, "tables"));
    std::vector<uint64_t> lengths(count);
    for (uint64_t& length : lengths) {
      BREVIS_ASSIGN(length, in.varint_up_to(in.remaining(), "length of a table"));
    }
    manifest_.tables.reserve(count);
    for (const uint64_t length : lengths) {
      BREVIS_ASSIGN(const ByteSpan bytes, in.bytes(length));
      manifest_.tables.emplace_back(bytes.begin(), bytes.end());
    }
    return {};
  }

  Status read_records(ByteReader& in) {
    constexpr uint64_t kLeastRecord = 1 + 1 + 16;  // program, words, digest
    BREVIS_ASSIGN(const uint64_t count, read_count(in, kLeastRecord, "records"));
    if (count >= UINT32_MAX) return corrupt("more records than 32 bits count");
    auto& records = manifest_.records;
    records.resize(count);
    uint64_t nodes = 0;
    for (Record& record : records) {
      BREVIS_ASSIGN(const uint64_t folded, in.varint());
      if (folded >> 1 >= manifest_.programs.size())
        return corrupt("names program " + std::to_string(folded >> 1) + " of " +
                       std::to_string(manifest_.programs.size()));
      record.program = static_cast<uint32_t>(folded >> 1);
      record.bundle = (folded & 1) != 0;
      nodes += manifest_.programs[record.program]->nodes().size();
      if (nodes > kMaxRecordNodes)
        return corrupt("programs of all records have more than " + std::to_string(kMaxRecordNodes) + " nodes");
    }
    for (Record& record : records) {
      BREVIS_ASSIGN(record.words, in.varint_up_to(kMaxOriginalBytes / (manifest_.width_of(record) / 8), "words"));
      if (record.words == 0) return corrupt("a record without words");
    }
    for (Record& record : records) BREVIS_TRY(read_frame_words(in, record));
    uint64_t last = 0;
    for (Record& record : records) BREVIS_TRY(read_bindings(in, record, last));
    uint64_t first_frame = 0;
    for (size_t i = 0; i < records.size(); ++i) {
      BREVIS_ASSIGN(records[i].digest.low, in.fixed<uint64_t>());
      BREVIS_ASSIGN(records[i].digest.high, in.fixed<uint64_t>());
      auto derived = derive_record(manifest_, records[i], first_frame);
      if (!derived) return std::move(derived).error().within("record " + std::to_string(i));
      const uint64_t frames = manifest_.frames_of(records[i]);
      if (frames > kMaxOriginalBytes - first_frame) return corrupt("more frames than bytes");
      first_frame += frames;
    }
    frame_count_ = first_frame;
    return {};
  }

  Status read_frame_words(ByteReader& in, Record& record) {
    const dsl::Program& program = *manifest_.programs[record.program];
    const size_t regions = program.regions().size();
    if (regions > in.remaining()) return corrupt("frame lengths run out");
    record.frame_words.resize(regions);
    for (uint64_t& words : record.frame_words) {
      BREVIS_ASSIGN(words, in.varint_up_to(dsl::kMaxFrameBytes / (program.width() / 8), "frame length in words"));
      if (words == 0) return corrupt("a frame length of 0 words");
    }
    return {};
  }

  Status read_bindings(ByteReader& in, Record& record, uint64_t& last) {
    const dsl::Program& program = *manifest_.programs[record.program];
    const size_t slots = program.slots().size();
    if (slots > in.remaining() / 2) return corrupt("bindings run out");
    record.bindings.resize(slots);
    uint64_t entries = 0;
    for (size_t slot = 0; slot < slots; ++slot) {
      Binding& binding = record.bindings[slot];
      BREVIS_ASSIGN(const uint64_t more, in.varint_up_to(dsl::kMaxTableSet - 1, "tables of a set less one"));
      binding.resize(more + 1);
      entries += binding.size() * dsl::table_entries(program.nodes()[program.slots()[slot].node]);
      if (entries > dsl::kMaxTableEntries)
        return corrupt("tables of one record have more than " + std::to_string(dsl::kMaxTableEntries) + " entries");
      for (uint32_t& table : binding) {
        BREVIS_ASSIGN(const uint64_t folded, in.varint());
        last += unzigzag(folded);
        if (last >= manifest_.tables.size())
          return corrupt("binds table " + std::to_string(last) + " of " + std::to_string(manifest_.tables.size()));
        table = static_cast<uint32_t>(last);
      }
    }
    return {};
  }

  Status read_segments(ByteReader& in) {
    BREVIS_ASSIGN(const uint64_t count, read_count(in, 1, "segments"));
    BREVIS_ASSIGN(const ByteSpan tags, in.bytes(count));
    auto& segments = manifest_.segments;
    segments.resize(count);
    for (size_t i = 0; i < count; ++i) {
      if (tags[i] >> 4 != 0 || (tags[i] & 3) > 2) return corrupt("segment " + std::to_string(i) + " has no such kind");
      segments[i].kind = static_cast<SegmentKind>(tags[i] & 3);
    }
    const auto spells = [](uint8_t tag) { return tag >> 2 == static_cast<uint8_t>(Placement::explicitly); };
    const auto spelled_count = static_cast<size_t>(std::count_if(tags.begin(), tags.end(), spells));
    if (spelled_count > in.remaining() / 2) return corrupt("places run out");
    std::vector<Segment> spelled(spelled_count);
    for (Segment& place : spelled) {
      BREVIS_ASSIGN(const uint64_t record, in.varint());
      if (record >= manifest_.records.size()) return corrupt("names record " + std::to_string(record));
      place.record = static_cast<uint32_t>(record);
      BREVIS_ASSIGN(place.record_offset, in.varint_up_to(kMaxOriginalBytes, "offset in a record"));
    }
    BREVIS_TRY(place_segments(in, tags, spelled));
    uint64_t expected = 0;
    for (Segment& segment : segments) {
      if (segment.kind != SegmentKind::tensor) continue;
      BREVIS_ASSIGN(const uint64_t folded, in.varint());
      const uint64_t ordinal = expected + unzigzag(folded);
      if (ordinal > UINT32_MAX) return corrupt("ordinal " + std::to_string(ordinal));
      segment.ordinal = static_cast<uint32_t>(ordinal);
      expected = ordinal + 1;
    }
    return {};
  }

  Status place_segments(ByteReader& in, ByteSpan tags, const std::vector<Segment>& spelled) {
    PlaceCursor cursor;
    size_t next_spelled = 0;
    uint64_t offset = 0;
    for (size_t i = 0; i < manifest_.segments.size(); ++i) {
      Segment& segment = manifest_.segments[i];
      const auto placement = static_cast<Placement>(tags[i] >> 2);
      const auto wrong = [i](const std::string& what) { return corrupt("segment " + std::to_string(i) + " " + what); };
      if (placement == Placement::explicitly) {
        segment.record = spelled[next_spelled].record;
        segment.record_offset = spelled[next_spelled++].record_offset;
      } else if (!cursor.place(placement, segment)) {
        return wrong("has no segment before it");
      }
      if (placement != Placement::empty) {
        if (segment.record >= manifest_.records.size()) return wrong("has no record");
        const Record& record = manifest_.records[segment.record];
        const uint64_t bytes = manifest_.bytes_of(record);
        segment.length = bytes;
        if (record.bundle) {
          BREVIS_ASSIGN(segment.length, in.varint_up_to(bytes, "length of a segment"));
        }
        if (segment.length == 0) return wrong("is empty and placed");
        if (segment.record_offset > bytes - segment.length) return wrong("leaves its record");
        if (cursor.placement_of(segment) != placement) return wrong("is placed in a roundabout way");
      }
      BREVIS_TRY(check_kind(i, segment));
      if (segment.length > manifest_.original_size - offset) return wrong("leaves the original file");
      segment.offset = offset;
      offset += segment.length;
      cursor.advance(segment);
    }
    if (offset != manifest_.original_size)
      return corrupt("segments end at byte " + std::to_string(offset) + " of a file of " +
                     std::to_string(manifest_.original_size));
    return {};
  }

  Status check_kind(size_t index, const Segment& segment) {
    const bool prefixed = manifest_.segments.front().kind == SegmentKind::prefix;
    switch (segment.kind) {
      case SegmentKind::prefix:
        if (index != 0) return corrupt("a prefix that is not the first segment");
        if (segment.length < 8 || segment.length > kMaxPrefixBytes)
          return corrupt("a prefix of " + std::to_string(segment.length) + " bytes");
        return {};
      case SegmentKind::tensor:
        if (!prefixed) return corrupt("a tensor without a prefix");
        return {};
      case SegmentKind::opaque:
        if (segment.length == 0) return corrupt("an empty opaque segment");
        return {};
    }
    return corrupt("segment kind");
  }

  Status read_frames(ByteReader& in) {
    constexpr uint64_t kLeastFrame = 1 + 8;
    BREVIS_ASSIGN(const uint64_t count, read_count(in, kLeastFrame, "frames"));
    if (count != frame_count_)
      return corrupt(std::to_string(count) + " frames, but the records have " + std::to_string(frame_count_));
    manifest_.frames.resize(count);
    uint64_t offset = kHeaderBytes;
    for (FrameEntry& frame : manifest_.frames) {
      BREVIS_ASSIGN(const uint64_t length, in.varint_up_to(kMaxStoredFrameBytes, "length of a frame"));
      if (length > frames_end_ - offset) return corrupt("frames run into the index");
      frame.offset = offset;
      frame.length = static_cast<uint32_t>(length);
      offset += length;
    }
    if (offset != frames_end_)
      return corrupt("frames end at byte " + std::to_string(offset) + ", the index starts at " +
                     std::to_string(frames_end_));
    for (FrameEntry& frame : manifest_.frames) {
      BREVIS_ASSIGN(frame.checksum, in.fixed<uint64_t>());
    }
    return {};
  }

  Status read_digest(ByteReader& in) {
    if (in.at_end()) return {};
    BREVIS_ASSIGN(const ByteSpan bytes, in.bytes(32));
    manifest_.sha256.emplace();
    std::copy(bytes.begin(), bytes.end(), manifest_.sha256->begin());
    return {};
  }

  Status read_bases(ByteReader& in) {
    constexpr uint64_t kLeastBase = 16 + 1 + 1 + 1;
    BREVIS_ASSIGN(const uint64_t count, read_count(in, kLeastBase, "bases"));
    if (count == 0 || count > kMaxBases) return corrupt(std::to_string(count) + " bases");
    manifest_.bases.resize(count);
    for (Base& base : manifest_.bases) {
      BREVIS_ASSIGN(base.id.low, in.fixed<uint64_t>());
      BREVIS_ASSIGN(base.id.high, in.fixed<uint64_t>());
      BREVIS_ASSIGN(base.original_size, in.varint_up_to(kMaxOriginalBytes, "size of a base's original"));
      BREVIS_ASSIGN(const uint64_t depth, in.varint_up_to(kMaxDepth - 1, "depth of a base"));
      base.depth = static_cast<uint32_t>(depth);
      BREVIS_ASSIGN(base.hint, read_text(in, kMaxHintBytes, "path of a base"));
    }
    std::vector<bool> named(count);
    uint64_t expected = 0;
    for (size_t i = 0; i < manifest_.records.size(); ++i) {
      Record& record = manifest_.records[i];
      const dsl::Program& program = *manifest_.programs[record.program];
      if (program.bases().empty()) continue;
      BREVIS_ASSIGN(const std::vector<uint64_t> words, dsl::base_lengths(program, record.words));
      for (size_t node = 0; node < words.size(); ++node) {
        const unsigned width = program.nodes()[program.bases()[node]].width;
        record.bases.emplace_back();
        if (auto read = read_spans(in, words[node] * (width / 8), expected, named, record.bases.back()); !read)
          return std::move(read).error().within("record " + std::to_string(i));
      }
    }
    if (std::count(named.begin(), named.end(), false) != 0) return corrupt("a base that no record uses");
    return check_names_alone();
  }

  // Spans of one `base` node, whose stream has `bytes` bytes.
  Status read_spans(ByteReader& in, uint64_t bytes, uint64_t& expected, std::vector<bool>& named,
                    std::vector<BaseSpan>& spans) {
    BREVIS_ASSIGN(const uint64_t count, read_count(in, 2, "spans"));
    if ((count == 0) != (bytes == 0))
      return corrupt(std::to_string(count) + " spans for " + std::to_string(bytes) + " bytes");
    spans.resize(count);
    for (size_t i = 0; i < count; ++i) {
      BaseSpan& span = spans[i];
      BREVIS_ASSIGN(const uint64_t base, in.varint_up_to(manifest_.bases.size() - 1, "number of a base"));
      span.base = static_cast<uint32_t>(base);
      named[base] = true;
      BREVIS_ASSIGN(const uint64_t folded, in.varint());
      span.range = {expected + unzigzag(folded), bytes};
      if (i + 1 < count) {
        BREVIS_ASSIGN(span.range.length, in.varint_up_to(bytes, "length of a span"));
      }
      if (span.range.length == 0) return corrupt("an empty span of a base");
      const uint64_t size = manifest_.bases[base].original_size;
      if (span.range.offset > size || span.range.length > size - span.range.offset)
        return corrupt("bytes " + std::to_string(span.range.offset) + " + " + std::to_string(span.range.length) +
                       " of a base of " + std::to_string(size));
      if (i > 0 && spans[i - 1].base == span.base && spans[i - 1].range.end() == span.range.offset)
        return corrupt("two spans of a base that are one");
      bytes -= span.range.length;
      expected = span.range.end();
    }
    return {};
  }

  // Names and shapes can be read without any other file.
  Status check_names_alone() const {
    for (const Segment& segment : manifest_.segments)
      if (segment.kind == SegmentKind::prefix && !manifest_.records[segment.record].bases.empty())
        return corrupt("a prefix that is made of a base");
    return {};
  }

  // Every `ref` names bytes of the original whose segments are free of refs, so that resolving one ends at once.
  Status check_refs() {
    if (!manifest_.uses_ref()) return {};
    // made_of_refs[i]: segments before i whose records use a ref.
    std::vector<uint32_t> made_of_refs(manifest_.segments.size() + 1);
    for (size_t i = 0; i < manifest_.segments.size(); ++i) {
      const Segment& segment = manifest_.segments[i];
      const bool refs =
          segment.length != 0 && manifest_.programs[manifest_.records[segment.record].program]->uses_ref();
      made_of_refs[i + 1] = made_of_refs[i] + (refs ? 1 : 0);
    }
    for (size_t i = 0; i < manifest_.records.size(); ++i) {
      const Record& record = manifest_.records[i];
      const dsl::Program& program = *manifest_.programs[record.program];
      if (!program.uses_ref()) continue;
      std::vector<Range> targets;
      BREVIS_TRY(collect_refs(program, 0, record.words, targets));
      for (const Range& target : targets) {
        const std::string where = "record " + std::to_string(i) + " refers to bytes " + std::to_string(target.offset) +
                                  " + " + std::to_string(target.length);
        if (target.length > manifest_.original_size || target.offset > manifest_.original_size - target.length)
          return corrupt(where + ", beyond the original file");
        if (target.length == 0) continue;
        const size_t first = manifest_.segment_at(target.offset), last = manifest_.segment_at(target.end() - 1);
        if (made_of_refs[last + 1] != made_of_refs[first]) return corrupt(where + ", themselves made of refs");
      }
    }
    return {};
  }

  // Walks the skeleton below `index`, whose stream has `words` words. Depth is bounded by the program's own gate.
  Status collect_refs(const dsl::Program& program, uint32_t index, uint64_t words, std::vector<Range>& targets) {
    const dsl::Node& node = program.nodes()[index];
    if (node.op == dsl::OpId::ref) {
      targets.push_back({node.params.at(0), words * (program.width() / 8)});
      return {};
    }
    if (node.region >= 0 || node.children.empty()) return {};
    std::vector<uint64_t> lengths(node.children.size());
    BREVIS_TRY(dsl::spec_of(node.op).child_lengths(node, words, {}, lengths));
    for (size_t i = 0; i < lengths.size(); ++i)
      BREVIS_TRY(collect_refs(program, node.children[i], lengths[i], targets));
    return {};
  }

  Manifest manifest_;
  uint64_t frames_end_;
  uint64_t frame_count_ = 0;
};

}  // namespace

Status derive_record(const Manifest& manifest, Record& record, uint64_t first_frame) {
  BREVIS_ASSIGN(record.region_words, dsl::region_lengths(*manifest.programs[record.program], record.words));
  if (record.region_words.size() != record.frame_words.size())
    return corrupt("frame lengths of " + std::to_string(record.frame_words.size()) + " regions for a program of " +
                   std::to_string(record.region_words.size()));
  record.first_frame.resize(record.region_words.size());
  for (size_t region = 0; region < record.region_words.size(); ++region) {
    if (record.frame_words[region] == 0 || record.region_words[region] > kMaxOriginalBytes)
      return corrupt("region " + std::to_string(region) + " has no possible length");
    record.first_frame[region] = first_frame;
    if (record.frames_of(region) > kMaxOriginalBytes - first_frame) return corrupt("more frames than bytes");
    first_frame += record.frames_of(region);
  }
  return {};
}

Result<Manifest> decode_manifest(ByteSpan index, uint64_t original_size, uint64_t frames_end) {
  if (original_size > kMaxOriginalBytes || frames_end < kHeaderBytes || frames_end > kMaxOriginalBytes)
    return corrupt("sizes beyond any file");
  return Gate(original_size, frames_end).run(index);
}

}  // namespace brevis::archive
