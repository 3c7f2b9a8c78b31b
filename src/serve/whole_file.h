// SPDX-License-Identifier: Apache-2.0
//
// A whole original file out of its archive: decoded in parallel, handed over in order, every record held against its
// digest. What fsck and extract have in common.
//
// Bundles are decoded first and kept (within a budget): their members lie scattered over the file, and without that
// each would decode its frame again.
//
// Errors:  in strict runs the first one ends the run; a tolerant run tells each to `damage` and goes on.
// Threads: one caller; frames are decoded in the pool, callbacks come on the calling thread.
#pragma once

#include <functional>
#include <vector>

#include "archive/layout.h"
#include "base/checksum.h"
#include "base/threads.h"

namespace brevis::serve {

struct WholeFileSinks {
  // The bytes of the file from `offset` on, in order. Empty: nobody wants them.
  std::function<Status(uint64_t offset, ByteSpan bytes)> take;
  // Stretches that could not be decoded, and records that do not match their digest (`range` in the record's stream,
  // which it covers whole then). Empty: strict.
  std::function<Status(uint32_t record, Range range, const Error& error)> damage;
  // Bytes decoded since the last call; an Error stops the run.
  std::function<Status(uint64_t bytes)> progress;
};

class WholeFile {
 public:
  WholeFile(const archive::Reader& reader, Pool& pool);

  // Bytes that run() will decode: the file, bundles twice, and records that no segment names.
  uint64_t work_bytes() const { return work_; }
  Status run(const WholeFileSinks& sinks);
  // One record's stream against its digest; `take` gets the stream's bytes.
  Status check_record(uint32_t record, const WholeFileSinks& sinks);

 private:
  struct Chunk {  // of the file, or of a record's stream
    Range range;
    uint32_t record;
  };
  struct Decoded {
    ByteVector bytes;
    std::optional<Error> error;
  };

  Status run_record(uint32_t record, const WholeFileSinks& sinks, bool wanted);
  void cut_file();
  std::vector<Chunk> cut_record(uint32_t record) const;
  uint64_t step_of(const archive::Record& record) const;
  Status decode_chunks(const std::vector<Chunk>& chunks, bool of_file, const WholeFileSinks& sinks,
                       const std::function<Status(const Chunk&, const Decoded&)>& take);
  Status decode_chunk(const Chunk& chunk, bool of_file, MutByteSpan out);
  Status read_file_range(archive::RangeReader& source, Range range, MutByteSpan out) const;
  Status follow_digests(const Chunk& chunk, const Decoded& decoded, const WholeFileSinks& sinks);
  Status mismatch(uint32_t record, const WholeFileSinks& sinks) const;

  const archive::Reader& reader_;
  Pool& pool_;
  std::vector<Chunk> file_chunks_;
  std::vector<uint32_t> separate_;  // records checked on their own: bundles, and those without a segment
  std::map<uint32_t, ByteVector> kept_;
  uint64_t kept_bytes_ = 0, work_ = 0;
  // Buffers and readers between two uses: fresh memory costs more than decoding into it.
  Guarded<std::vector<ByteVector>> spare_buffers_;
  Guarded<std::vector<std::unique_ptr<archive::RangeReader>>> spare_readers_;

  // Where follow_digests() stands.
  size_t segment_ = 0;
  bool segment_damaged_ = false;
  DigestHasher hasher_;
};

}  // namespace brevis::serve
