// SPDX-License-Identifier: Apache-2.0
#include "pack/relations.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>

#include "archive/format.h"
#include "base/checksum.h"

namespace brevis::pack {
namespace {

namespace stdfs = std::filesystem;
using archive::BaseSpan;
using archive::SegmentKind;

constexpr uint64_t kSketchFrom = 256;  // bytes; shorter tensors are known by name alone

std::string name_of(const std::string& path) { return stdfs::path(path).filename().string(); }

// The stored header of an archive, judged.
Result<Verdict> verdict_of(const archive::Reader& reader) {
  const archive::Manifest& manifest = reader.manifest();
  if (manifest.segments.empty() || manifest.segments.front().kind != SegmentKind::prefix) return Verdict{};
  ByteVector prefix(manifest.segments.front().length);
  BREVIS_TRY(archive::read_range(reader, {0, prefix.size()}, prefix));
  return examine_prefix(prefix, manifest.original_size);
}

bool is_plain(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; });
}

bool stands_on(const archive::Reader& reader, const Digest& id) {
  return reader.header().id == id || std::any_of(reader.bases().begin(), reader.bases().end(),
                                                 [&](const auto& base) { return stands_on(*base, id); });
}

}  // namespace

Bases::Bases(std::vector<std::string> roots)
    : finder_(std::move(roots)),
      likeness_(std::make_unique<Likeness>(
          [this](const BaseSpan& span, uint64_t offset, MutByteSpan out) { return read({span}, offset, out); })) {}

Status Bases::add(const std::string& path, bool similar) {
  BREVIS_ASSIGN(const FileStat stat, stat_at(AT_FDCWD, path, true));
  if (!stat.is_directory()) return add_archive(path, similar);
  archive::DirectoryFinder below({path});
  std::vector<std::string> paths;
  for (const auto& [id, at] : below.archives()) paths.push_back(at);
  if (paths.empty()) return make_error(Errc::not_found, "'" + path + "' holds no archive that could be a base");
  std::sort(paths.begin(), paths.end());
  for (const std::string& at : paths) BREVIS_TRY(add_archive(at, similar));
  return {};
}

Status Bases::add_archive(const std::string& path, bool similar) {
  BREVIS_ASSIGN(auto reader, archive::open_with_bases(path, finder_));
  for (const Opened& known : archives_)
    if (known.reader->header().id == reader->header().id) return {};
  if (reader->manifest().depth() >= archive::kMaxDepth)
    return make_error(Errc::invalid_argument,
                      "'" + path + "' stands on a chain of " + std::to_string(archive::kMaxDepth) +
                          " archives already and can be no base: take an earlier one, or make it stand alone "
                          "with --flatten");
  auto original = std::make_unique<archive::RangeReaders>(reader);
  archives_.push_back({std::move(reader), std::move(original)});
  return index(static_cast<uint32_t>(archives_.size() - 1), similar);
}

Status Bases::index(uint32_t number, bool similar) {
  const archive::Reader& reader = *archives_[number].reader;
  const archive::Manifest& manifest = reader.manifest();
  BREVIS_ASSIGN(const Verdict verdict, verdict_of(reader));
  if (similar)
    for (const TensorInfo& tensor : verdict.tensors) {
      if (tensor.span.length == 0) continue;
      const BaseSpan span{number, tensor.span};
      by_name_[{tensor.name, tensor.dtype, tensor.shape, tensor.span.length}].push_back(span);
      if (tensor.span.length >= kSketchFrom) likeness_->add(tensor, span);
    }
  for (const archive::Segment& segment : manifest.segments) {
    if (segment.length == 0 || segment.kind == SegmentKind::prefix) continue;
    const archive::Record& record = manifest.records[segment.record];
    if (!record.bundle)
      by_digest_[{record.digest, segment.length}].push_back({number, {segment.offset, segment.length}});
  }
  return {};
}

bool Bases::include(const Digest& id) const {
  return std::any_of(archives_.begin(), archives_.end(),
                     [&](const Opened& opened) { return stands_on(*opened.reader, id); });
}

Digest Bases::digest() const {
  DigestHasher hasher;
  for (const Opened& opened : archives_) {
    const uint64_t words[] = {opened.reader->header().id.low, opened.reader->header().id.high};
    hasher.update({reinterpret_cast<const uint8_t*>(words), sizeof words});
  }
  return hasher.digest();
}

Result<std::optional<BaseSpan>> Bases::like(const TensorInfo& tensor, const Source& source, bool by_name) const {
  std::vector<BaseSpan> named;
  const auto found = by_name_.find({tensor.name, tensor.dtype, tensor.shape, tensor.span.length});
  if (found != by_name_.end()) named = found->second;
  const std::string file = name_of(source.path());
  std::stable_partition(named.begin(), named.end(), [&](const BaseSpan& span) {
    const std::string base = name_of(path(span.base));
    return base == file || base == file + ".brv";
  });
  if (tensor.span.length < kSketchFrom || (by_name && !named.empty()))
    return named.empty() ? std::optional<BaseSpan>() : std::optional(named.front());
  return likeness_->find(
      tensor, [&](uint64_t offset, MutByteSpan out) { return source.read(tensor.span.offset + offset, out); }, named);
}

