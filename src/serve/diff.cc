// SPDX-License-Identifier: Apache-2.0
//
// Two models by the names of their tensors. Where both sides are archives and a tensor is a record of its own, equal
// digests settle it without decoding; everything else is compared byte by byte, in windows.
#include <algorithm>
#include <map>

#include "archive/bases.h"
#include "archive/layout.h"
#include "base/io.h"
#include "brevis/diff.h"
#include "serve/archive_names.h"

namespace brevis {

namespace {

constexpr uint64_t kWindow = uint64_t{4} << 20;

// Whether an archive uses bytes of the one of this id, itself or through others.
bool uses(const archive::Reader& reader, const Digest& id) {
  return std::any_of(reader.bases().begin(), reader.bases().end(),
                     [&](const auto& base) { return base->header().id == id || uses(*base, id); });
}

// An original file, wherever its bytes are.
class Side {
 public:
  static Result<Side> open(const std::string& path, archive::BaseFinder& finder) {
    Side side;
    BREVIS_ASSIGN(side.file_, File::open(path));
    BREVIS_ASSIGN(const FileStat stat, side.file_.stat());
    if (!stat.is_regular()) return make_error(Errc::invalid_argument, path + ": no regular file");
    ByteVector first(8);
    BREVIS_ASSIGN(const size_t got, side.file_.read_some(0, first));
    first.resize(got);
    const auto header = archive::parse_header(first);
    if (header || header.error().kind() != Errc::not_found) {
      BREVIS_ASSIGN(side.reader_, archive::Reader::open(std::move(side.file_), finder));
      BREVIS_ASSIGN(side.names_, serve::read_names(*side.reader_));
      side.size_ = side.reader_->manifest().original_size;
      return side;
    }
    side.size_ = stat.size;
    const auto names = std::make_shared<serve::ArchiveNames>();
    BREVIS_ASSIGN(names->verdict, examine_file(path));
    if (names->verdict.kind == VerdictKind::not_safetensors)
      return make_error(Errc::invalid_argument, path + ": neither an archive nor a safetensors file; it looks like: " +
                                                    names->verdict.looks_like);
    side.names_ = names;
    return side;
  }

  const Verdict& verdict() const { return names_->verdict; }
  uint64_t size() const { return size_; }
  // Whether this archive uses bytes of the other, itself or through others.
  bool stands_on(const Side& other) const {
    return reader_ && other.reader_ && uses(*reader_, other.reader_->header().id);
  }
  const std::optional<Sha256>& sha256() const {
    static const std::optional<Sha256> none;
    return reader_ ? reader_->manifest().sha256 : none;
  }

  Status read(Range range, MutByteSpan out) const {
    return reader_ ? archive::read_range(*reader_, range, out) : file_.read_exact(range.offset, out);
  }

  // XXH3-128 of a tensor's bytes, when the archive has it.
  std::optional<Digest> digest_of(const TensorInfo& tensor) const {
    if (!reader_ || tensor.span.length == 0) return std::nullopt;
    const archive::Manifest& manifest = reader_->manifest();
    const archive::Segment& segment = manifest.segments[manifest.segment_at(tensor.span.offset)];
    const archive::Record& record = manifest.records[segment.record];
    if (record.bundle || Range{segment.offset, segment.length} != tensor.span) return std::nullopt;
    return record.digest;
  }

 private:
  File file_;
  std::shared_ptr<const archive::Reader> reader_;
  std::shared_ptr<const serve::ArchiveNames> names_;
  uint64_t size_ = 0;
};

uint64_t count_differing(ByteSpan a, ByteSpan b) {
  if (std::equal(a.begin(), a.end(), b.begin())) return 0;
  uint64_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) count += a[i] != b[i] ? 1 : 0;
  return count;
}

// Bytes that differ between two ranges of equal length; with `first_only`, 1 as soon as one does.
Result<uint64_t> differing(const Side& a, Range range_a, const Side& b, Range range_b, bool first_only) {
  ByteVector bytes_a, bytes_b;
  uint64_t count = 0;
  for (uint64_t done = 0; done < range_a.length;) {
    const uint64_t length = std::min(kWindow, range_a.length - done);
    bytes_a.resize(length);
    bytes_b.resize(length);
    BREVIS_TRY(a.read({range_a.offset + done, length}, bytes_a));
    BREVIS_TRY(b.read({range_b.offset + done, length}, bytes_b));
    count += count_differing(bytes_a, bytes_b);
    if (first_only && count != 0) return 1;
    done += length;
  }
  return count;
}

std::string type_of(const TensorInfo& tensor) {
  std::string text = tensor.dtype_name + " [";
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i != 0) text += ',';
    text += std::to_string(tensor.shape[i]);
  }
  text += ']';
  return text;
}

