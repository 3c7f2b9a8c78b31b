// SPDX-License-Identifier: Apache-2.0
//
// What readers of a file will ask for next. Requests of one file, from whatever descriptor, thread or process, are
// taken apart into streams: runs of requests that adjoin each other, rising or falling. Two adjacent requests of some
// size make a stream; a random reader makes none. A stream is given a window ahead of it that doubles as it goes on, up
// to a limit.
//
// Loaders read the index at the front and then many places at once; copies of mapped slices go backwards; some formats
// are read from the tail. All of these are streams, and up to kStreams of them are told apart in a file.
//
// Errors:  none: wrong guesses cost work, and are counted by whoever does it. Threads: one at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "brevis/types.h"

namespace brevis::serve {

class Streams {
 public:
  static constexpr size_t kStreams = 16;

  struct Advice {
    Range range;           // to be fetched ahead; empty: nothing to do
    bool falling = false;  // from its end downwards
    bool is_new = false;   // a stream was recognised
    bool small = false;    // the kernel asks in small pieces: it reads little ahead itself
    uint64_t bytes = 0;    // of the stream so far
    // How far the reader is known to have come: rising up to here, falling down to here.
    std::shared_ptr<const std::atomic<uint64_t>> position;
  };
  // Takes note of a request. `limit`: bytes that may be ahead of each stream; 0: only takes note. `large_limit`: of
  // rising ones whose requests are large, if that is less.
  Advice note(Range request, uint64_t file_size, uint64_t limit, uint64_t large_limit = UINT64_MAX);
  // Streams that are read ahead of now.
  size_t active() const;

 private:
  struct Stream {
    uint64_t low = 0, high = 0;    // what was asked for lately, as one run
    uint64_t bottom = 0, top = 0;  // of all of the run
    uint64_t block = 0;            // it goes on by such blocks, each read the other way; 0: it does not
    uint64_t ahead = 0;            // fetched up to here; falling: down to here
    uint64_t window = 0;           // 0: not recognised yet
    uint64_t requests = 0, bytes = 0, used = 0;
    int direction = 0;      // 1 rising, -1 falling, 0 not known
    bool ended = false;     // nothing is left to read that way
    bool doubtful = false;  // what it has had may be out of the page cache
    std::shared_ptr<std::atomic<uint64_t>> position;
  };
  Stream* match(Range request, int& direction);
  static int direction_of(const Stream& stream, Range request);
  static void turn(Stream& stream, int direction, Range request);
  Stream* match_block(Range request, int& direction);
  Advice go_on(Stream& stream, uint64_t file_size, uint64_t limit, uint64_t large_limit);
  void doubt(const Stream& stream, Range request);
  static bool is_known(const Stream& stream);
  uint64_t read_from(const Stream& stream, uint64_t end) const;
  uint64_t read_down_to(const Stream& stream, uint64_t start) const;

  std::array<Stream, kStreams> streams_;
  uint64_t clock_ = 0;
};

}  // namespace brevis::serve
