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

Status Source::read(uint64_t offset, MutByteSpan out) const {
  Status done = file_.read_exact(offset, out);
  if (done || done.error().kind() != Errc::truncated) return done;
  return make_error(Errc::changed, "'" + path() +
                                       "' became shorter while it was being packed; pack it again once "
                                       "nothing writes to it");
}

Status Source::unchanged() const {
  BREVIS_ASSIGN(const FileStat now, file_.stat());
  if (now.same_version(stat_)) return {};
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
  size_t i = static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), offset) - starts_.begin()) - 1;
  for (size_t done = 0; done < out.size(); ++i) {
    const uint64_t inside = offset + done - starts_[i];
    const size_t n = static_cast<size_t>(std::min<uint64_t>(spans_[i].length - inside, out.size() - done));
    BREVIS_TRY(source_->read(spans_[i].offset + inside, out.subspan(done, n)));
    done += n;
  }
  return {};
}

}  // namespace brevis::pack
