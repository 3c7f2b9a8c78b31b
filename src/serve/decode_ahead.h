// SPDX-License-Identifier: Apache-2.0
//
// A thread that decodes what streams come to next, beside the threads that answer requests. Where those wait for the
// next request while the reader copies, or he for one frame while a processor is idle, the work of later requests is
// done in between; it is the same work, earlier. After each piece it lets others go first.
//
// Errors:  none: what is not decoded ahead is decoded when it is asked for. Threads: any. Owns: its thread, which
//          begins with the first job.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "serve/archives.h"

namespace brevis::serve {

class DecodeAhead {
 public:
  struct Job {
    std::shared_ptr<OpenArchive> archive;
    std::weak_ptr<const void> open;  // somebody has it open
    Range range;                     // rising
    Streams::Advice advice;          // of the stream that comes there
  };
  // `decode` must not wait for storage.
  using Decode = std::function<void(const Job&)>;
  explicit DecodeAhead(Decode decode) : decode_(std::move(decode)) {}
  ~DecodeAhead() { stop(); }

  void add(Job job);
  // Gives up what waits; what is being decoded is finished.
  void stop();

 private:
  void run();
  bool next(Job& piece);

  const Decode decode_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace brevis::serve
