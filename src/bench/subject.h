// SPDX-License-Identifier: Apache-2.0
//
// A file as the benchmark wants it: the original's bytes, the frames of its archive, and what each frame gives, all in
// memory. A plain file is packed by the packer itself, into a directory that is in memory where there is one.
//
// Errors:  those of reading, packing and decoding. Threads: immutable once loaded. Owns: all bytes.
#pragma once

#include <string>
#include <vector>

#include "archive/reader.h"
#include "bench/timing.h"

namespace brevis::bench {

struct FrameJob {
  const dsl::BoundProgram* bound;
  uint32_t region;
  uint64_t first_word;
  ByteSpan stored;
  uint64_t checksum;
  size_t at;                // of its bytes in Subject::words
  size_t bytes;             // decoded
  bits::ConstWords target;  // the same as words
};

// Streams of one dtype and program.
struct SubjectGroup {
  std::string dtype, program;
  uint64_t streams = 0;
  uint64_t bytes = 0, packed_bytes = 0;
  size_t first_frame = 0, frames = 0;  // in Subject::frames
};

struct Subject {
  bool was_archive = false;
  uint64_t packed_bytes = 0;  // of the archive
  WarmBuffer original;
  WarmBuffer words;  // what the frames give, a frame after the other, each aligned
  std::vector<FrameJob> frames;
  std::vector<SubjectGroup> groups;  // by dtype, then bytes, most first

  std::shared_ptr<const archive::Reader> reader;
  std::vector<std::shared_ptr<const dsl::BoundProgram>> programs;
  WarmBuffer stored;

  static Result<Subject> load(const std::string& path, const std::function<bool()>& cancelled);
};

}  // namespace brevis::bench
