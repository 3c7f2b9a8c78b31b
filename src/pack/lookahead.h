// SPDX-License-Identifier: Apache-2.0
//
// Streams read, digested and counted before their turn: tasks of the pool, a part of a stream each, so that workers
// have something to do while the caller chooses programs for one stream after the other. Parts are joined in order by
// whichever task has made the next one; no task waits.
//
// Errors:  those of reading, when the stream's turn comes.
// Threads: one caller, which is no worker of the pool. Owns: the bytes of streams until their turn, which are bounded;
// the destructor waits for running tasks. Determinism: what is told of a stream does not depend on how parts were cut.
#pragma once

#include <condition_variable>
#include <deque>

#include "base/checksum.h"
#include "base/threads.h"
#include "pack/records.h"
#include "pack/source.h"
#include "synth/foresee.h"
#include "synth/stats.h"

namespace brevis::pack {

// What one pass over a stream tells.
struct Scan {
  synth::StreamStats stats;
  std::vector<synth::StreamStats> parts;  // of consecutive parts, long streams only
  Digest digest;
};

constexpr uint64_t kScanBytes = 1u << 20;  // of a stream, gathered at a time

// Joins the statistics of a stream's pieces of kScanBytes, which come in order.
class ScanParts {
 public:
  ScanParts(uint64_t pieces, unsigned width);
  void add(const synth::StreamStats& piece);
  // All but the digest.
  Scan take();

 private:
  const uint64_t pieces_;
  const bool apart_;
  uint64_t seen_ = 0;
  Scan scan_;
};

class LookAhead {
 public:
  struct Looked {
    std::shared_ptr<SpanStream> bytes;
    std::shared_ptr<const Scan> scan;  // null for streams that are too long to be held
    std::shared_ptr<synth::Foreseen> foreseen;
    double foresee_seconds = 0;  // of a processor; for people
  };
  using Foreseen = std::shared_ptr<synth::Foreseen>;
  // Run in a worker once the stream is scanned; empty where nothing is to be foreseen.
  using Foresee = std::function<Foreseen(const SpanStream& bytes, const Scan& scan)>;

  // Holds streams of up to `longest` bytes. Those that wait for their turn have about as much together.
  // `foresee`: asked on the caller's thread when a plan's stream is begun with.
  LookAhead(const Source& source, Pool& pool, const std::vector<RecordPlan>& plans, uint64_t longest,
            std::function<Foresee(const RecordPlan&)> foresee = {});
  ~LookAhead();
  LookAhead(const LookAhead&) = delete;
  LookAhead& operator=(const LookAhead&) = delete;

  // Of the next plan, while there is one.
  Result<Looked> next();

 private:
  struct Piece {
    synth::StreamStats stats;
    bool there = false;
  };
  struct Look {
    const RecordPlan* plan;
    uint64_t bytes;
    std::unique_ptr<uint8_t[]> all;
    std::vector<Piece> pieces;
    size_t next = 0;       // piece to be joined
    bool joining = false;  // by some worker, who alone is at what follows
    bool done = true;
    std::optional<ScanParts> parts;
    DigestHasher hasher;
    Foresee foresee;
    Looked looked;
    Status outcome;
  };
  void start(const RecordPlan& plan);
  void start_more();
  void look(Look& at, size_t piece);
  Status read_and_count(Look& at, size_t piece) const;
  static Status join(Look& at, size_t piece);
  static Status finish(Look& at);

  const Source* source_;
  Pool* pool_;
  const std::vector<RecordPlan>* plans_;
  const uint64_t longest_;
  const std::function<Foresee(const RecordPlan&)> foresee_;
  size_t started_ = 0;      // plans
  uint64_t bytes_ = 0;      // of streams in looks_
  std::deque<Look> looks_;  // which stay where they are as others come and go
  std::mutex mutex_;        // guards `there`, next, joining, done and outcome of all looks, and running_
  std::condition_variable done_;
  size_t running_ = 0;
  std::atomic<bool> stop_{false};
};

}  // namespace brevis::pack
