// SPDX-License-Identifier: Apache-2.0
#include "serve/whole_file.h"

#include <algorithm>
#include <cstring>

namespace brevis::serve {

namespace {

constexpr uint64_t kChunk = uint64_t{1} << 20;         // decoded at once by one worker
constexpr uint64_t kKeptBundles = uint64_t{64} << 20;  // decoded bundles held in memory
constexpr size_t kWindowPerThread = 2;                 // chunks in flight

template <class T>
T take_spare(Guarded<std::vector<T>>& spares) {
  return spares.with([](std::vector<T>& spare) {
    if (spare.empty()) return T();
    T last = std::move(spare.back());
    spare.pop_back();
    return last;
  });
}

template <class T>
void put_spare(Guarded<std::vector<T>>& spares, T value) {
  spares.with([&](std::vector<T>& spare) { spare.push_back(std::move(value)); });
}

}  // namespace

WholeFile::WholeFile(const archive::Reader& reader, Pool& pool) : reader_(reader), pool_(pool) {
  const archive::Manifest& manifest = reader.manifest();
  std::vector<bool> named(manifest.records.size());
  for (const archive::Segment& segment : manifest.segments)
    if (segment.length != 0) named[segment.record] = true;
  for (uint32_t number = 0; number < manifest.records.size(); ++number) {
    const archive::Record& record = manifest.records[number];
    if (named[number] && !record.bundle) continue;
    separate_.push_back(number);
    work_ += manifest.bytes_of(record);
  }
  work_ += manifest.original_size;
  cut_file();
}

// Bytes of a record's stream that whole frames fill.
uint64_t WholeFile::step_of(const archive::Record& record) const {
  const archive::Manifest& manifest = reader_.manifest();
  const dsl::Program& program = *manifest.programs[record.program];
  if (program.regions().size() != 1 || program.regions().front().root != 0) return kChunk;
  const uint64_t frame = record.frame_words.front() * (program.width() / 8);
  return frame >= kChunk ? frame : kChunk / frame * frame;
}

// Long segments at frame borders, short ones together.
void WholeFile::cut_file() {
  const archive::Manifest& manifest = reader_.manifest();
  Range gathered{0, 0};
  const auto flush = [&] {
    if (gathered.length != 0) file_chunks_.push_back({gathered, 0});
    gathered = {gathered.end(), 0};
  };
  for (const archive::Segment& segment : manifest.segments) {
    if (segment.length + gathered.length <= kChunk) {
      gathered.length += segment.length;
      continue;
    }
    flush();
    const archive::Record& record = manifest.records[segment.record];
    const uint64_t step = step_of(record);
    for (uint64_t at = 0; at < segment.length;) {
      const uint64_t to_border = step - (segment.record_offset + at) % step;
      gathered = {segment.offset + at, std::min(to_border, segment.length - at)};
      at += gathered.length;
      if (at < segment.length) flush();
    }
  }
  flush();
}

std::vector<WholeFile::Chunk> WholeFile::cut_record(uint32_t number) const {
  const archive::Record& record = reader_.manifest().records[number];
  const uint64_t bytes = reader_.manifest().bytes_of(record), step = step_of(record);
  std::vector<Chunk> chunks;
  for (uint64_t at = 0; at < bytes; at += step) chunks.push_back({{at, std::min(step, bytes - at)}, number});
  return chunks;
}

Status WholeFile::read_file_range(archive::RangeReader& source, Range range, MutByteSpan out) const {
  const archive::Manifest& manifest = reader_.manifest();
  uint64_t done = 0, read = 0;
  // Segments that are not kept are read together: small frames gain by being decoded several at a time.
  const auto read_on = [&]() -> Status {
    if (read == done) return {};
    BREVIS_TRY(source.read({range.offset + read, done - read}, out.subspan(read, done - read)));
    read = done;
    return {};
  };
  for (size_t i = manifest.segment_at(range.offset); done < range.length; ++i) {
    const archive::Segment& segment = manifest.segments[i];
    if (segment.length == 0) continue;
    const uint64_t skip = range.offset + done - segment.offset;
    const uint64_t take = std::min(segment.length - skip, range.length - done);
    if (const auto kept = kept_.find(segment.record); kept != kept_.end()) {
      BREVIS_TRY(read_on());
      std::memcpy(out.data() + done, kept->second.data() + segment.record_offset + skip, take);
      read += take;
    }
    done += take;
  }
  return read_on();
}

Status WholeFile::decode_chunk(const Chunk& chunk, bool of_file, MutByteSpan out) {
  auto source = take_spare(spare_readers_);
  if (!source) source = std::make_unique<archive::RangeReader>(reader_);
  Status read =
      of_file ? read_file_range(*source, chunk.range, out) : source->read_record(chunk.record, chunk.range, out);
  put_spare(spare_readers_, std::move(source));
  return read;
}

Status WholeFile::decode_chunks(const std::vector<Chunk>& chunks, bool of_file, const WholeFileSinks& sinks,
                                const std::function<Status(const Chunk&, const Decoded&)>& take) {
  const auto make = [&](size_t i) -> Result<Decoded> {
    const Chunk& chunk = chunks[i];
    Decoded decoded{take_spare(spare_buffers_), std::nullopt};
    decoded.bytes.resize(chunk.range.length);
    if (const Status read = decode_chunk(chunk, of_file, decoded.bytes); !read) {
      if (!sinks.damage) return Error(read.error());
      decoded.error = read.error();
    }
    return decoded;
  };
  const auto hand_over = [&](size_t i, Decoded decoded) -> Status {
    BREVIS_TRY(take(chunks[i], decoded));
    if (sinks.progress) BREVIS_TRY(sinks.progress(chunks[i].range.length));
    put_spare(spare_buffers_, std::move(decoded.bytes));
    return {};
  };
  return ordered_parallel<Decoded>(pool_, chunks.size(), kWindowPerThread * pool_.threads(), make, hand_over);
}

Status WholeFile::mismatch(uint32_t number, const WholeFileSinks& sinks) const {
  const archive::Record& record = reader_.manifest().records[number];
  Error error = make_error(Errc::corrupt, reader_.file().path() + ": record " + std::to_string(number) +
                                              " decodes to other bytes than were packed (digest)");
  if (!sinks.damage) return error;
  return sinks.damage(number, {0, reader_.manifest().bytes_of(record)}, error);
}

Status WholeFile::check_record(uint32_t number, const WholeFileSinks& sinks) { return run_record(number, sinks, true); }

Status WholeFile::run_record(uint32_t number, const WholeFileSinks& sinks, bool wanted) {
  const archive::Record& record = reader_.manifest().records[number];
  const uint64_t bytes = reader_.manifest().bytes_of(record);
  const bool keep = record.bundle && bytes <= kKeptBundles - kept_bytes_;
  ByteVector whole;
  if (keep) whole.reserve(bytes);
  DigestHasher hasher;
  bool damaged = false;
  BREVIS_TRY(decode_chunks(cut_record(number), false, sinks, [&](const Chunk& chunk, const Decoded& decoded) -> Status {
    if (decoded.error) {
      damaged = true;
      return sinks.damage(number, chunk.range, *decoded.error);
    }
    hasher.update(decoded.bytes);
    if (sinks.take && wanted) BREVIS_TRY(sinks.take(chunk.range.offset, decoded.bytes));
    if (keep) whole.insert(whole.end(), decoded.bytes.begin(), decoded.bytes.end());
    return {};
  }));
  if (damaged) return {};
  if (hasher.digest() != record.digest) return mismatch(number, sinks);
  if (keep) {
    kept_bytes_ += bytes;
    kept_.emplace(number, std::move(whole));
  }
  return {};
}

// Feeds the digests of records that are one segment each; the others were checked before.
Status WholeFile::follow_digests(const Chunk& chunk, const Decoded& decoded, const WholeFileSinks& sinks) {
  const archive::Manifest& manifest = reader_.manifest();
  for (uint64_t done = 0; done < chunk.range.length;) {
    const archive::Segment& segment = manifest.segments[segment_];
    const uint64_t at = chunk.range.offset + done;
    const uint64_t take = std::min(segment.offset + segment.length - at, chunk.range.length - done);
    if (segment.length != 0 && !manifest.records[segment.record].bundle) {
      if (at == segment.offset) {
        hasher_ = DigestHasher();
        segment_damaged_ = false;
      }
      segment_damaged_ |= decoded.error.has_value();
      if (!segment_damaged_) hasher_.update(ByteSpan(decoded.bytes).subspan(done, take));
      if (at + take == segment.offset + segment.length && !segment_damaged_ &&
          hasher_.digest() != manifest.records[segment.record].digest)
        BREVIS_TRY(mismatch(segment.record, sinks));
    }
    done += take;
    if (at + take == segment.offset + segment.length) ++segment_;
  }
  return {};
}

Status WholeFile::run(const WholeFileSinks& sinks) {
  for (const uint32_t record : separate_) BREVIS_TRY(run_record(record, sinks, false));
  segment_ = 0;
  return decode_chunks(file_chunks_, true, sinks, [&](const Chunk& chunk, const Decoded& decoded) -> Status {
    BREVIS_TRY(follow_digests(chunk, decoded, sinks));
    if (decoded.error) {
      const archive::Manifest& manifest = reader_.manifest();
      // Each segment of the chunk on its own; those that are whole are no damage.
      uint64_t done = 0;
      for (size_t i = manifest.segment_at(chunk.range.offset); done < chunk.range.length; ++i) {
        const archive::Segment& segment = manifest.segments[i];
        if (segment.length == 0) continue;
        const uint64_t skip = chunk.range.offset + done - segment.offset;
        const uint64_t take = std::min(segment.length - skip, chunk.range.length - done);
        done += take;
        if (manifest.records[segment.record].bundle) continue;  // told when it was checked on its own
        BREVIS_TRY(sinks.damage(segment.record, {segment.record_offset + skip, take}, *decoded.error));
      }
      return {};
    }
    return sinks.take ? sinks.take(chunk.range.offset, decoded.bytes) : Status();
  });
}

}  // namespace brevis::serve
