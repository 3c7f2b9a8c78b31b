// SPDX-License-Identifier: Apache-2.0
//
// Frames on their way into an archive: made in the pool, several records' at a time, and taken on the caller's thread
// in the order in which they were asked for. So planning goes on while frames are encoded, and bytes do not depend on
// who was faster.
//
// Errors:  those of what takes; the caller pushes nothing after one.
// Threads: one caller, which is no worker of the pool. Owns: what it was given until it was taken; the destructor waits
// for running tasks.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>

#include "base/threads.h"
#include "bits/words.h"
#include "brevis/types.h"

namespace brevis::pack {

// One frame read, encoded and, unless told otherwise, proved by decoding.
struct EncodedFrame {
  ByteVector stored;
  bits::OwnedWords read;  // empty where the stream's bytes are in memory
  bits::ConstWords words;
};

class FrameQueue {
 public:
  using Make = std::function<Result<EncodedFrame>()>;
  using Take = std::function<Status(Result<EncodedFrame>)>;

  // At most `bytes` of source in flight, or one frame.
  FrameQueue(Pool& pool, uint64_t bytes) : pool_(&pool), limit_(bytes) {}
  ~FrameQueue();
  FrameQueue(const FrameQueue&) = delete;
  FrameQueue& operator=(const FrameQueue&) = delete;

  // Waits for room. `bytes`: of the frame's source.
  Status push(uint64_t bytes, Make make, Take take);
  // Runs `step` here, after everything before it was taken.
  Status then(std::function<Status()> step);
  // Takes what is left.
  Status flush();

 private:
  struct Item {
    uint64_t bytes = 0;
    std::optional<Result<EncodedFrame>> made;
    Take take;
    std::function<Status()> step;  // instead of a frame
  };
  bool is_ready(const Item& item);
  Status take_first();

  Pool* pool_;
  uint64_t limit_, bytes_ = 0;
  std::deque<Item> items_;  // which stay where they are as others come and go
  std::mutex mutex_;        // guards `made` of all items, and running_
  std::condition_variable made_;
  size_t running_ = 0;
  std::atomic<bool> stop_{false};
};

}  // namespace brevis::pack
