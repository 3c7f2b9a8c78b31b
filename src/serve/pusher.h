// SPDX-License-Identifier: Apache-2.0
//
// Decoded bytes put into the kernel's page cache before a reader asks for them, by threads that do nothing else.
//
// The kernel locks a page while it is stored, and while a request for it is under way. A thread that stores into a page
// whose request it would have to answer waits for itself; so these threads lead no flight and hold no request while
// they store, and no answer ever waits for them. Pushing into what is being read makes both sides wait for each other,
// so what the reader has come near to is left out. Of each block a hole is left: a range that is pushed whole asks for
// nothing any more, and nobody would know how far its reader is.
//
// Errors:  what the kernel refuses is counted. Threads: any. Owns: its threads, and the bytes on their way.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "brevis/volume.h"
#include "serve/archives.h"

namespace brevis::serve {

class Pusher {
 public:
  using Read = std::function<void(const std::shared_ptr<OpenArchive>&, Range, ReadDone)>;
  Pusher(unsigned threads, Read read);
  ~Pusher() { stop(std::chrono::milliseconds::max()); }

  void start(PushSink sink);
  // Gives up what waits. False: a thread still stores after `limit`.
  bool stop(std::chrono::milliseconds limit);

  struct Job {
    std::shared_ptr<OpenArchive> archive;
    NodeId node = 0;
    std::weak_ptr<const void> open;  // somebody has it open
    Range range;
    uint64_t file_size = 0;
    bool falling = false;
    std::shared_ptr<const std::atomic<uint64_t>> position;  // of the reader
  };
  // False: not started, or memory is short.
  bool push(Job job);
  void count(VolumeCounters& out) const;

 private:
  struct Store {
    NodeId node;
    uint64_t offset;
    std::weak_ptr<const void> open;
    ReadResult bytes;
  };
  void run();
  void begin(const Job& piece);
  void store(const Store& store);
  void read_has_ended(bool& counted);
  bool memory_is_short();

  const unsigned count_;
  const Read read_;
  PushSink sink_;
  mutable std::mutex mutex_;
  std::condition_variable wake_, ended_;
  std::deque<Job> jobs_;      // pieces, each within a block
  std::deque<Store> stores_;  // read, to be stored
  unsigned running_ = 0, reading_ = 0;
  bool started_ = false, stopping_ = false;
  std::vector<std::thread> threads_;
  std::atomic<int64_t> looked_at_{0};  // steady ms, of memory
  std::atomic<bool> short_of_memory_{false};
  std::atomic<uint64_t> pushes_{0}, bytes_{0}, refused_{0};
};

}  // namespace brevis::serve
