// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "archive/bases.h"
#include "archive/format.h"
#include "archive/layout.h"
#include "base/threads.h"
#include "brevis/archive.h"
#include "dsl/text.h"
#include "serve/archive_names.h"

namespace brevis {

namespace {

using archive::Record;
using archive::Segment;
using archive::SegmentKind;

SpanKind span_kind(SegmentKind kind) {
  switch (kind) {
    case SegmentKind::prefix: return SpanKind::prefix;
    case SegmentKind::tensor: return SpanKind::tensor;
    case SegmentKind::opaque: return SpanKind::opaque;
  }
  return SpanKind::opaque;
}

// A node as "merge[2] rank[0] literal(alias)": the way down from the root with the child's place, then the node.
std::vector<std::string> node_paths(const dsl::Program& program) {
  const auto& nodes = program.nodes();
  std::vector<std::string> above(nodes.size()), paths(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::string name(dsl::spec_of(nodes[i].op).name);
    if (nodes[i].op == dsl::OpId::literal && !nodes[i].params.empty()) {
      const codec::CodecSpec* codec = codec::find_codec(nodes[i].params[0]);
      paths[i] = above[i] + name + "(" + (codec != nullptr ? std::string(codec->name) : "?") + ")";
    } else {
      paths[i] = above[i] + name;
    }
    for (size_t child = 0; child < nodes[i].children.size(); ++child)
      above[nodes[i].children[child]] = above[i] + name + "[" + std::to_string(child) + "] ";
  }
  return paths;
}

class ArchiveImpl : public Archive {
 public:
  ArchiveImpl(std::shared_ptr<const archive::Reader> reader, std::vector<std::string> base_paths)
      : reader_(std::move(reader)), finder_(std::move(base_paths)) {}

  Status fill_info() {
    BREVIS_ASSIGN(const FileStat stat, reader_->file().stat());
    const archive::Header& header = reader_->header();
    const archive::Manifest& manifest = reader_->manifest();
    info_.version = header.version;
    info_.id = header.id;
    info_.original_size = header.original_size;
    info_.archive_size = stat.size;
    info_.index_bytes = header.index_length;
    info_.sha256 = manifest.sha256;
    info_.provenance = manifest.provenance;
    for (const archive::Base& base : manifest.bases)
      info_.bases.push_back({base.id, base.original_size, base.depth, base.hint});
    info_.programs = manifest.programs.size();
    info_.tables = manifest.tables.size();
    info_.records = manifest.records.size();
    info_.segments = manifest.segments.size();
    info_.frames = manifest.frames.size();
    for (const ByteVector& table : manifest.tables) info_.table_bytes += table.size();
    return {};
  }

  const std::string& path() const override { return reader_->file().path(); }
  const ArchiveInfo& info() const override { return info_; }

  Result<Verdict> verdict() const override {
    BREVIS_ASSIGN(const auto named, names());
    return named->verdict;
  }

  Result<std::vector<ArchiveSpan>> spans() const override {
    BREVIS_ASSIGN(const auto named, names());
    const archive::Manifest& manifest = reader_->manifest();
    std::vector<ArchiveSpan> spans;
    spans.reserve(manifest.segments.size());
    std::set<std::pair<uint32_t, uint64_t>> seen;  // places in records: a second segment there is a duplicate
    for (size_t i = 0; i < manifest.segments.size(); ++i) {
      const Segment& segment = manifest.segments[i];
      ArchiveSpan span{span_kind(segment.kind), {segment.offset, segment.length}, {}};
      if (named->info[i] != nullptr) span.tensor = *named->info[i];
      if (segment.length != 0) {
        const Record& record = manifest.records[segment.record];
        const bool first = seen.emplace(segment.record, segment.record_offset).second;
        span.duplicate = !first || manifest.programs[record.program]->root().op == dsl::OpId::ref;
        span.bundled = record.bundle;
        span.on_base = !record.bases.empty();
        span.digest = record.digest;
        if (!span.duplicate)
          span.packed_bytes = static_cast<uint64_t>(static_cast<unsigned __int128>(manifest.stored_bytes_of(record)) *
                                                    segment.length / manifest.bytes_of(record));
      }
      spans.push_back(std::move(span));
    }
    return spans;
  }