std::vector<BaseSpan> Bases::equals(const Digest& digest, uint64_t bytes) const {
  const auto found = by_digest_.find({digest, bytes});
  return found == by_digest_.end() ? std::vector<BaseSpan>() : found->second;
}

Status Bases::read(const std::vector<BaseSpan>& spans, uint64_t offset, MutByteSpan out) const {
  uint64_t at = 0;
  for (const BaseSpan& span : spans) {
    const uint64_t from = std::max(at, offset), to = std::min(at + span.range.length, offset + out.size());
    if (from < to) {
      BREVIS_TRY(archives_[span.base].original->read({span.range.offset + (from - at), to - from},
                                                     out.subspan(from - offset, to - from)));
    }
    at += span.range.length;
  }
  return {};
}

std::optional<uint64_t> Bases::frame_words(const BaseSpan& span, unsigned width, uint64_t frame_bytes) const {
  const archive::Manifest& manifest = archives_[span.base].reader->manifest();
  const auto frame = manifest.provenance.find("frame");
  if (frame == manifest.provenance.end() || frame->second != std::to_string(frame_bytes)) return std::nullopt;
  const archive::Segment& segment = manifest.segments[manifest.segment_at(span.range.offset)];
  const archive::Record& record = manifest.records[segment.record];
  const bool is_whole = segment.offset == span.range.offset && segment.length == span.range.length && !record.bundle;
  const bool one_region = record.frame_words.size() == 1 && record.region_words[0] == record.words;
  if (!is_whole || !one_region || manifest.width_of(record) != width) return std::nullopt;
  return record.frame_words[0];
}

archive::Base Bases::describe(uint32_t base, const std::string& target) const {
  const archive::Reader& reader = *archives_[base].reader;
  archive::Base out{reader.header().id, reader.manifest().original_size, reader.manifest().depth(), {}};
  std::error_code failed;
  const stdfs::path directory = stdfs::absolute(target, failed).lexically_normal().parent_path();
  const stdfs::path at = stdfs::absolute(path(base), failed).lexically_normal();
  if (failed) return out;
  std::string hint = at.lexically_relative(directory).string();
  if (hint.size() <= archive::kMaxHintBytes && is_plain(hint)) out.hint = std::move(hint);
  return out;
}

namespace {

enum class Relation { none, similar, equal };

// The three bundles that come of one.
std::vector<RecordPlan> part_bundle(const RecordPlan& plan, const std::vector<std::pair<Relation, BaseSpan>>& likes) {
  std::vector<RecordPlan> out;
  for (const Relation which : {Relation::equal, Relation::similar, Relation::none}) {
    RecordPlan part = plan;
    part.members.clear();
    part.twins.clear();
    std::map<size_t, size_t> moved;  // place in the plan -> place in the part
    for (size_t i = 0; i < plan.members.size(); ++i) {
      if (likes[i].first != which) continue;
      moved.emplace(i, part.members.size());
      part.members.push_back(plan.members[i]);
      if (which == Relation::none) continue;
      const BaseSpan& like = likes[i].second;
      if (!part.likes.empty() && part.likes.back().base == like.base &&
          part.likes.back().range.end() == like.range.offset)
        part.likes.back().range.length += like.range.length;
      else
        part.likes.push_back(like);
    }
    if (part.members.empty()) continue;
    for (const Twin& twin : plan.twins)
      if (const auto at = moved.find(twin.member); at != moved.end()) {
        part.twins.push_back(twin);
        part.twins.back().member = at->second;
      }
    part.like_is_equal = which == Relation::equal;
    part.bundle = part.members.size() + part.twins.size() > 1;
    out.push_back(std::move(part));
  }
  return out;
}

}  // namespace

Status find_likes(const Bases& bases, const Source& source, const Verdict& verdict, std::vector<RecordPlan>& plans) {
  std::map<uint32_t, const TensorInfo*> by_ordinal;
  for (const TensorInfo& tensor : verdict.tensors) by_ordinal[tensor.ordinal] = &tensor;
  const auto like_of = [&](const Member& member, bool by_name) {
    return bases.like(*by_ordinal.at(member.ordinal), source, by_name);
  };
  std::vector<RecordPlan> out;
  ByteVector own, theirs;
  for (RecordPlan& plan : plans) {
    if (plan.kind != SegmentKind::tensor) {
      out.push_back(std::move(plan));
      continue;
    }
    if (!plan.bundle) {
      BREVIS_ASSIGN(const auto like, like_of(plan.members.front(), false));
      if (like) plan.likes = {*like};
      out.push_back(std::move(plan));
      continue;
    }
    std::vector<std::pair<Relation, BaseSpan>> likes;
    for (const Member& member : plan.members) {
      BREVIS_ASSIGN(const auto like, like_of(member, true));
      likes.emplace_back(like ? Relation::similar : Relation::none, like.value_or(BaseSpan{}));
      if (!like) continue;
      own.resize(member.span.length);
      theirs.resize(member.span.length);
      BREVIS_TRY(source.read(member.span.offset, own));
      BREVIS_TRY(bases.read({*like}, 0, theirs));
      if (own == theirs) likes.back().first = Relation::equal;
    }
    for (RecordPlan& part : part_bundle(plan, likes)) out.push_back(std::move(part));
  }
  plans = std::move(out);
  return {};
}

}  // namespace brevis::pack
