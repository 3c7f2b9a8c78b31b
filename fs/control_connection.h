// SPDX-License-Identifier: Apache-2.0
//
// One caller at the control socket: requests one after the other, each answered before the next is read. A caller who
// sends a line too long, says nothing for a while or does not read his answers is cut off.
//
// Threads: the loop's; work runs on the pool for long requests and reports back to the loop.
// Owns:    its descriptor, one passed descriptor at most, and itself while something is awaited.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <string>

#include "side_loop.h"

namespace brevis::fs {

// What connections share.
struct ControlShared {
  SideActions actions;
  std::atomic<bool> stopping{false};
  boost::asio::thread_pool& jobs;
};

class ControlConnection : public std::enable_shared_from_this<ControlConnection> {
 public:
  ControlConnection(boost::asio::io_context& loop, int fd, std::shared_ptr<int> count, ControlShared& shared);
  ~ControlConnection();
  void start();

 private:
  bool caller_is_allowed() const;
  void await_bytes();
  void on_bytes();
  bool take_bytes();  // false: the caller must go
  void next_request();
  void end_when_said();
  void begin_work(const ControlRequest& request);
  void say(std::string line);
  void write_some();
  void watch_time();
  void end();
  int take_passed();

  boost::asio::io_context& loop_;
  boost::asio::posix::stream_descriptor fd_;
  boost::asio::steady_timer deadline_;
  std::shared_ptr<int> count_;
  ControlShared& shared_;
  std::string received_, to_send_;
  int passed_fd_ = -1;
  bool working_ = false, writing_ = false;
  bool heard_all_ = false;  // the caller says no more; he may still listen
  bool ending_ = false;     // once everything is sent
  std::shared_ptr<std::atomic<bool>> gone_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace brevis::fs
