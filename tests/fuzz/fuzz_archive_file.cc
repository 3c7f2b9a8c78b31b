// SPDX-License-Identifier: Apache-2.0
//
// Whole archives: opened, planned, every frame decoded. Checksums would keep a fuzzer out, so the target mends those of
// header, index and footer, and hands frames to the decoder unchecked: a decoder must stand any bytes.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "archive/layout.h"
#include "archive/manifest.h"
#include "archive/reader.h"
#include "base/arena.h"
#include "base/checksum.h"
#include "dsl/exec.h"
#include "fuzz/fuzz.h"

using namespace brevis;

namespace {

uint64_t word_at(const ByteVector& bytes, size_t at) {
  uint64_t word = 0;
  std::memcpy(&word, bytes.data() + at, 8);
  return word;
}

void put(ByteVector& bytes, size_t at, uint64_t word) { std::memcpy(bytes.data() + at, &word, 8); }

void mend(ByteVector& file) {
  if (file.size() < 96) return;
  const uint64_t offset = word_at(file, 40), length = word_at(file, 48);
  const size_t footer = file.size() - 32;
  if (offset <= footer && length <= footer - offset) {
    const ByteSpan index = ByteSpan(file).subspan(offset, length);
    if (const auto plain = archive::unpack_index(index)) {
      const Digest id = xxh3_128(*plain);
      put(file, 24, id.low);
      put(file, 32, id.high);
    }
    put(file, footer, offset);
    put(file, footer + 8, length);
    put(file, footer + 16, xxh3_64(index));
  }
  put(file, 56, xxh3_64(ByteSpan(file).first(56)));
}

void decode_all(const archive::Reader& reader, ByteSpan file) {
  const archive::Manifest& manifest = reader.manifest();
  Arena arena;
  for (uint32_t record = 0; record < manifest.records.size(); ++record) {
    const archive::Record& what = manifest.records[record];
    const auto bound = reader.bound(record);
    if (!bound) continue;
    const auto& regions = (*bound)->program().regions();
    for (size_t region = 0; region < regions.size(); ++region) {
      const unsigned width = (*bound)->program().nodes()[regions[region].root].width;
      for (uint64_t frame = 0; frame < what.frames_of(region) && frame < 64; ++frame) {
        const archive::FrameEntry& entry = manifest.frames[what.first_frame[region] + frame];
        if (entry.offset > file.size() || entry.length > file.size() - entry.offset) continue;
        const uint64_t first = frame * what.frame_words[region];
        const uint64_t words = std::min(what.frame_words[region], what.region_words[region] - first);
        arena.reset();
        const size_t bytes = words * width / 8;
        const std::vector<ByteVector> zeros(regions[region].bases, ByteVector(bytes * 8));
        std::vector<ByteSpan> bases;
        for (uint32_t i = 0; i < regions[region].bases; ++i) {
          const auto& program = (*bound)->program();
          const unsigned lane = program.nodes()[program.bases()[regions[region].first_base + i]].width / 8u;
          bases.push_back(ByteSpan(zeros[i]).first(words * lane));
        }
        static_cast<void>(dsl::decode_frame(**bound, static_cast<uint32_t>(region), first,
                                            file.subspan(entry.offset, entry.length), {arena.take(bytes), bytes},
                                            arena));
      }
    }
  }
}

// Planning touches no frames: every range may be asked for.
void plan_ends(const archive::Reader& reader) {
  const uint64_t size = reader.header().original_size, length = std::min<uint64_t>(size, 1 << 20);
  for (const uint64_t offset : {uint64_t{0}, size - length, size / 2 - std::min(size / 2, length)}) {
    std::vector<archive::FilePiece> pieces;
    if (!archive::plan_file(reader, {offset, length}, pieces)) continue;
    uint64_t at = 0;
    for (const archive::FilePiece& piece : pieces) {
      BREVIS_FUZZ_CHECK(piece.piece.at == at);
      at += piece.piece.length;
      if (piece.piece.kind != dsl::Piece::Kind::frame) continue;
      BREVIS_FUZZ_CHECK(piece.frame_index < reader.manifest().frames.size());
      BREVIS_FUZZ_CHECK(piece.piece.source + piece.piece.length <= archive::frame_place(reader, piece).bytes);
    }
    BREVIS_FUZZ_CHECK(at == length);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ByteVector bytes(data, data + size);
  mend(bytes);
  const int fd = ::memfd_create("archive", MFD_CLOEXEC);
  BREVIS_FUZZ_CHECK(fd >= 0 && ::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  if (auto file = File::open("/proc/self/fd/" + std::to_string(fd))) {
    if (const auto reader = archive::Reader::open(std::move(*file))) {
      plan_ends(**reader);
      decode_all(**reader, bytes);
    }
  }
  ::close(fd);
  return 0;
}