std::map<std::string, const TensorInfo*> by_name(const Side& side) {
  std::map<std::string, const TensorInfo*> tensors;
  for (const TensorInfo& tensor : side.verdict().tensors) tensors.emplace(tensor.name, &tensor);
  return tensors;
}

Status compare_tensor(const Side& a, const TensorInfo& in_a, const Side& b, const TensorInfo& in_b,
                      DiffReport& report) {
  TensorChange change{ChangeKind::changed, in_a.name, type_of(in_a), type_of(in_b), 0, in_b.span.length};
  if (change.before != change.after || in_a.span.length != in_b.span.length) {
    change.kind = ChangeKind::retyped;
    report.changes.push_back(std::move(change));
    return {};
  }
  const auto digest_a = a.digest_of(in_a), digest_b = b.digest_of(in_b);
  if (!digest_a || !digest_b || *digest_a != *digest_b) {
    BREVIS_ASSIGN(change.differing_bytes, differing(a, in_a.span, b, in_b.span, false));
  }
  if (change.differing_bytes != 0) {
    report.changes.push_back(std::move(change));
  } else {
    ++report.same_tensors;
  }
  return {};
}

Result<bool> identical(const Side& a, const Side& b) {
  if (a.size() != b.size()) return false;
  if (a.sha256() && b.sha256()) return *a.sha256() == *b.sha256();
  BREVIS_ASSIGN(const uint64_t count, differing(a, {0, a.size()}, b, {0, b.size()}, true));
  return count == 0;
}

}  // namespace

Result<DiffReport> diff(const std::string& path_a, const std::string& path_b,
                        const std::vector<std::string>& base_paths) {
  archive::DirectoryFinder finder(base_paths);
  BREVIS_ASSIGN(const Side a, Side::open(path_a, finder));
  BREVIS_ASSIGN(const Side b, Side::open(path_b, finder));
  DiffReport report;
  if (b.stands_on(a)) report.relation = "B stands on A";
  if (a.stands_on(b)) report.relation = "A stands on B";
  auto metadata_a = a.verdict().metadata, metadata_b = b.verdict().metadata;
  std::sort(metadata_a.begin(), metadata_a.end());
  std::sort(metadata_b.begin(), metadata_b.end());
  report.metadata_differs = metadata_a != metadata_b;
  const auto tensors_a = by_name(a), tensors_b = by_name(b);
  auto in_a = tensors_a.begin(), in_b = tensors_b.begin();
  while (in_a != tensors_a.end() || in_b != tensors_b.end()) {
    const bool only_a = in_b == tensors_b.end() || (in_a != tensors_a.end() && in_a->first < in_b->first);
    const bool only_b = !only_a && (in_a == tensors_a.end() || in_b->first < in_a->first);
    if (only_a) {
      const TensorInfo& tensor = *(in_a++)->second;
      report.changes.push_back({ChangeKind::removed, tensor.name, type_of(tensor), "", 0, tensor.span.length});
    } else if (only_b) {
      const TensorInfo& tensor = *(in_b++)->second;
      report.changes.push_back({ChangeKind::added, tensor.name, "", type_of(tensor), 0, tensor.span.length});
    } else {
      BREVIS_TRY(compare_tensor(a, *in_a->second, b, *in_b->second, report));
      ++in_a;
      ++in_b;
    }
  }
  BREVIS_ASSIGN(report.identical_files, identical(a, b));
  return report;
}

}  // namespace brevis
