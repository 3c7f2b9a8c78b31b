// SPDX-License-Identifier: Apache-2.0
//
// One caller at the metrics' address: as much of HTTP/1.1 as a scraper speaks. One request, one answer, then the
// connection is closed.
//
// Threads: the loop's. Owns: its descriptor, and itself while something is awaited.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>

#include "side_loop.h"

namespace brevis::fs {

class MetricsConnection : public std::enable_shared_from_this<MetricsConnection> {
 public:
  MetricsConnection(boost::asio::io_context& loop, int fd, std::shared_ptr<int> count, const SideActions& actions);
  void start();

 private:
  void await_bytes();
  void on_bytes();
  void write_some();
  void end();

  boost::asio::posix::stream_descriptor fd_;
  boost::asio::steady_timer deadline_;
  std::shared_ptr<int> count_;
  const SideActions& actions_;
  std::string received_, to_send_;
  size_t sent_ = 0;
};

// The whole answer to a request's head ("GET /metrics HTTP/1.1" and headers); `body` is asked for when it is wanted.
std::string http_answer(std::string_view head, const std::function<std::string()>& body);

}  // namespace brevis::fs
