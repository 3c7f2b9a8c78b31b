// SPDX-License-Identifier: Apache-2.0
//
// Frames go to the file as they come; everything else is gathered in a Manifest and written at the end. Before the file
// may appear under its name the encoded index is passed through the readers' own gate: what this writer seals, every
// reader opens.
#include "archive/writer.h"

#include "archive/format.h"
#include "base/checksum.h"
#include "base/coding.h"
#include "dsl/wire.h"

namespace brevis::archive {

namespace {

uint32_t number_of(std::map<std::string, uint32_t>& numbers, ByteSpan key, bool& is_new) {
  const auto [at, inserted] =
      numbers.emplace(std::string(key.begin(), key.end()), static_cast<uint32_t>(numbers.size()));
  is_new = inserted;
  return at->second;
}

}  // namespace

Result<Writer> Writer::create(const std::string& path, bool overwrite) {
  Writer writer;
  writer.path_ = path;
  BREVIS_ASSIGN(AtomicFile file, AtomicFile::create(path, overwrite));
  writer.file_ = std::make_unique<AtomicFile>(std::move(file));
  // The place of the header: zeros until seal(), so that a torn file is no archive.
  BREVIS_TRY(writer.put(ByteVector(kHeaderBytes)));
  return writer;
}

Writer Writer::discarding() {
  Writer writer;
  writer.size_ = kHeaderBytes;
  return writer;
}

Status Writer::put(ByteSpan bytes) {
  if (file_) BREVIS_TRY(file_->append(bytes));
  size_ += bytes.size();
  return {};
}

uint32_t Writer::add_program(std::shared_ptr<const dsl::Program> program) {
  ByteVector wire;
  dsl::write_program(*program, wire);
  bool is_new;
  const uint32_t number = number_of(program_numbers_, wire, is_new);
  if (is_new) manifest_.programs.push_back(std::move(program));
  return number;
}

uint32_t Writer::add_table(ByteVector stored) {
  bool is_new;
  const uint32_t number = number_of(table_numbers_, stored, is_new);
  if (is_new) manifest_.tables.push_back(std::move(stored));
  return number;
}

Status Writer::append_frame(ByteSpan stored) {
  if (stored.size() > kMaxStoredFrameBytes)
    return make_error(Errc::invalid_argument, path_ + ": a frame of " + std::to_string(stored.size()) +
                                                  " stored bytes is above the limit of " +
                                                  std::to_string(kMaxStoredFrameBytes));
  const FrameEntry entry{size_, static_cast<uint32_t>(stored.size()), xxh3_64(stored)};
  BREVIS_TRY(put(stored));
  manifest_.frames.push_back(entry);
  return {};
}

uint32_t Writer::add_base(Base base) {
  for (uint32_t i = 0; i < manifest_.bases.size(); ++i)
    if (manifest_.bases[i].id == base.id) return i;
  manifest_.bases.push_back(std::move(base));
  return static_cast<uint32_t>(manifest_.bases.size() - 1);
}

uint32_t Writer::add_record(Record record) {
  const auto number = static_cast<uint32_t>(manifest_.records.size());
  Status derived = record.program < manifest_.programs.size()
                       ? derive_record(manifest_, record, next_frame_)
                       : Status(make_error(Errc::invalid_argument, "names a program that was not added"));
  if (derived && record.bindings.size() != manifest_.programs[record.program]->slots().size())
    derived = make_error(Errc::invalid_argument, "binds not every slot of its program");
  if (derived) {
    next_frame_ += manifest_.frames_of(record);
    if (next_frame_ != manifest_.frames.size())
      derived = make_error(Errc::invalid_argument, std::to_string(manifest_.frames.size()) +
                                                       " frames were appended where the records so far have " +
                                                       std::to_string(next_frame_));
  }
  if (!derived && fault_) fault_ = std::move(derived).error().within("record " + std::to_string(number));
  manifest_.records.push_back(std::move(record));
  return number;
}

void Writer::add_segment(Segment segment) {
  segment.offset = manifest_.original_size;
  manifest_.original_size += segment.length;
  manifest_.segments.push_back(segment);
}

void Writer::set_provenance(std::string key, std::string value) {
  manifest_.provenance[std::move(key)] = std::move(value);
}

void Writer::set_sha256(const Sha256& digest) { manifest_.sha256 = digest; }

Result<Writer::Sealed> Writer::seal(uint32_t mode, int64_t atime_ns, int64_t mtime_ns) {
  if (!fault_) return make_error(Errc::invalid_argument, path_ + ": " + fault_.error().message());
  for (const Segment& segment : manifest_.segments) {
    if (segment.length != 0 && segment.record >= manifest_.records.size())
      return make_error(Errc::invalid_argument, path_ + ": a segment names a record that was not added");
  }
  const ByteVector index = encode_manifest(manifest_);
  const uint64_t index_offset = size_;
  if (auto checked = decode_manifest(index, manifest_.original_size, index_offset); !checked)
    return make_error(Errc::invalid_argument,
                      path_ + ": the parts do not make an archive: " + checked.error().message());
  BREVIS_ASSIGN(const ByteVector stored, pack_index(index, index_offset));
  const Digest id = xxh3_128(index);

  ByteVector footer;
  ByteWriter end(footer);
  end.fixed<uint64_t>(index_offset);
  end.fixed<uint64_t>(stored.size());
  end.fixed<uint64_t>(xxh3_64(stored));
  end.fixed<uint64_t>(kFooterMagic);
  ByteVector header;
  ByteWriter start(header);
  start.fixed<uint64_t>(kHeaderMagic);
  start.fixed<uint32_t>(kVersion);
  start.fixed<uint32_t>(manifest_.features());
  start.fixed<uint64_t>(manifest_.original_size);
  start.fixed<uint64_t>(id.low);
  start.fixed<uint64_t>(id.high);
  start.fixed<uint64_t>(index_offset);
  start.fixed<uint64_t>(stored.size());
  start.fixed<uint64_t>(xxh3_64(header));

  BREVIS_TRY(put(stored));
  BREVIS_TRY(put(footer));
  const Sealed sealed{id, size_};
  if (!file_) return sealed;
  BREVIS_TRY(file_->write_at(0, header));
  BREVIS_TRY(file_->set_mode_and_times(mode, atime_ns, mtime_ns));
  BREVIS_TRY(file_->commit());
  return sealed;
}

}  // namespace brevis::archive
