// SPDX-License-Identifier: Apache-2.0
#include "pack/source.h"

#include <algorithm>

namespace brevis::pack {

Result<Source> Source::open(const std::string& path) {
  Source source;
  BREVIS_ASSIGN(source.file_, File::open(path));
  BREVIS_ASSIGN(source.stat_, source.file_.stat());
  if (!source.stat_.is_regular()) return make_error(Errc::invalid_argument, "'" + path + "' is not a regular file");
  source.file_.advise_sequential();
  return source;
}

Result<Source> Source::open_archive(const std::string& path, archive::BaseFinder& finder) {
  BREVIS_ASSIGN(Source source, open(path));
  BREVIS_ASSIGN(source.archive_, archive::open_with_bases(path, finder));
  source.stat_.size = source.archive_->manifest().original_size;
  source.original_ = std::make_shared<archive::RangeReaders>(source.archive_);
  return source;
}

Status Source::read(uint64_t offset, MutByteSpan out) const {
  if (original_) return original_->read({offset, out.size()}, out);
  Status done = file_.read_exact(offset, out);
  if (done || done.error().kind() != Errc::truncated) return done;
  return make_error(Errc::changed, "'" + path() +
                                       "' became shorter while it was being packed; pack it again once "
                                       "nothing writes to it");
}

Status Source::unchanged() const {
  BREVIS_ASSIGN(FileStat now, file_.stat());
  if (archive_) now.size = stat_.size;  // of the original
  if (now.same_version(stat_)) return {};
  return changed();
}

Error Source::changed() const {
  return make_error(Errc::changed,
                    "'" + path() + "' changed while it was being packed; pack it again once nothing writes to it");
}

SpanStream::SpanStream(const Source& source, std::vector<Range> spans) : source_(&source), spans_(std::move(spans)) {
  uint64_t at = 0;
  for (const Range& span : spans_) {
    starts_.push_back(at);
    at += span.length;
  }
  starts_.push_back(at);
}

Status SpanStream::read(uint64_t offset, MutByteSpan out) const {
  if (held_ != nullptr) {
    std::copy_n(held_.get() + offset, out.size(), out.begin());
    return {};
  }
  size_t i = static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), offset) - starts_.begin()) - 1;
  for (size_t done = 0; done < out.size(); ++i) {
    const uint64_t inside = offset + done - starts_[i];
    const size_t n = static_cast<size_t>(std::min<uint64_t>(spans_[i].length - inside, out.size() - done));
    BREVIS_TRY(source_->read(spans_[i].offset + inside, out.subspan(done, n)));
    done += n;
  }
  return {};
}

Result<bool> equals(const SpanStream& stream, const std::function<Status(uint64_t offset, MutByteSpan out)>& read) {
  constexpr uint64_t kPartBytes = 1u << 20;
  ByteVector a(std::min(kPartBytes, stream.bytes())), b(a.size());
  for (uint64_t at = 0; at < stream.bytes(); at += kPartBytes) {
    const size_t n = static_cast<size_t>(std::min(kPartBytes, stream.bytes() - at));
    BREVIS_TRY(stream.read(at, MutByteSpan(a).first(n)));
    BREVIS_TRY(read(at, MutByteSpan(b).first(n)));
    if (!std::equal(a.begin(), a.begin() + static_cast<ptrdiff_t>(n), b.begin())) return false;
  }
  return true;
}

}  // namespace brevis::pack
