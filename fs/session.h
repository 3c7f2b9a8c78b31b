// SPDX-License-Identifier: Apache-2.0
//
// One mount and the threads that answer it: a steady number of loop threads, each reading a request and running its
// handler. (The library's own loop makes and ends threads as load comes and goes, and its threads cannot be woken
// without an unmount.) Handlers of names and attributes wait for the source's file system; where that hangs and takes
// every thread with it, spare threads join, so that readers of other files go on.
//
// Errors:  unavailable and permission from mount(), with what the library said.
// Threads: mount, start, stop and destruction from one thread. Owns: the session, its threads and the Service.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "brevis/error.h"
#include "brevis/volume.h"
#include "handlers.h"
#include "mounts.h"

namespace brevis::fs {

struct SessionOptions {
  std::string source;                      // shown in the table of mounts
  std::string mountpoint;                  // absolute, without links
  std::vector<std::string> mount_options;  // for the kernel
  bool allow_other = false, allow_root = false;
  unsigned loop_threads = 2;
  unsigned max_background = 64;
  std::string control;  // path of the control socket, or empty
};

class Session {
 public:
  // Mounts; nothing is answered before start(). The volume's workers may still reply through the session: end the
  // volume after stop() and before the session.
  static Result<std::unique_ptr<Session>> mount(const SessionOptions& options, Volume& volume);
  ~Session();  // after stop()

  // Errors: internal when threads cannot be made.
  Status start();
  // Readable once the kernel's INIT has been answered: from then on the mount answers.
  int ready_fd() const { return ready_fd_; }
  // Readable once every loop thread has ended: unmounted, aborted or stopped.
  int ended_fd() const { return ended_fd_; }
  // Readable when every thread has become busy: look after them with relieve() until it returns false.
  int crowded_fd() const { return crowded_fd_; }
  // Adds threads when all hang. False when at least one is free again.
  bool relieve();
  // Has each thread been in one and the same request for so long?
  bool stuck(std::chrono::milliseconds limit) const;
  // Wakes the threads and waits for them; requests not yet read stay unanswered. False when a thread still hangs in a
  // handler (storage that does not answer) after `limit`: then nothing may be destroyed.
  bool stop(std::chrono::milliseconds limit);
  // Puts bytes into the page cache (push.h). Not from a loop thread.
  bool store(NodeId node, uint64_t offset, const ReadResult& bytes);
  // Does our mount lie uppermost at its path, or has it gone or been covered by another?
  bool on_top() const;
  // The same in the end. A mount made after ours was taken off may have its number: only one whose connection is the
  // dead one can be ours then.
  bool left_behind() const;
  // The device through which the kernel is answered.
  int connection_fd() const;
  // Our line in the table of mounts as it was when mounted.
  const std::optional<MountEntry>& entry() const { return entry_; }
  const std::string& mountpoint() const { return options_.mountpoint; }
  const Latencies& latencies() const { return service_.latencies; }
  // Makes the kernel forget what a name in a directory means. Waits for requests under way in that directory: never
  // called from a thread that answers them.
  void forget_name(NodeId directory, const std::string& name);

 private:
  Session(const SessionOptions& options, Volume& volume);
  Status add_thread();
  void loop(std::atomic<int64_t>& busy_since);

  SessionOptions options_;
  Service service_;
  fuse_session* session_ = nullptr;
  std::optional<MountEntry> entry_;
  int ready_fd_ = -1, ended_fd_ = -1, crowded_fd_ = -1;
  std::atomic<bool> stopping_{false}, ready_told_{false}, crowded_told_{false};
  std::atomic<unsigned> running_{0}, in_request_{0};
  std::vector<std::atomic<int64_t>>
      busy_;  // per thread: since when in a request (steady ns), 0: waiting; spares behind
  std::vector<std::thread> threads_;
};

}  // namespace brevis::fs
