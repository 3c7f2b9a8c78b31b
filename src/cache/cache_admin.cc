// SPDX-License-Identifier: Apache-2.0
#include "brevis/cache_admin.h"

#include <algorithm>
#include <map>

#include "cache/directory.h"
#include "cache/slots.h"

namespace brevis {

using namespace cache;

namespace {

// Only of what is there already: taking a directory would make it.
Result<CacheDirectory> take_existing(const std::string& directory) {
  BREVIS_ASSIGN(const CacheDirectory seen, CacheDirectory::look(directory));
  return CacheDirectory::take(directory, true);
}

}  // namespace

Result<CacheReport> report_cache(const std::string& directory) {
  BREVIS_ASSIGN(const CacheDirectory place, CacheDirectory::look(directory));
  BREVIS_ASSIGN(const std::vector<IndexRecord> records, place.records());
  CacheReport report;
  BREVIS_ASSIGN(report.disk_bytes, place.disk_bytes());
  const auto held = CacheDirectory::take(directory, true);
  report.in_use = !held && held.error().kind() == Errc::busy;
  std::map<Digest, CachedArchive> archives;
  for (const IndexRecord& record : records) {
    CachedArchive& archive = archives[record.key.archive];
    archive.name = record.key.archive;
    ++archive.frames, archive.bytes += record.bytes;
    ++report.frames, report.bytes += record.bytes;
  }
  for (const auto& [name, archive] : archives) report.archives.push_back(archive);
  std::stable_sort(report.archives.begin(), report.archives.end(),
                   [](const CachedArchive& a, const CachedArchive& b) { return a.bytes > b.bytes; });
  return report;
}

Status clear_cache(const std::string& directory) {
  BREVIS_ASSIGN(CacheDirectory place, take_existing(directory));
  return place.clear();
}

Result<CacheCheck> verify_cache(const std::string& directory) {
  BREVIS_ASSIGN(CacheDirectory place, take_existing(directory));
  BREVIS_ASSIGN(const std::vector<IndexRecord> records, place.records());
  Slots slots(place.fd(), directory);
  CacheCheck check;
  ByteVector bytes;
  for (const IndexRecord& record : records) {
    bytes.resize(record.bytes);
    const auto got = slots.read({record.slots.data(), record.slot_count()}, bytes, true);
    ++check.frames;
    check.bytes += record.bytes;
    check.wrong += !got || block_checksum(record.key, bytes) != record.checksum;
  }
  return check;
}

}  // namespace brevis