  Result<Explanation> explain(const ArchiveSpan& span) const override {
    const archive::Manifest& manifest = reader_->manifest();
    Explanation out;
    if (span.span.length == 0) return out;
    if (span.span.offset >= manifest.original_size)
      return make_error(Errc::invalid_argument, path() + ": no span at byte " + std::to_string(span.span.offset));
    const Segment& segment = manifest.segments[manifest.segment_at(span.span.offset)];
    const Record& record = manifest.records[segment.record];
    BREVIS_ASSIGN(const auto bound, reader_->bound(segment.record));
    const dsl::Program& program = bound->program();
    out.program = dsl::print(program);
    out.words = record.words;
    out.frame_words = record.frame_words;
    out.frames = manifest.frames_of(record);
    out.record_bytes = manifest.stored_bytes_of(record);
    std::set<uint32_t> tables;
    for (const archive::Binding& binding : record.bindings) tables.insert(binding.begin(), binding.end());
    out.tables.assign(tables.begin(), tables.end());
    for (const uint32_t table : tables) out.table_bytes += manifest.tables[table].size();
    std::set<size_t> bases;
    for (const auto& spans : record.bases)
      for (const archive::BaseSpan& used : spans) bases.insert(used.base);
    out.bases.assign(bases.begin(), bases.end());
    BREVIS_TRY(sum_leaves(segment.record, *bound, out));
    return out;
  }

  Status read(Range range, MutByteSpan out) const override {
    BREVIS_ASSIGN(const auto reader, whole());
    return archive::read_range(*reader, range, out);
  }

 private:
  // The archive with its bases.
  Result<std::shared_ptr<const archive::Reader>> whole() const {
    if (reader_->manifest().bases.empty()) return reader_;
    if (auto known = whole_.with([](const auto& reader) { return reader; })) return known;
    BREVIS_ASSIGN(auto opened, archive::open_with_bases(path(), finder_));
    if (opened->header().id != reader_->header().id)
      return make_error(Errc::changed, path() + ": was replaced while it was read");
    whole_.with([&](auto& reader) { reader = opened; });
    return opened;
  }

  Result<std::shared_ptr<const serve::ArchiveNames>> names() const {
    if (auto known = names_.with([](const auto& names) { return names; })) return known;
    BREVIS_ASSIGN(auto read, serve::read_names(*reader_));
    names_.with([&](auto& names) { names = read; });
    return read;
  }

  Status sum_leaves(uint32_t number, const dsl::BoundProgram& bound, Explanation& out) const {
    const Record& record = reader_->manifest().records[number];
    std::vector<uint64_t> bytes(bound.program().nodes().size());
    std::vector<bool> is_leaf(bytes.size());
    uint64_t payload = 0;
    ByteVector stored;
    for (uint32_t region = 0; region < record.region_words.size(); ++region) {
      for (uint64_t frame = 0; frame < record.frames_of(region); ++frame) {
        BREVIS_TRY(reader_->read_frame(record.first_frame[region] + frame, stored));
        const uint64_t first = frame * record.frame_words[region];
        const uint64_t words = std::min(record.frame_words[region], record.region_words[region] - first);
        BREVIS_ASSIGN(const auto leaves, dsl::frame_leaves(bound, region, words, stored));
        for (const dsl::LeafBytes& leaf : leaves) {
          bytes[leaf.node] += leaf.bytes;
          is_leaf[leaf.node] = true;
          payload += leaf.bytes;
        }
      }
    }
    out.frame_overhead_bytes = out.record_bytes - payload;
    const std::vector<std::string> paths = node_paths(bound.program());
    for (size_t node = 0; node < bytes.size(); ++node)
      if (is_leaf[node]) out.leaves.push_back({paths[node], bound.program().nodes()[node].width, bytes[node]});
    return {};
  }

  std::shared_ptr<const archive::Reader> reader_;
  mutable archive::DirectoryFinder finder_;
  mutable Guarded<std::shared_ptr<const archive::Reader>> whole_;
  ArchiveInfo info_;
  mutable Guarded<std::shared_ptr<const serve::ArchiveNames>> names_;
};

}  // namespace

Result<std::optional<ArchiveSummary>> peek_archive(const std::string& path) {
  BREVIS_ASSIGN(const File file, File::open(path));
  BREVIS_ASSIGN(const FileStat stat, file.stat());
  if (!stat.is_regular()) return std::optional<ArchiveSummary>();
  ByteVector first(archive::kHeaderBytes);
  BREVIS_ASSIGN(const size_t got, file.read_some(0, first));
  first.resize(got);
  auto header = archive::parse_header(first);
  if (!header && header.error().kind() == Errc::not_found) return std::optional<ArchiveSummary>();
  if (!header) return std::move(header).error().within(path);
  return std::optional(ArchiveSummary{header->original_size, stat.size, header->version, header->id});
}

Result<std::shared_ptr<const Archive>> Archive::open(const std::string& path,
                                                     const std::vector<std::string>& base_paths) {
  BREVIS_ASSIGN(File file, File::open(path));
  BREVIS_ASSIGN(auto reader, archive::Reader::open(std::move(file)));
  const auto opened = std::make_shared<ArchiveImpl>(std::move(reader), base_paths);
  BREVIS_TRY(opened->fill_info());
  return std::shared_ptr<const Archive>(opened);
}

}  // namespace brevis
